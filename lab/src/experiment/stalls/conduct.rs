//! Does the work while the load runs, and tells the load where a stretch with it or without it begins.

use std::time::{Duration, Instant};

use super::giants::Reader;
use super::work::Work;
use crate::error::{LabError, Result};
use crate::interrupt::wait_for;
use crate::load::Cue;
use crate::process::Pinned;
use crate::server::{Info, Server};
use crate::setting::Setting;
use tarn_resp::client::{self, Client};

/// The interval between two checks whether work in the background has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// No work may take longer.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Connections that ask at once.
const MANY: usize = 8;
/// A table of all records.
const TABLE: &str =
    "CREATE EXTERNAL TABLE IF NOT EXISTS records (id TEXT, field0 TEXT) STORED AS HASH LOCATION 'user*'";

/// The course of one measurement.
#[derive(Debug)]
pub(super) struct Script {
    work: Work,
    elements: u64,
    seed: u64,
    /// Cores of the load, on which replies are read, too.
    cores: Vec<usize>,
    /// The time of a stretch.
    stretch: Duration,
    /// Times that the work is done.
    times: u32,
}

/// A stretch that the load measured as a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Act {
    /// Its number.
    pub phase: usize,
    /// True if the work was done in it.
    pub has_work: bool,
}

/// The stretches, and the seconds that the work took, each time.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub acts: Vec<Act>,
    pub took_s: Vec<f64>,
}

impl Script {
    pub(super) fn of(setting: &Setting, work: Work, elements: u64) -> Script {
        let times = if work.takes_all() { 1 } else { setting.repeats() };
        let (cores, stretch) = (setting.load_cores.clone(), setting.time(0.2, 3.0));
        Script { work, elements, seed: setting.seed, cores, stretch, times }
    }
}

struct Conductor<'c> {
    server: &'c Server,
    script: &'c Script,
    cue: &'c Cue,
    client: Client,
    /// The stretch that it is, and since when.
    phase: usize,
    since: Instant,
    played: Played,
}

/// Plays the script. The load is still running afterwards.
pub(super) fn conduct(server: &Server, script: &Script, cue: &Cue) -> Result<Played> {
    // The client that asks shall not take the core of the server.
    let _pinned = Pinned::to(&script.cores)?;
    let (client, since) = (server.client()?, Instant::now());
    let mut conductor = Conductor { server, script, cue, client, phase: 0, since, played: Played::default() };
    conductor.prepare()?;
    for time in 0..script.times {
        if time > 0 && script.work.takes_giant() {
            conductor.prepare()?;
        }
        cue.pause(script.stretch / 3)?;
        conductor.rest()?;
        conductor.work()?;
        conductor.clean()?;
    }
    if !script.work.takes_all() {
        cue.pause(script.stretch / 3)?;
        conductor.rest()?;
    }
    if script.work.giant().is_some() && !script.work.takes_giant() {
        conductor.reader()?.run_text("UNLINK giant", &|| cue.check())?;
    }
    Ok(conductor.played)
}

