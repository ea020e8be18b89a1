//! The command line: directives as redis-server takes them, of which one is the algorithm.

use std::path::PathBuf;

use clap::ValueEnum as _;

use crate::error::{LabError, Result};

named! {
    /// The algorithm of a value's two copies.
    pub enum Algorithm {
        /// Hourglass.
        Hourglass = "hourglass",
        /// Piggyback.
        Piggyback = "piggyback",
    }
}

/// Directives that the laboratory gives to any server of the kind of redis-server. This one has no log and
/// does not save by itself.
const WITHOUT_EFFECT: [&str; 7] = [
    "bind",
    "save",
    "appendonly",
    "aof-use-rdb-preamble",
    "auto-aof-rewrite-percentage",
    "rdbcompression",
    "rdbchecksum",
];

/// The options.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Directives in any order, each with its value: --algorithm hourglass or piggyback; --port, by default
    /// 6379; --dir, the directory of dump.rdb, by default the present one; and others of redis-server.
    #[arg(value_name = "DIRECTIVES", trailing_var_arg = true, allow_hyphen_values = true)]
    directives: Vec<String>,
}

/// Where and on which cores it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) algorithm: Algorithm,
    pub(super) port: u16,
    /// The directory of `dump.rdb`.
    pub(super) dir: PathBuf,
    /// The cores of the thread that serves; empty: all.
    pub(super) serving_cores: Vec<usize>,
    /// The cores of the thread that dumps.
    pub(super) dumping_cores: Vec<usize>,
}

impl Options {
    pub(super) fn settings(&self) -> Result<Settings> {
        let (mut algorithm, mut port, mut dir) = (None, 6379, PathBuf::from("."));
        let (mut serving_cores, mut dumping_cores) = (Vec::new(), Vec::new());
        for pair in self.directives.chunks(2) {
            let [name, value] = pair else { return Err(refused(&pair[0], "has no value")) };
            let bare = name.strip_prefix("--").ok_or_else(|| refused(name, "is no directive"))?;
            match bare {
                "algorithm" => {
                    let found = Algorithm::from_str(value, false);
                    algorithm = Some(found.map_err(|_| refused(name, "is hourglass or piggyback"))?);
                }
                "port" => port = value.parse().map_err(|_| refused(name, "is a number of a port"))?,
                "dir" => dir = value.into(),
                "server_cpulist" => serving_cores = cores(name, value)?,
                "bgsave_cpulist" => dumping_cores = cores(name, value)?,
                _ if WITHOUT_EFFECT.contains(&bare) => {}
                _ => return Err(refused(name, "is not known")),
            }
        }
        let algorithm =
            algorithm.ok_or_else(|| refused("--algorithm", "is missing: it is hourglass or piggyback"))?;
        if !dir.is_dir() {
            return Err(refused("--dir", &format!("{} is no directory that is there", dir.display())));
        }
        Ok(Settings { algorithm, port, dir, serving_cores, dumping_cores })
    }
}

fn refused(name: &str, why: &str) -> LabError {
    LabError::Arguments(format!("{name} {why}"))
}

fn cores(name: &str, list: &str) -> Result<Vec<usize>> {
    let number = |text: &str| text.parse().map_err(|_| refused(name, "is a list of cores, such as 0,2"));
    list.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> std::result::Result<Settings, String> {
        let directives = words.iter().map(|word| (*word).to_owned()).collect();
        Options { directives }.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn directives_are_those_of_a_plan() {
        let words = ["--port", "7001", "--save", "", "--dir", "/", "--server_cpulist", "0,2"];
        let algorithm = ["--algorithm", "piggyback"];
        let expected = Settings {
            algorithm: Algorithm::Piggyback,
            port: 7001,
            dir: "/".into(),
            serving_cores: vec![0, 2],
            dumping_cores: Vec::new(),
        };
        // In any order.
        assert_eq!(settings(&[&words[..], &algorithm[..]].concat()), Ok(expected.clone()));
        assert_eq!(settings(&[&algorithm[..], &words[..]].concat()), Ok(expected));
        for (words, why) in [
            (&["--port"][..], "--port has no value"),
            (&["port", "1"], "port is no directive"),
            (&["--port", "x"], "--port is a number of a port"),
            (&["--port", "7001"], "--algorithm is missing: it is hourglass or piggyback"),
            (&["--algorithm", "x"], "--algorithm is hourglass or piggyback"),
            (&["--algorithm", "hourglass", "--dir", "/none"], "--dir /none is no directory that is there"),
            (&["--threads", "2"], "--threads is not known"),
            (&["--bgsave_cpulist", "0-2"], "--bgsave_cpulist is a list of cores, such as 0,2"),
        ] {
            assert_eq!(settings(words), Err(why.to_owned()));
        }
    }
}
