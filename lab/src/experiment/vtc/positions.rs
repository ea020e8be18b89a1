//! The thesis' positions, which a compaction moves, beside positions that never move, in the same small store
//! ([`tarn_study::vtc`]). The thesis' are measured with our repairs and as it states them. Without a crash
//! and without a delete these lose nothing.
//!
//! ```text
//!   writer      updates ── waits ─────┬── rest ──┬── during ────┬── …   a closed loop, then a fixed rate
//!   compactor   ──────── all files ───┴──────────┴─ all files ──┴── …   on the core of those that flush
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_study::vtc::{Lsns, Options, Ordinals, Positions, Published, Store};
use tempfile::TempDir;

use super::cell::{Cell, PositionFigures, Round, Stretch, Variant};
use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::load::{KeyChoice, Keys};
use crate::process::{self, Pinned, beside};
use crate::setting::Setting;
use crate::ycsb;

/// Requests a second at the fixed rate.
const RATE: u32 = 20_000;
/// Directories, if none are given: the thesis has three devices.
const DIRS: usize = 3;
/// No longer is waited until the log is durable.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests of the closed loop between two looks at whether it is over.
const TURN: u64 = 64;

#[derive(Clone, Copy, PartialEq)]
enum Pace {
    Closed,
    Fixed,
}

/// Measures a cell.
pub(super) fn measure(setting: &Setting, log_dirs: &[PathBuf], cell: &Cell) -> Result<PositionFigures> {
    match cell.variant {
        Variant::Ordinals => Course::<Ordinals>::run(setting, log_dirs, cell),
        Variant::PublishedOrdinals => Course::<Ordinals<Published>>::run(setting, log_dirs, cell),
        _ => Course::<Lsns>::run(setting, log_dirs, cell),
    }
}

/// A store, and the state of the writer.
struct Course<'c, P: Positions> {
    setting: &'c Setting,
    cell: &'c Cell,
    store: &'c Store<P>,
    keys: Keys,
    rng: SmallRng,
    value: Vec<u8>,
}