impl Conductor<'_> {
    fn reader(&self) -> Result<Reader> {
        Reader::connect(self.server)
    }

    fn begin(&mut self) {
        (self.phase, self.since) = (self.cue.next(), Instant::now());
    }

    fn end(&mut self, has_work: bool) {
        self.played.acts.push(Act { phase: self.phase, has_work });
        // Requests of the time until the next stretch belong to none.
        self.cue.next();
    }

    /// A stretch without the work.
    fn rest(&mut self) -> Result<()> {
        self.begin();
        self.cue.pause(self.script.stretch)?;
        self.end(false);
        Ok(())
    }

    /// Begins another stretch where one has become as long as those without the work: the longest latency of
    /// a longer time is longer.
    fn part(&mut self) -> Result<()> {
        self.cue.check()?;
        if self.since.elapsed() >= self.script.stretch {
            self.played.acts.push(Act { phase: self.phase, has_work: true });
            self.begin();
        }
        Ok(())
    }

    /// Makes ready for the work, outside of all stretches.
    fn prepare(&mut self) -> Result<()> {
        if let Some(giant) = self.script.work.giant() {
            giant.fill(self.server, self.script.elements, self.script.seed)?;
        }
        if self.script.work == Work::Index {
            self.client.call(&["SQL", TABLE])?;
        }
        Ok(())
    }

    /// Stretches with the work, the last of which also shows what comes after it.
    fn work(&mut self) -> Result<()> {
        let work = self.script.work;
        let many = if work == Work::Scans { MANY } else { 1 };
        let mut readers = (0..many).map(|_| self.reader()).collect::<Result<Vec<_>>>()?;
        self.begin();
        let began = self.since;
        match work {
            Work::Nothing => {}
            Work::Checkpoint | Work::StreamsCheckpoint => {
                self.background(&["BGSAVE"], "rdb_bgsave_in_progress", "rdb_last_bgsave_status")?;
            }
            Work::Compaction | Work::StreamsCompaction => {
                self.background(&["BGREWRITEAOF"], "aof_rewrite_in_progress", "aof_last_bgrewrite_status")?;
            }
            Work::Backup => {
                let dir = format!("backup-{}", self.phase);
                self.background(&["BACKUP", &dir], "backup_in_progress", "last_backup_status")?;
            }
            Work::Index => self.index()?,
            Work::Scan | Work::Scans | Work::StreamsScan => self.ask(&mut readers)?,
            _ => readers[0].run_text(work.command(), &|| self.cue.check())?,
        }
        self.played.took_s.push(began.elapsed().as_secs_f64());
        let left = self.script.stretch.saturating_sub(self.since.elapsed());
        self.cue.pause(left.max(self.script.stretch / 3))?;
        self.end(true);
        Ok(())
    }

    /// Undoes the work, outside of all stretches.
    fn clean(&mut self) -> Result<()> {
        if let Some(command) = self.script.work.undo() {
            self.reader()?.run_text(command, &|| self.cue.check())?;
        }
        if self.script.work == Work::Index {
            self.client.call(&["SQL", "DROP INDEX by_field0"])?;
        }
        Ok(())
    }

    /// Starts work in the background and waits for its end.
    fn background(&mut self, command: &[&str], in_progress: &str, status: &str) -> Result<()> {
        self.client.call(command)?;
        let ended = wait_for(LOOK_EVERY, PATIENCE, || {
            self.part()?;
            let info = Info::read(&mut self.client, "persistence")?;
            let is = |name: &str, value: &str| info.text(name).is_some_and(|own| own.trim() == value);
            if !is(in_progress, "0") || is("aof_rewrite_scheduled", "1") {
                return Ok(None);
            }
            if !is(status, "ok") {
                let what = command[0];
                return Err(LabError::Reply(format!(
                    "{what} failed: INFO has {status}:{:?}",
                    info.text(status)
                )));
            }
            Ok(Some(()))
        })?;
        ended.ok_or_else(|| LabError::Reply(format!("{} does not end", command[0])))
    }

    fn index(&mut self) -> Result<()> {
        self.client.call(&["SQL", "CREATE INDEX by_field0 ON records (field0)"])?;
        let ended = wait_for(LOOK_EVERY, PATIENCE, || {
            self.part()?;
            let reply = self.client.call(&["SQL", "SHOW INDEXES"])?;
            // The last row, after that of the names; its fourth column is the permille that are built.
            let row = client::elements(&reply)?.last().map(client::elements).transpose()?;
            let built = row.and_then(|row| row.get(3)).map(ToString::to_string).unwrap_or_default();
            Ok(built.contains("1000").then_some(()))
        })?;
        ended.ok_or_else(|| LabError::Reply("the index is never ready".to_owned()))
    }

    /// Statements on each connection, again and again for the time of a stretch.
    fn ask(&self, readers: &mut [Reader]) -> Result<()> {
        let (began, statement) = (Instant::now(), self.script.work.data().statement());
        let ask = |reader: &mut Reader| {
            loop {
                reader.run(&["SQL", statement], &|| self.cue.check())?;
                if began.elapsed() >= self.script.stretch {
                    return Ok(());
                }
            }
        };
        let ask = &ask;
        std::thread::scope(|scope| {
            let threads: Vec<_> = readers.iter_mut().map(|reader| scope.spawn(move || ask(reader))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("a thread that asks does not panic"))
        })
    }
}
