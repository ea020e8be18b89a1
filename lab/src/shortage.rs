//! Short memory: a server gets a share of what its raw data have, and perhaps a place to swap to.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::limit::MemoryLimit;
use crate::swap::Swap;
use tarn_resp::client::ClientError;

/// Memory of a server without data, which a limit has besides its share of the data.
const SERVER_BYTES: u64 = 16 << 20;
/// Swap besides twice the raw data: a child process may copy all that its server has.
const SWAP_BYTES: u64 = 256 << 20;
/// The raw data for which memory is made short to see whether it can be.
const PROBE_BYTES: u64 = 64 << 20;

const KILL: i32 = rustix::process::Signal::KILL.as_raw();
/// The kind of reason for which cells are left out where memory cannot be made short.
pub const REFUSED: &str = "memory cannot be made short";

named! {
    /// The means by which memory is made short.
    pub enum Means {
        /// A control group with a limit, and a swap file among the data.
        SwapFile = "swap-file",
        /// The same with a device of compressed memory to swap to.
        Zram = "zram",
        /// The same with the swap that the machine has. If it has none, the kernel ends a server that needs
        /// more.
        Group = "group",
        /// The directive `maxmemory` of redis-server, which refuses writes then. It bounds neither a start
        /// nor a child process, and Tarn has no such directive.
        Maxmemory = "maxmemory",
    }
}

impl Means {
    /// The means in words.
    pub const fn words(self) -> &'static str {
        match self {
            Means::SwapFile => "a control group with a swap file",
            Means::Zram => "a control group with compressed memory to swap to",
            Means::Group => "a control group with the machine's own swap",
            Means::Maxmemory => "maxmemory",
        }
    }

    /// The reason why this machine does not permit them, if it does not.
    pub fn refusal(self, dir: &Path) -> Option<String> {
        Shortage { percent: 100, by: self }.make(PROBE_BYTES, dir).err().map(|error| error.to_string())
    }
}

/// A limit of memory as a parameter of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortage {
    /// The limit by the raw data, in percent.
    pub percent: u32,
    /// The means.
    pub by: Means,
}

impl Shortage {
    /// The limit by the raw data.
    pub fn ratio(self) -> f64 {
        f64::from(self.percent) / 100.0
    }

    /// The limit of a server with so many bytes of raw data.
    pub const fn limit_bytes(self, raw_bytes: u64) -> u64 {
        raw_bytes * self.percent as u64 / 100 + SERVER_BYTES
    }

    /// Makes memory short for such a server; `None` if it does that itself. A swap file lies in `dir`. Where
    /// this machine does not permit it, the cell is left out ([`LabError::LeftOut`]).
    pub fn make(self, raw_bytes: u64, dir: &Path) -> Result<Option<ShortMemory>> {
        let refused = |why: String| LabError::LeftOut { why: format!("{REFUSED}: {why}"), failed: false };
        let group = || MemoryLimit::make(self.limit_bytes(raw_bytes)).map_err(refused);
        let swap_bytes = raw_bytes * 2 + SWAP_BYTES;
        let swap = |made: Result<Swap>| made.map(Some).map_err(|error| refused(error.to_string()));
        let (group, swap) = match self.by {
            Means::Maxmemory => return Ok(None),
            Means::Group => (group()?, None),
            Means::SwapFile => (group()?, swap(Swap::file(dir, swap_bytes))?),
            Means::Zram => (group()?, swap(Swap::zram(swap_bytes))?),
        };
        Ok(Some(ShortMemory { group, _swap: swap }))
    }
}

/// Limits in words, each once.
pub fn words_of(limits: impl Iterator<Item = Shortage>) -> Vec<String> {
    let mut limits: Vec<Shortage> = limits.collect();
    limits.sort_by_key(|limit| (limit.by, limit.percent));
    limits.dedup();
    let words =
        |limit: &Shortage| format!("by {}: {} x the raw data and 16 MiB", limit.by.words(), limit.ratio());
    limits.iter().map(words).collect()
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x raw data, {}", self.ratio(), self.by.name())
    }
}