impl<P: Positions + Sync> Course<'_, P> {
    fn run(setting: &Setting, log_dirs: &[PathBuf], cell: &Cell) -> Result<PositionFigures> {
        let base = setting.make_dir()?;
        let under: Vec<PathBuf> =
            if log_dirs.is_empty() { vec![base.path().to_owned(); DIRS] } else { log_dirs.to_vec() };
        let make = |dir: &PathBuf| {
            std::fs::create_dir_all(dir)
                .and_then(|()| interrupt::temporary("tarn-lab-log-", dir))
                .doing(|| format!("make a directory in {}", dir.display()))
        };
        let dirs: Vec<TempDir> = under.iter().map(make).collect::<Result<_>>()?;
        let dirs = dirs.iter().map(|dir| dir.path().to_owned()).collect::<Vec<_>>();
        let options = Options { entries: cell.records as usize, ..Options::new(dirs) };
        let store = Store::<P>::open(&options).map_err(LabError::refused)?;
        let course = Course {
            setting,
            cell,
            store: &store,
            keys: Keys::new(cell.access, cell.records),
            rng: SmallRng::seed_from_u64(setting.seed),
            value: vec![b'v'; ycsb::VALUE_BYTES as usize],
        };
        let flush = |file| {
            let _pinned = Pinned::to(&setting.load_cores)?;
            while store.flush(file).map_err(LabError::refused)? {}
            Ok(())
        };
        let figures = std::thread::scope(|scope| {
            let closing = Closing(&store);
            let flush = &flush;
            let flushers: Vec<_> = (0..store.files()).map(|file| scope.spawn(move || flush(file))).collect();
            let figures = course.measure();
            drop(closing);
            let join = |flusher: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                flusher.join().expect("a thread that flushes does not panic")
            };
            flushers.into_iter().try_for_each(join)?;
            figures
        });
        let mut figures = figures?;
        drop(store);
        let began = Instant::now();
        let store = Store::<P>::open(&options).map_err(LabError::refused)?;
        figures.started_s = began.elapsed().as_secs_f64();
        let found = store.memory_use().positions as u64;
        if found != figures.position_bytes {
            let why = format!("{}: a start finds {found} bytes of positions", P::NAME);
            return Err(LabError::Reply(format!("{why}, and there were {}", figures.position_bytes)));
        }
        Ok(figures)
    }

    fn measure(mut self) -> Result<PositionFigures> {
        let (store, cores) = (self.store, &self.setting.load_cores);
        for key in 0..self.cell.records {
            store.put(key, &self.value).map_err(LabError::refused)?;
        }
        let mut figures = PositionFigures::default();
        for _ in 0..self.setting.repeats() {
            self.half_obsolete()?;
            let bitmaps = store.memory_use().bitmaps as u64;
            figures.bitmap_bytes = figures.bitmap_bytes.max(bitmaps);
            figures.alone.push(compact_all(store, cores)?);
            for pace in [Pace::Closed, Pace::Fixed] {
                interrupt::check()?;
                self.half_obsolete()?;
                let rest = self.setting.time(0.1, 2.0);
                let ((), stretch) = self.beside(pace, || {
                    std::thread::sleep(rest);
                    Ok(())
                })?;
                let (round, during) = self.beside(pace, || compact_all(store, cores))?;
                let (stretches, durings, rounds) = match pace {
                    Pace::Closed => {
                        (&mut figures.closed, &mut figures.closed_during, &mut figures.closed_rounds)
                    }
                    Pace::Fixed => (&mut figures.fixed, &mut figures.fixed_during, &mut figures.fixed_rounds),
                };
                stretches.push(stretch);
                durings.push(during);
                rounds.push(round);
            }
        }
        figures.position_bytes = store.memory_use().positions as u64;
        figures.appended_bytes = store.appended_bytes();
        Ok(figures)
    }

    /// Compacts what the log has, and then updates as many records as there are, any of them: about half of
    /// the log is obsolete, whatever was before. Waits until all that is durable.
    fn half_obsolete(&mut self) -> Result<()> {
        compact_all(self.store, &self.setting.load_cores)?;
        let mut any = Keys::new(KeyChoice::Uniform, self.cell.records);
        let mut last = 0;
        for _ in 0..self.cell.records {
            last = self.store.put(any.next(&mut self.rng), &self.value).map_err(LabError::refused)?;
        }
        let is_durable = || Ok((self.store.durable() >= last).then_some(()));
        let durable = interrupt::wait_for(Duration::from_millis(1), PATIENCE, is_durable)?;
        durable.ok_or_else(|| LabError::Reply("the log does not become durable".to_owned()))
    }

    /// Works while the writer writes, away from the compactor and from those that flush.
    fn beside<W>(&mut self, pace: Pace, work: impl FnOnce() -> Result<W>) -> Result<(W, Stretch)> {
        let (written, worked) = beside(|is_over| self.write(pace, is_over), work);
        Ok((worked?, written?))
    }

    fn write(&mut self, pace: Pace, is_over: &AtomicBool) -> Result<Stretch> {
        let _pinned = Pinned::to(&self.setting.cores_apart())?;
        process::prefer_thread();
        let mut times_ns = Histogram::<u64>::new(3).expect("three digits are possible");
        let (mut requests, mut longest) = (0_u64, Duration::ZERO);
        let (stalled, cpu, began) = (self.store.stalled(), process::thread_cpu_time(), Instant::now());
        let gap = Duration::from_secs(1) / RATE;
        let mut due = began;
        // Once at least, however soon the work is over.
        while requests == 0
            || !(requests.is_multiple_of(TURN) || pace == Pace::Fixed)
            || !is_over.load(Ordering::Relaxed)
        {
            let from = match pace {
                Pace::Closed => Instant::now(),
                Pace::Fixed => {
                    process::wait_until(due);
                    due
                }
            };
            self.request()?;
            let time = from.elapsed();
            longest = longest.max(time);
            times_ns.saturating_record(time.as_nanos() as u64);
            due += gap;
            requests += 1;
        }
        let seconds = began.elapsed().as_secs_f64();
        let cpu = process::thread_cpu_time() - cpu;
        Ok(Stretch {
            seconds,
            rate: requests as f64 / seconds,
            p999_us: times_ns.value_at_quantile(0.999) as f64 / 1e3,
            max_us: longest.as_secs_f64() * 1e6,
            writer_ns: if pace == Pace::Closed {
                cpu.as_secs_f64() * 1e9 / requests.max(1) as f64
            } else {
                0.0
            },
            stalled_s: (self.store.stalled() - stalled).as_secs_f64(),
        })
    }

    fn request(&mut self) -> Result<()> {
        let key = self.keys.next(&mut self.rng);
        if self.rng.random_range(0..100) < self.cell.update_percent {
            self.value[..8].copy_from_slice(&self.rng.random::<u64>().to_le_bytes());
            return self.store.put(key, &self.value).map(|_| ()).map_err(LabError::refused);
        }
        let value = &mut self.value;
        let found = self.store.get(key, |own| value.copy_from_slice(own));
        found.ok_or_else(|| LabError::Reply(format!("record {key} is not there")))
    }
}

