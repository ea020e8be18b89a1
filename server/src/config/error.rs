//! Errors of a configuration: a value (the texts are Redis's), a line of a file or of the
//! command line, a `CONFIG SET`, a `CONFIG REWRITE`.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

/// Why a directive does not take a value. The texts are those of redis-server 7.0 where it has one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueError {
    /// A single value was expected, or a list of another length.
    #[error("wrong number of arguments")]
    ArgumentCount,
    /// Neither `yes` nor `no`.
    #[error("argument must be 'yes' or 'no'")]
    NotBool,
    /// Not a decimal integer without sign of plus, leading zeros or space.
    #[error("argument couldn't be parsed into an integer")]
    NotInteger,
    /// Not an octal number.
    #[error("argument couldn't be parsed as an octal number")]
    NotOctal,
    /// An integer outside the directive's range.
    #[error("argument must be between {min} and {max} inclusive")]
    OutOfRange {
        /// The smallest value allowed.
        min: i64,
        /// The largest value allowed.
        max: i64,
    },
    /// Not a number of bytes with an optional unit.
    #[error("argument must be a memory value")]
    NotMemory,
    /// Neither a number of bytes nor a percentage.
    #[error("argument must be a memory or percent value")]
    NotMemoryOrPercent,
    /// A percentage above 100.
    #[error("percentage argument must be less or equal to 100")]
    PercentTooLarge,
    /// None of the names the directive knows.
    #[error("argument(s) must be one of the following: {}", names.join(", "))]
    NotChoice {
        /// The names it knows.
        names: &'static [&'static str],
    },
    /// Not a list of cores.
    #[error("argument must be a list of cores below {cores}, as in 0,2-5,8-15:2")]
    NotCores {
        /// Cores that a list may name.
        cores: usize,
    },
    /// Not a list of addresses and networks.
    #[error("argument must be a list of addresses and networks, as in 10.0.0.5 192.168.0.0/16 fd00::/8")]
    NotNetworks,
    /// A path, or nothing, where the name of a file is asked for.
    #[error("it can't be a path, just a filename")]
    NotFileName,
    /// `save` takes pairs of seconds (at least 1) and changes.
    #[error("Invalid save parameters")]
    SaveRules,
    /// A class of clients other than `normal`, `replica` (`slave`) and `pubsub`.
    #[error("Invalid client class specified in buffer limit configuration.")]
    ClientClass,
    /// Client classes come with exactly three numbers each.
    #[error("Wrong number of arguments in buffer limit configuration.")]
    BufferLimitCount,
    /// A hard or soft limit that is no memory value, or seconds that are no number.
    #[error("Error in hard, soft or soft_seconds setting in buffer limit configuration.")]
    BufferLimitNumber,
    /// A percentile that is no number.
    #[error("Invalid latency-tracking-info-percentiles parameters")]
    NotPercentile,
    /// A percentile outside 0 to 100.
    #[error("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")]
    PercentileRange,
    /// A number of `oom-score-adj-values` outside its range.
    #[error("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")]
    OomScore,
    /// A path that is empty, or cannot be made absolute.
    #[error("argument must be the path of a directory")]
    NotDirectory,
    /// A letter that stands for no class of keyspace events.
    #[error("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")]
    EventClass,
    /// More addresses than `bind` takes.
    #[error("Too many bind addresses specified.")]
    TooManyAddresses,
    /// A value of a Redis directive that asks for something Tarn does not do.
    #[error("not supported by Tarn: {why}")]
    Unsupported {
        /// The missing feature, and the alternative.
        why: &'static str,
    },
    /// The server could not bring the value into force.
    #[error("{0}")]
    Apply(String),
}

/// Where a configuration line stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, with the number of the line, from 1.
    File(PathBuf, usize),
    /// Standard input, with the number of the line, from 1.
    Stdin(usize),
    /// A text that is no file, with the number of the line, from 1.
    Text(usize),
    /// The arguments of the process.
    CommandLine,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Stdin(line) => write!(f, "standard input:{line}"),
            Self::Text(line) => write!(f, "line {line}"),
            Self::CommandLine => write!(f, "command line"),
        }
    }
}

/// Why the server cannot start with its configuration; each prints as one line that says what to do.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A line that cannot be split into words or obeyed.
    #[error("{at}: in '{}': {}", beginning(line, 200), beginning(problem, 1_000))]
    Line {
        /// Where it stands.
        at: Source,
        /// The line itself; the values of sensitive directives are left out.
        line: String,
        /// The problem, and the remedy.
        problem: String,
    },
    /// A configuration file that cannot be read.
    #[error("cannot read configuration file {}: {error}; check the path and its permissions", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        error: std::io::Error,
    },
    /// Standard input that cannot be read.
    #[error("cannot read the configuration from standard input: {0}")]
    Stdin(std::io::Error),
    /// The file that `requirepass-file` names holds no password.
    #[error("cannot take the password from requirepass-file {}: {problem}", path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A word of the command line that is neither the file nor part of a directive.
    #[error("command line: unexpected argument '{argument}'; use: serve [FILE] [--directive value ...] [-]")]
    Argument {
        /// The word.
        argument: String,
    },
}

/// The first `chars` of a text, and whether there were more.
fn beginning(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => Cow::Owned(format!("{}… ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}

/// Why a `CONFIG SET` changed nothing. The texts are those of Redis, without the `ERR ` before them; names
/// are as the client wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SetError {
    /// There is no directive of this name.
    #[error("Unknown option or number of arguments for CONFIG SET - '{name}'")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The directive can be set at the start only.
    #[error("CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config")]
    Immutable {
        /// The name.
        name: String,
    },
    /// The directive is one of those that Redis guards against clients.
    #[error("CONFIG SET failed (possibly related to argument '{name}') - can't set protected config")]
    Protected {
        /// The name.
        name: String,
    },
    /// The same directive twice in one command.
    #[error("CONFIG SET failed (possibly related to argument '{name}') - duplicate parameter")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The directive does not take this value, or the server could not bring it into force.
    #[error("CONFIG SET failed (possibly related to argument '{name}') - {reason}")]
    Value {
        /// The name.
        name: String,
        /// The reason why the value is refused.
        reason: ValueError,
    },
}

/// Why a `CONFIG REWRITE` left the file as it was. The texts go after `ERR `.
#[derive(Debug, Error)]
pub enum RewriteError {
    /// The server was started without a file.
    #[error("The server is running without a config file")]
    NoFile,
    /// The file cannot be read, or the new one not be written.
    #[error("Rewriting config file: {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The answer of the operating system.
        error: std::io::Error,
    },
    /// The new file would not be read as the configuration in force, because of what it includes.
    #[error("Rewriting config file: the new file would not start the server: {0}")]
    Unreadable(LoadError),
    /// Users that stand in a file of their own do not go with it.
    #[error("Rewriting config file: the new file would not start the server: {0}")]
    Users(String),
}
