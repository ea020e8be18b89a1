//! Runs a load while checkpoints are taken, and splits its measurements by them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::conduct::{Act, Script, conduct};
use super::memory::{self, Peak};
use super::stretch::{Stretch, timeline, together};
use super::trial::{Taken, Trial};
use crate::error::Result;
use crate::ledger::{self, Blame, Ledger};
use crate::load::{Cue, Group, Load, LoadResult, Mix, Pace, Phase, Until};
use crate::process::{Pinned, Preferred, beside};
use crate::server::Server;
use crate::setting::Setting;

/// Requests of an open loop that are due within this are sent together.
pub const BEAT: Duration = Duration::from_micros(200);
/// The open loop runs at this share of the closed loop's throughput.
const OPEN_SHARE: f64 = 0.5;

/// The measurements of a load around the checkpoints that were taken while it ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// The stretches without a checkpoint, one by one.
    pub without: Vec<Stretch>,
    /// Those with one.
    pub during: Vec<Stretch>,
    /// All stretches without a checkpoint together.
    pub without_all: Stretch,
    /// All with one together.
    pub during_all: Stretch,
    /// The stretch with statements of SQL, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asking: Option<Stretch>,
    /// The whole load, without the warm-up and SQL.
    pub all: Stretch,
    /// The causes of the slowest requests without a checkpoint; of an open loop, by the server's ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_slow: Option<Blame>,
    /// With one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub during_slow: Option<Blame>,
    /// With SQL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asking_slow: Option<Blame>,
    /// The checkpoints.
    pub taken: Vec<Taken>,
    /// Memory, if it was watched.
    pub peak: Peak,
    /// Processor time of the generator, by elapsed time.
    pub generator_busy: f64,
    /// Of the server and its child. In lines before 2026-11-30 the child is among the others.
    pub server_busy: f64,
    /// Of all others, and of interrupts of nobody. It has the error of the kernel's ticks, and may be below
    /// 0.
    pub others_busy: f64,
    /// True if the generator had priority on its core.
    pub generator_preferred: bool,
    /// By time: milliseconds since the start, requests, longest latency and latest sending in microseconds.
    pub timeline: Vec<(u32, u32, f32, f32)>,
}

/// Runs a load while checkpoints are taken as the script says, on the generator's core.
pub fn play(setting: &Setting, trial: &Trial, group: Group, script: &Script, memory: bool) -> Result<Course> {
    let conduct = |cue: &Cue| {
        let began = Instant::now();
        let watch = |is_over: &_| match memory {
            true => memory::watch(trial, cue, began, is_over).map(Some),
            false => Ok(None),
        };
        beside(watch, || conduct(trial, cue, script, began))
    };
    let conducted = conduct_load(setting, &trial.server, group, conduct)?;
    let (watched, acts) = conducted.told;
    let acts = acts?;
    let course = course(&conducted.result, &acts, conducted.ledger.as_ref());
    let checkpoints = acts.iter().filter(|act| act.taken.is_some()).map(|act| act.phase);
    let peak = match watched? {
        Some((peak, seen)) if trial.forks => peak.judge(&seen, checkpoints),
        watched => watched.map(|(peak, _)| peak).unwrap_or_default(),
    };
    if !peak.is_known() {
        let (samples, changed) = (peak.child_samples.unwrap_or(0), peak.others_changed >> 20);
        let why = format!("{samples} samples with a child, and memory of others changed by {changed} MB");
        tell!("the most memory is not known: {why}");
    }
    Ok(Course { peak, generator_preferred: conducted.generator_preferred, ..course })
}

/// A load that another thread told its phases.
pub struct Conducted<T> {
    /// The load.
    pub result: LoadResult,
    /// The slow turns of the server, if it tells them and the load was an open loop.
    pub ledger: Option<Ledger>,
    /// The result of the other thread.
    pub told: T,
    /// True if the generator had priority on its core.
    pub generator_preferred: bool,
}

/// Runs a load on the generator's core until `conduct`, on a thread of its own, has returned. That thread
/// tells the load its phases.
pub fn conduct_load<T: Send>(
    setting: &Setting,
    server: &Server,
    group: Group,
    conduct: impl FnOnce(&Cue) -> T + Send,
) -> Result<Conducted<T>> {
    let cue = Arc::new(Cue::default());
    // A batch of a closed loop has no intended start.
    let is_open = !matches!(group.pace, Pace::Closed { .. });
    let mut load = Load::new(server.address(), vec![group], Until::Told, setting.seed);
    load.cue = Some(cue.clone());
    load.watched_pid = Some(server.pid());
    let collect = |is_over: &_| if is_open { ledger::collect(server, is_over) } else { Ok(None) };
    // Its flag is the end of the cue.
    let conduct = |_: &_| {
        let _ends = Ends(&cue);
        conduct(&cue)
    };
    let run = || {
        let pinned = Pinned::to(&setting.load_cores);
        let preferred = Preferred::ask();
        let result = pinned.and_then(|_pinned| load.run(|_| ()));
        cue.end();
        (result, preferred.granted)
    };
    let (ledger, (told, (result, generator_preferred))) = beside(collect, || beside(conduct, run));
    // If the load failed, the conductor only says that it ended.
    let result = result?.check()?;
    Ok(Conducted { result, ledger: ledger?, told, generator_preferred })
}

/// Ends a load when it is dropped, also by a panic.
struct Ends<'c>(&'c Cue);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The same with an open loop, at half of the throughput of a closed loop just before. Returns the requests a
/// second of that and those that were due, too.
pub fn play_at_half(
    setting: &Setting,
    trial: &Trial,
    connections: usize,
    mix: Mix,
    until: Until,
    script: &Script,
) -> Result<(f64, f64, Course)> {
    let saturation = setting.saturation(&trial.server, connections, mix.clone(), until)?;
    let rate = (saturation * OPEN_SHARE).max(1.0);
    let group = Group { name: "open", connections, pace: Pace::Beats { rate, beat: BEAT }, mix };
    Ok((saturation, rate, play(setting, trial, group, script, false)?))
}

/// The measurements of a load for the acts that it met.
fn course(result: &LoadResult, acts: &[Act], ledger: Option<&Ledger>) -> Course {
    let phase = |act: &&Act| result.watched.phases.get(act.phase);
    let split =
        |wanted: (bool, bool)| acts.iter().filter(move |act| (act.taken.is_some(), act.is_sql) == wanted);
    let [without, during, asking] = [(false, false), (true, false), (false, true)]
        .map(|wanted| split(wanted).filter_map(|act| phase(&act)).collect::<Vec<_>>());
    let each = |phases: &[&Phase]| phases.iter().map(|phase| together(&[*phase])).collect();
    let blame = |phases: &[&Phase]| ledger?.blame(result.watched.started_unix_ns, phases);
    let all: Vec<_> = without.iter().chain(&during).copied().collect();
    Course {
        without: each(&without),
        during: each(&during),
        without_all: together(&without),
        during_all: together(&during),
        asking: (!asking.is_empty()).then(|| together(&asking)),
        all: together(&all),
        without_slow: blame(&without),
        during_slow: blame(&during),
        asking_slow: blame(&asking),
        taken: acts.iter().filter_map(|act| act.taken).collect(),
        generator_busy: result.generator_busy,
        server_busy: result.server_busy,
        others_busy: result.others_busy,
        timeline: timeline(&result.watched.timeline),
        ..Course::default()
    }
}
