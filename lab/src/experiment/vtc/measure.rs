//! Measures one cell on a server that has its records.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::cell::{Cell, Figures, Files, Part, Writes};
use super::trial;
use crate::checkpoint::{Course, Script, Trial, checkpoint_alone, play, play_at_half};
use crate::error::Result;
use crate::interrupt::wait_for;
use crate::load::{Group, KeyChoice, Keys, Load, Mix, Pace, Until};
use crate::process::{self, Pinned, beside};
use crate::server::{Info, Product};
use crate::setting::{Setting, fill_silently};
use crate::ycsb;
use tarn_resp::client::Client;

/// The loading threads of the thesis.
const CONNECTIONS: usize = 128;
/// Requests in a batch where only bytes are counted.
const WRITES_PIPELINE: u32 = 16;
/// Checkpoints under load, and starts from files, unless said otherwise.
const REPEATS: u32 = 2;
/// Checkpoints of a server that has nothing else to do.
const ALONE_REPEATS: u32 = 5;
/// Each field of each record is updated so often on average, so that the log turns over.
const TURNS: u64 = 4;
/// The interval between two readings of the log's length.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The log is quiet when nothing was written for this time.
const QUIET: Duration = Duration::from_millis(1500);
/// No longer is waited for that.
const QUIET_PATIENCE: Duration = Duration::from_secs(60);
/// Requests between the load and the measurement of files, in the thesis.
const RUN: Duration = Duration::from_secs(60);

/// A stretch without a checkpoint.
fn stretch(setting: &Setting) -> Duration {
    setting.time(0.3, 2.0)
}

/// Stretches with and without a checkpoint by turns; without any, one stretch of rest.
fn script(setting: &Setting, has_checkpoints: bool) -> Script {
    let stretch = stretch(setting);
    Script {
        warmup: stretch / 2,
        first: stretch,
        rest_least: stretch,
        rest_most: stretch * 2,
        checkpoints: if has_checkpoints { setting.repeats_or(REPEATS) } else { 0 },
        time: stretch * 12,
        operations: u64::MAX,
        rests_at_end: true,
        sql: None,
    }
}

/// Measures a cell.
pub(super) fn measure(setting: &Setting, full: bool, trial: &mut Trial, cell: &Cell) -> Result<Figures> {
    let is_tarns_log = cell.variant.logs() && cell.variant.traits().product == Product::Tarn;
    let figures = Figures {
        loaded_used: trial.server.info_number("memory", "used_memory")?.unwrap_or(0),
        loaded_resident: trial.server.memory()?.resident_bytes,
        log_file_bytes: if is_tarns_log { trial::file_bytes(cell.records) } else { 0 },
        ..Figures::default()
    };
    let script = script(setting, trial.ask.is_some());
    match cell.part {
        Part::Checkpoints | Part::Short => {
            let pace = Pace::Closed { pipeline: 1 };
            let group = Group { name: "closed", connections: CONNECTIONS, pace, mix: requests(cell) };
            Ok(Figures { course: play(setting, trial, group, &script, true)?, ..figures })
        }
        Part::Alone => Ok(Figures { course: alone(setting, trial, cell)?, ..figures }),
        Part::Latency => {
            let until = until(stretch(setting));
            let (saturation, _, course) =
                play_at_half(setting, trial, CONNECTIONS, requests(cell), until, &script)?;
            Ok(Figures { saturation, course, ..figures })
        }
        Part::Files => Ok(Figures { files: files(setting, trial, cell, full)?, ..figures }),
        Part::Writes => Ok(Figures { writes: writes(setting, trial, cell)?, ..figures }),
        // Of no server.
        Part::Positions => Ok(figures),
    }
}

/// Updates of a field, and reads.
fn requests(cell: &Cell) -> Mix {
    ycsb::updates(cell.update_percent, cell.access, cell.records)
}

/// For a while, after a warm-up.
fn until(time: Duration) -> Until {
    Until::Time { warmup: time / 5, measured: time }
}

/// Checkpoints of a server that has nothing else to do. Before each checkpoint random records are written, as
/// many as there are, so that about half of a log is obsolete.
fn alone(setting: &Setting, trial: &Trial, cell: &Cell) -> Result<Course> {
    let mut course = Course::default();
    for number in 0..setting.repeats_or(ALONE_REPEATS) {
        let seed = setting.seed.wrapping_add(1 + u64::from(number));
        let mix = Mix::of(ycsb::write(), Keys::new(KeyChoice::Uniform, cell.records));
        fill_silently(&trial.server, cell.records, mix, seed)?;
        wait_until_quiet(trial)?;
        course.taken.push(checkpoint_alone(trial)?);
    }
    Ok(course)
}