/// Compacts all files, one after the other.
fn compact_all<P: Positions>(store: &Store<P>, cores: &[usize]) -> Result<Round> {
    let _pinned = Pinned::to(cores)?;
    let (cpu, began) = (process::thread_cpu_time(), Instant::now());
    let mut round = Round::default();
    for file in 0..store.files() {
        let done = store.compact(file).and_then(|compaction| compaction.run()).map_err(LabError::refused)?;
        round.read_bytes += done.read_bytes;
        round.written_bytes += done.written_bytes;
        round.kept += done.kept;
        round.dropped += done.dropped;
        round.walked += done.walked;
        round.job_bytes = round.job_bytes.max(done.job_bytes as u64);
    }
    round.seconds = began.elapsed().as_secs_f64();
    round.cpu_s = (process::thread_cpu_time() - cpu).as_secs_f64();
    Ok(round)
}

/// Closes the log when it is dropped, also by an error, so that threads that flush end.
struct Closing<'s, P: Positions>(&'s Store<P>);

impl<P: Positions> Drop for Closing<'_, P> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::super::cell::Part;
    use super::*;

    #[derive(Parser)]
    struct Asked {
        #[command(flatten)]
        options: crate::setting::Options,
    }

    #[test]
    fn all_kinds_of_positions_are_measured_and_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let under = dir.path().to_str().unwrap();
        let words = ["lab", "--quick", "--seconds", "0.02", "--seed", "7", "--dir", under];
        let setting = Setting::of(Vec::new(), Asked::parse_from(words).options).unwrap();
        let all = [(Variant::Ordinals, 0), (Variant::PublishedOrdinals, 0), (Variant::Lsns, 1)];
        for (variant, log_dirs) in all {
            let (part, access, ycsb) = (Part::Positions, KeyChoice::Zipfian, ycsb::Requests::WholeRecords);
            let peer = None;
            let cell = Cell {
                part,
                variant,
                peer,
                records: 3000,
                update_percent: 50,
                access,
                shortage: None,
                ycsb,
                quick: true,
            };
            let logs = vec![dir.path().join("log"); log_dirs];
            let figures = measure(&setting, &logs, &cell).unwrap();
            let moves = variant != Variant::Lsns;
            assert_eq!(figures.position_bytes, 3000 * 8);
            // A bit for each of at least 6,000 records.
            assert!(figures.bitmap_bytes > 6000 / 8 / 2, "{figures:?}");
            // Values of 1,000 bytes.
            assert!(figures.appended_bytes > 2 * 3000 * 1000, "{figures:?}");
            assert!(figures.closed[0].rate > 0.0 && figures.closed_during[0].max_us > 0.0, "{figures:?}");
            assert!(figures.fixed[0].max_us > 0.0 && figures.fixed_during[0].rate > 0.0, "{figures:?}");
            for round in [&figures.alone, &figures.closed_rounds, &figures.fixed_rounds].into_iter().flatten()
            {
                assert!(
                    round.kept + round.dropped > 0 && round.written_bytes <= round.read_bytes,
                    "{round:?}"
                );
                // Two or three files, and as many walks over all entries.
                let walks = if moves { files(log_dirs) * 3000 } else { 0 };
                assert_eq!((round.walked, round.job_bytes > 0), (walks, moves), "{round:?}");
            }
            // As many updates as records, and the log had been compacted.
            let alone = figures.alone[0];
            assert_eq!((alone.kept + alone.dropped, alone.kept), (6000, 3000), "{alone:?}");
        }
        let left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [dir.path().join("log")]);
        assert_eq!(std::fs::read_dir(&left[0]).unwrap().count(), 0);
    }

    fn files(log_dirs: usize) -> u64 {
        if log_dirs == 0 { DIRS as u64 } else { 2 }
    }
}
