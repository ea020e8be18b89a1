//! Short memory: a server gets a share of what its raw data have, and perhaps a place to swap to.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::limit::MemoryLimit;
use crate::swap::Swap;

/// Memory of a server without data, which a limit has besides its share of the data.
const SERVER_BYTES: u64 = 16 << 20;
/// Swap besides twice the raw data: a child process may copy all that its server has.
const SWAP_BYTES: u64 = 256 << 20;
/// The raw data for which memory is made short to see whether it can be.
const PROBE_BYTES: u64 = 64 << 20;

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
        Shortage { percent: 100, by: self }.make(PROBE_BYTES, dir).err()
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

    /// Makes memory short for such a server; `None` if it does that itself. A swap file lies in `dir`. `Err`
    /// has the reason why this machine does not permit it.
    pub fn make(self, raw_bytes: u64, dir: &Path) -> std::result::Result<Option<ShortMemory>, String> {
        let group = || MemoryLimit::make(self.limit_bytes(raw_bytes));
        let swap_bytes = raw_bytes * 2 + SWAP_BYTES;
        let swap = |made: Result<Swap>| made.map(Some).map_err(|error| error.to_string());
        let (group, swap) = match self.by {
            Means::Maxmemory => return Ok(None),
            Means::Group => (group()?, None),
            Means::SwapFile => (group()?, swap(Swap::file(dir, swap_bytes))?),
            Means::Zram => (group()?, swap(Swap::zram(swap_bytes))?),
        };
        Ok(Some(ShortMemory { group, _swap: swap }))
    }
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

/// The result of a measurement under a limit in which something failed, in words: that is a result there.
/// Without one it is an error, as is that somebody pressed Ctrl-C.
pub fn as_result(shortage: Option<Shortage>, error: LabError) -> Result<String> {
    match error {
        LabError::Interrupted => Err(error),
        error if shortage.is_none() => Err(error),
        error => Ok(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
    fn the_means_of_choice_is_one_that_the_machine_permits() {
        let dir = tempfile::tempdir().unwrap();
        let by = Options::default().shortages(&[75], dir.path())[0].by;
        let is_root = rustix::process::geteuid().is_root();
        assert!(by == Means::Group || (is_root && by.refusal(dir.path()).is_none()), "{by:?}");
        // A place that cannot have a file.
        let nowhere = dir.path().join("none");
        assert!(Means::SwapFile.refusal(&nowhere).is_some());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_failure_is_a_result_only_where_memory_is_short() {
        let failed = || LabError::Reply("it ended".to_owned());
        let short = Some(Shortage { percent: 50, by: Means::Group });
        assert!(as_result(short, failed()).unwrap().contains("it ended"));
        assert!(as_result(None, failed()).is_err() && as_result(short, LabError::Interrupted).is_err());
    }
}