/// Figures 4.6 and 4.7.
fn files(setting: &Setting, trial: &mut Trial, cell: &Cell, full: bool) -> Result<Files> {
    let (run, repeats) = (if full { RUN } else { stretch(setting) * 3 }, setting.repeats_or(REPEATS));
    let loaded_bytes = trial.file_bytes()?;
    setting.saturation(&trial.server, CONNECTIONS, requests(cell), until(run))?;
    if !cell.variant.logs() {
        checkpoint_alone(trial)?;
    }
    let run_bytes = trial.file_bytes()?;
    let mut files = Files { run_s: run.as_secs_f64(), loaded_bytes, run_bytes, ..Files::default() };
    for _ in 0..repeats {
        files.started_s.push(trial.recover()?);
    }
    if cell.variant.logs() && trial.ask.is_some() {
        files.short_bytes = Some(checkpoint_alone(trial)?.file_bytes);
        for _ in 0..repeats {
            files.short_started_s.push(trial.recover()?);
        }
    }
    Ok(files)
}

/// One reading of a log: bytes of the log, bytes needed, bytes appended, bytes written by compaction.
fn look(product: Product, client: &mut Client) -> Result<[u64; 4]> {
    let info = Info::read(client, "persistence")?;
    let number = |name: &str| info.number(name).unwrap_or(0_u64);
    Ok(match product {
        Product::Tarn => {
            let closed = number("log_closed_bytes");
            let needed = closed.saturating_sub(number("log_invalid_bytes"));
            [closed, needed, number("log_appended_bytes"), number("log_compaction_written_bytes")]
        }
        Product::RedisServer => [number("aof_current_size"), number("aof_base_size"), 0, 0],
    })
}

/// Updates fields until the log has turned over, and counts the written bytes.
fn writes(setting: &Setting, trial: &Trial, cell: &Cell) -> Result<Writes> {
    let updates = cell.records * ycsb::FIELDS * if cell.quick { 2 } else { TURNS };
    wait_until_quiet(trial)?;
    let mut client = trial.server.client()?;
    let product = cell.variant.traits().product;
    let (first, written) = (look(product, &mut client)?, process::written_bytes(trial.server.pid()));
    let pace = Pace::Closed { pipeline: WRITES_PIPELINE };
    let group = Group { name: "updates", connections: 16, pace, mix: requests(cell) };
    let load = Load::new(trial.server.address(), vec![group], Until::Requests(updates), setting.seed);
    let began = Instant::now();
    let watch = |is_over: &AtomicBool| -> Result<Vec<(u32, u64, u64)>> {
        let mut client = trial.server.client()?;
        let mut log = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let [all, needed, ..] = look(product, &mut client)?;
            log.push((began.elapsed().as_millis() as u32, all, needed));
            sleep(LOOK_EVERY);
        }
        Ok(log)
    };
    let (log, loaded) = beside(watch, || {
        Pinned::to(&setting.load_cores).and_then(|_pinned| load.run(|_| ()))?.check()?;
        wait_until_quiet(trial)
    });
    loaded?;
    let last = look(product, &mut client)?;
    let device_bytes = process::written_bytes(trial.server.pid()).saturating_sub(written);
    let [appended, compacted] = [2, 3].map(|place| last[place].saturating_sub(first[place]));
    let is_tarn = product == Product::Tarn;
    Ok(Writes {
        updates,
        seconds: began.elapsed().as_secs_f64(),
        device_bytes,
        appended_bytes: is_tarn.then_some(appended),
        compacted_bytes: is_tarn.then_some(compacted),
        log: log?,
    })
}

/// Waits until the server and its children write nothing any more.
fn wait_until_quiet(trial: &Trial) -> Result<()> {
    let pid = trial.server.pid();
    let (mut written, mut since) = (process::written_bytes(pid), Instant::now());
    wait_for(LOOK_EVERY, QUIET_PATIENCE, || {
        let now = process::written_bytes(pid);
        if now != written {
            (written, since) = (now, Instant::now());
        }
        Ok((since.elapsed() >= QUIET).then_some(()))
    })?;
    Ok(())
}
