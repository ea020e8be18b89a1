//! The command line: the algorithm, and directives as redis-server takes them.

use std::path::PathBuf;

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
    /// The algorithm.
    #[arg(long, value_enum)]
    pub algorithm: Algorithm,
    /// Directives, each with its value: --port, --dir, and others of redis-server.
    #[arg(value_name = "DIRECTIVES", trailing_var_arg = true, allow_hyphen_values = true)]
    directives: Vec<String>,
}

/// Where and on which cores it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
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
        let mut settings =
            Settings { port: 6379, dir: ".".into(), serving_cores: Vec::new(), dumping_cores: Vec::new() };
        for pair in self.directives.chunks(2) {
            let [name, value] = pair else { return Err(refused(&pair[0], "has no value")) };
            let bare = name.strip_prefix("--").ok_or_else(|| refused(name, "is no directive"))?;
            match bare {
                "port" => settings.port = value.parse().map_err(|_| refused(name, "is a number"))?,
                "dir" => settings.dir = value.into(),
                "server_cpulist" => settings.serving_cores = cores(name, value)?,
                "bgsave_cpulist" => settings.dumping_cores = cores(name, value)?,
                _ if WITHOUT_EFFECT.contains(&bare) => {}
                _ => return Err(refused(name, "is not known")),
            }
        }
        Ok(settings)
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
        let options = Options { algorithm: Algorithm::Hourglass, directives };
        options.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn directives_are_those_of_a_plan() {
        let words = ["--port", "7001", "--save", "", "--dir", "/d", "--server_cpulist", "0,2"];
        let expected =
            Settings { port: 7001, dir: "/d".into(), serving_cores: vec![0, 2], dumping_cores: Vec::new() };
        assert_eq!(settings(&words), Ok(expected));
        for (words, why) in [
            (&["--port"][..], "--port has no value"),
            (&["port", "1"], "port is no directive"),
            (&["--port", "x"], "--port is a number"),
            (&["--threads", "2"], "--threads is not known"),
            (&["--bgsave_cpulist", "0-2"], "--bgsave_cpulist is a list of cores, such as 0,2"),
        ] {
            assert_eq!(settings(words), Err(why.to_owned()));
        }
    }
}
