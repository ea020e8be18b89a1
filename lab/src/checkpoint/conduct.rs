//! Takes checkpoints while a load runs: a thread of its own requests them and tells the load which stretch
//! begins.
//!
//! ```text
//!   phase   0 warm-up | 1 without | 2 checkpoint | 3 without | 4 checkpoint | 5 without | 6 SQL
//! ```
//!
//! It polls commands that cost the server little (`LASTSAVE`; for a log that is rewritten or compacted, a
//! section of `INFO`). It asks for more only when a checkpoint has ended, so that the questions are hardly a
//! part of the measurement.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::trial::{Ask, Taken, Trial};
use crate::error::Result;
use crate::interrupt::wait_for;
use crate::load::Cue;
use crate::server::Info;
use tarn_resp::client::{self, Client};

/// The interval between two checks whether a checkpoint has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same interval, where a check reads a section of `INFO`.
const LOOK_INTO_INFO_EVERY: Duration = Duration::from_millis(20);
/// The interval between two checks whether a checkpoint has failed.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// No checkpoint may take longer.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The times of the checkpoints.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    /// Left out.
    pub warmup: Duration,
    /// Without a checkpoint, before the first one.
    pub first: Duration,
    /// Between two: as long as the last one took, but not less …
    pub rest_least: Duration,
    /// … nor more than this.
    pub rest_most: Duration,
    /// No more checkpoints than this.
    pub checkpoints: u32,
    /// No checkpoint begins after this time, but for the first.
    pub time: Duration,
    /// Nor after so many requests since the warm-up, at which a rest ends too.
    pub operations: u64,
    /// True if a rest follows the last one.
    pub rests_at_end: bool,
    /// A statement of SQL at the end, again and again for as long as the shortest rest. It is left out if the
    /// server has no SQL, and it ends early if the statement fails.
    pub sql: Option<&'static str>,
}

/// A stretch that the load measured as a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Act {
    /// Its number.
    pub phase: usize,
    /// The checkpoint that was taken in it.
    pub taken: Option<Taken>,
    /// True if a statement of SQL ran in it.
    pub is_sql: bool,
}

struct Conductor<'t> {
    trial: &'t Trial,
    client: Client,
    cue: &'t Cue,
    began: Instant,
    acts: Vec<Act>,
}

/// Plays the script of a load that began then. It is still running afterwards.
pub(super) fn conduct(trial: &Trial, cue: &Cue, script: &Script, began: Instant) -> Result<Vec<Act>> {
    let mut conductor = Conductor::new(trial, cue, began)?;
    cue.pause(script.warmup)?;
    let operations = cue.answered().saturating_add(script.operations);
    conductor.rest(script.first, operations)?;
    let mut taken = 0;
    while taken < script.checkpoints {
        let Some(took) = conductor.checkpoint()? else { return Ok(conductor.acts) };
        taken += 1;
        let passed = conductor.began.elapsed();
        let rest = took.clamp(script.rest_least, script.rest_most);
        let are_done = || cue.answered() >= operations;
        let is_last = taken == script.checkpoints || passed + rest >= script.time || are_done();
        if !is_last || script.rests_at_end {
            conductor.rest(rest, operations)?;
        }
        if is_last || are_done() {
            break;
        }
    }
    if let Some(statement) = script.sql {
        conductor.ask_sql(statement, script.rest_least)?;
    }
    Ok(conductor.acts)
}