/// Short memory that was made. Dropping it takes it away; its server must have ended.
#[derive(Debug)]
pub struct ShortMemory {
    /// The group of the server. Declared before the swap, because what is swapped out must be gone.
    pub group: MemoryLimit,
    _swap: Option<Swap>,
}

#[cfg(test)]
impl ShortMemory {
    /// A group alone.
    pub(crate) fn of(group: MemoryLimit) -> ShortMemory {
        ShortMemory { group, _swap: None }
    }
}

/// The options of an experiment that makes memory short.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// The limits where memory is short, each by the raw data, such as 0.5,0.75,1,2.
    #[arg(long, value_name = "RATIO", value_delimiter = ',', value_parser = percent)]
    pub memory_ratios: Vec<u32>,
    /// Make memory short by these means. By default the first that the machine permits: a control group with
    /// a swap file, with compressed memory, with the swap that there is.
    #[arg(long, value_name = "MEANS")]
    pub short_by: Option<Means>,
}

impl Options {
    /// The limits in the order that is given, or those that are usual.
    pub fn shortages(&self, usual: &[u32], dir: &Path) -> Vec<Shortage> {
        let by = self.short_by.unwrap_or_else(|| {
            let all = [Means::SwapFile, Means::Zram];
            all.into_iter().find(|by| by.refusal(dir).is_none()).unwrap_or(Means::Group)
        });
        let percents = if self.memory_ratios.is_empty() { usual } else { &self.memory_ratios };
        percents.iter().map(|&percent| Shortage { percent, by }).collect()
    }
}

/// A ratio in percent.
fn percent(text: &str) -> std::result::Result<u32, String> {
    let ratio: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_ratio = (0.01..=100.0).contains(&ratio);
    if is_ratio { Ok((ratio * 100.0).round() as u32) } else { Err("not between 0.01 and 100".to_owned()) }
}

/// The words for a measurement under a limit that the lack of memory ended, which is a result: the kernel
/// ended the server, or a child of it that took a checkpoint, or the server refused. `ended` is the exit
/// status of a server that ended by itself, and `kills` counts the processes of its group that the kernel
/// ended. Anything else that failed stays an error.
pub fn as_result(error: LabError, ended: Option<ExitStatus>, kills: u64) -> Result<String> {
    match ended {
        Some(status) if kills > 0 && status.signal() == Some(KILL) => {
            Ok(format!("the kernel ended the server for lack of memory ({status})"))
        }
        Some(status) => Err(LabError::Ended { status }),
        None => match error {
            LabError::Checkpoint { .. } if kills > 0 => {
                Ok(format!("the kernel ended a child of the server for lack of memory: {error}"))
            }
            // The end of a log may tell of an earlier lack of memory.
            LabError::Checkpoint { ref why, is_told: true, .. } if is_refusal(why, kills) => {
                Ok(error.to_string())
            }
            LabError::Reply(why) | LabError::Client(ClientError::Reply(why)) if is_refusal(&why, kills) => {
                Ok(why)
            }
            other => Err(other),
        },
    }
}