impl<'t> Conductor<'t> {
    fn new(trial: &'t Trial, cue: &'t Cue, began: Instant) -> Result<Conductor<'t>> {
        let client = trial.server.client()?;
        Ok(Conductor { trial, client, cue, began, acts: Vec::new() })
    }

    fn rest(&mut self, time: Duration, operations: u64) -> Result<()> {
        let phase = self.cue.next();
        self.acts.push(Act { phase, taken: None, is_sql: false });
        self.cue.pause_until(time, operations)
    }

    /// Takes a checkpoint in a stretch of its own. Returns how long it took; `None` if it was cut off.
    fn checkpoint(&mut self) -> Result<Option<Duration>> {
        let ask = self.trial.ask.expect("only who has checkpoints is asked for them");
        let before = match ask {
            Ask::Save => wait_for_a_new_second(&mut self.client)?,
            Ask::Rewrite => 0,
        };
        let phase = self.cue.next();
        let (from, from_ms) = (Instant::now(), self.began.elapsed().as_secs_f64() * 1e3);
        let took = match ask {
            Ask::Save => self.save(from, before)?,
            Ask::Rewrite => self.rewrite(from)?,
        };
        let told = self.trial.tell(&mut self.client)?;
        let (seconds, is_cut_off) = (took.unwrap_or_else(|| from.elapsed()).as_secs_f64(), took.is_none());
        let taken = Taken { seconds, from_ms, is_cut_off, ..told };
        self.acts.push(Act { phase, taken: Some(taken), is_sql: false });
        Ok(took)
    }

    fn ask_sql(&mut self, statement: &str, time: Duration) -> Result<()> {
        if self.client.ask(&["SQL", "SELECT 1"])?.is_error() {
            return Ok(());
        }
        let (phase, began) = (self.cue.next(), Instant::now());
        loop {
            let reply = self.client.ask(&["SQL", statement])?;
            self.cue.check()?;
            if reply.is_error() {
                // Such as: the old versions that it needs have no room.
                tell!("a statement failed, and the stretch with SQL ends: {reply}");
            }
            if reply.is_error() || began.elapsed() >= time {
                break;
            }
        }
        self.acts.push(Act { phase, taken: None, is_sql: true });
        Ok(())
    }

    /// True once the patience with a checkpoint that was begun then is over.
    fn is_cut_off(&self, from: Instant) -> bool {
        self.trial.patience.is_some_and(|patience| from.elapsed() > patience)
    }

    fn save(&mut self, from: Instant, before: i64) -> Result<Option<Duration>> {
        self.client.call(&["BGSAVE"])?;
        let mut asked = from;
        while last_save(&mut self.client)? == before {
            self.cue.check()?;
            if self.is_cut_off(from) {
                return Ok(None);
            }
            if asked.elapsed() > ASK_EVERY {
                asked = Instant::now();
                self.look_for_failure(from)?;
            }
            sleep(LOOK_EVERY);
        }
        Ok(Some(from.elapsed()))
    }

    fn rewrite(&mut self, from: Instant) -> Result<Option<Duration>> {
        self.client.call(&["BGREWRITEAOF"])?;
        let took = wait_for(LOOK_INTO_INFO_EVERY, PATIENCE, || {
            self.cue.check()?;
            let info = Info::read(&mut self.client, "persistence")?;
            let is = |name: &str, value: &str| info.text(name) == Some(value);
            let is_over = is("aof_rewrite_in_progress", "0") && !is("aof_rewrite_scheduled", "1");
            if is_over && !is("aof_last_bgrewrite_status", "ok") {
                let why = info.text("log_compaction_last_error");
                return Err(self.trial.failed("the log was not made shorter", why));
            }
            let is_cut_off = !is_over && self.is_cut_off(from);
            Ok((is_over || is_cut_off).then(|| is_over.then(|| from.elapsed())))
        })?;
        took.ok_or_else(|| self.trial.failed("making the log shorter does not end", None))
    }

    fn look_for_failure(&mut self, from: Instant) -> Result<()> {
        let info = Info::read(&mut self.client, "persistence")?;
        let is = |name: &str, value: &str| info.text(name) == Some(value);
        let failed = is("rdb_bgsave_in_progress", "0") && is("rdb_last_bgsave_status", "err");
        if failed || from.elapsed() > PATIENCE {
            let why = info.text("checkpoint_failure");
            return Err(self.trial.failed("the checkpoint failed or does not end", why));
        }
        Ok(())
    }
}

fn last_save(client: &mut Client) -> Result<i64> {
    Ok(client::integer(&client.call(&["LASTSAVE"])?)?)
}

/// Waits until the second of the last checkpoint is over, so that the next one shows. Returns that second.
fn wait_for_a_new_second(client: &mut Client) -> Result<i64> {
    let before = last_save(client)?;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    wait_for(LOOK_EVERY, PATIENCE, || Ok((now() > before).then_some(())))?;
    Ok(before)
}

/// Takes a checkpoint of a server that has nothing else to do.
pub fn checkpoint_alone(trial: &Trial) -> Result<Taken> {
    let cue = Cue::default();
    let mut conductor = Conductor::new(trial, &cue, Instant::now())?;
    if conductor.checkpoint()?.is_none() {
        return Err(trial.failed("the checkpoint does not end", None));
    }
    Ok(conductor.acts.pop().and_then(|act| act.taken).expect("a checkpoint was taken"))
}