/// True for an error reply that says that memory lacks. If the kernel ended a child that took a checkpoint,
/// redis-server refuses writes from then on, too.
pub fn is_refusal(reply: &str, kills: u64) -> bool {
    let words = ["OOM command not allowed", "Cannot allocate memory"];
    words.iter().any(|own| reply.contains(own))
        || (kills > 0 && reply.contains("MISCONF Redis is configured to save RDB"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::limit::tests as limit;
    use crate::swap::tests as swap;

    #[test]
    fn a_limit_is_a_share_of_the_raw_data_and_a_server() {
        let short = Shortage { percent: percent("0.75").unwrap(), by: Means::Group };
        assert_eq!(short.limit_bytes(2_000_000), 1_500_000 + (16 << 20));
        assert_eq!(short.to_string(), "0.75 x raw data, group");
        assert_eq!(percent("2"), Ok(200));
        for text in ["0", "-1", "101", "x", "NaN"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ratios_are_those_asked_for_or_the_usual_ones() {
        let dir = tempfile::tempdir().unwrap();
        let asked = Options { memory_ratios: vec![200, 50], short_by: Some(Means::Maxmemory) };
        let percents = |own: &Options| {
            let all = own.shortages(&[75], dir.path());
            all.iter().map(|own| own.percent).collect::<Vec<_>>()
        };
        assert_eq!(percents(&asked), [200, 50]);
        assert_eq!(percents(&Options { memory_ratios: Vec::new(), ..asked }), [75]);
        assert!(Shortage { percent: 50, by: Means::Maxmemory }.make(1, dir.path()).unwrap().is_none());
    }

    #[test]
    fn the_means_of_choice_is_a_swap_file_where_the_machine_permits_it() {
        let (_alone, dir) = (swap::alone(), tempfile::tempdir().unwrap());
        let by = Options::default().shortages(&[75], dir.path())[0].by;
        if limit::may_limit() && swap::may_swap(dir.path()) {
            assert_eq!((by, by.refusal(dir.path())), (Means::SwapFile, None));
        }
        // A place that cannot have a file.
        let nowhere = dir.path().join("none");
        let refused = Shortage { percent: 75, by: Means::SwapFile }.make(1 << 20, &nowhere).unwrap_err();
        assert!(matches!(&refused, LabError::LeftOut { why, failed: false } if why.starts_with(REFUSED)));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_a_lack_of_memory_is_a_result() {
        let [killed, failed] = [9, 1 << 8].map(|status| Some(ExitStatus::from_raw(status)));
        let lost = || LabError::Reply("came back with 1 of 2 keys".to_owned());
        assert!(as_result(lost(), killed, 1).unwrap().starts_with("the kernel ended the server"));
        // Somebody else killed it, or it ended in another way.
        for (ended, kills) in [(killed, 0), (failed, 1), (failed, 0)] {
            assert!(matches!(as_result(lost(), ended, kills), Err(LabError::Ended { .. })));
        }
        assert!(as_result(lost(), None, 1).is_err() && as_result(lost(), None, 0).is_err());
        let checkpoint = |why: &str, is_told| {
            let (what, why) = ("it failed".to_owned(), why.to_owned());
            LabError::Checkpoint { what, why, is_told }
        };
        assert!(as_result(checkpoint("why", false), None, 1).unwrap().contains("a child"));
        assert!(as_result(checkpoint("no space left on device", true), None, 0).is_err());
        // A full disk does not lack the memory that lacked before.
        let log = "its log ends: fork: Cannot allocate memory / No space left on device";
        assert!(as_result(checkpoint(log, false), None, 0).is_err());
        let told = as_result(checkpoint("fork: Cannot allocate memory", true), None, 0);
        assert_eq!(told.unwrap(), "it failed: fork: Cannot allocate memory");
        let full = std::io::Error::from_raw_os_error(28);
        assert!(as_result(LabError::Io { what: "write".to_owned(), source: full }, None, 1).is_err());
        assert!(matches!(as_result(LabError::Interrupted, None, 1), Err(LabError::Interrupted)));
    }

    #[test]
    fn a_refusal_for_lack_of_memory_is_a_result() {
        let oom = "-OOM command not allowed when used memory > 'maxmemory'.";
        for error in [LabError::Reply(oom.to_owned()), ClientError::Reply(oom.to_owned()).into()] {
            assert_eq!(as_result(error, None, 0).unwrap(), oom);
        }
        let after_a_kill = "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to";
        let full = "-MISCONF Errors writing to the AOF file: No space left on device";
        let refused = |kills| [oom, after_a_kill, full].map(|reply| is_refusal(reply, kills));
        assert_eq!((refused(0), refused(1)), ([true, false, false], [true, true, false]));
    }
}
