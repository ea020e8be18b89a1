//! The types of the fields of [`Config`](super::Config), each with its way from and to a [`Value`].

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::error::ValueError;
use super::shape::{Value, parse_integer, parse_memory};

/// Where a value comes from, which decides whether repeated directives add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The table's default.
    Default,
    /// A line of a file or of the command line: `save` adds to the lines before it.
    Load,
    /// `CONFIG SET`: the value stands alone.
    RunTime,
}

/// A field that a directive can set.
pub(super) trait Stored {
    /// The field as a value of its directive's shape.
    fn to_value(&self) -> Value;
    /// Takes a value of the directive's shape; leaves the field as it was on an error.
    fn store(&mut self, value: Value, phase: Phase) -> Result<(), ValueError>;
}

/// Declares an enum whose variants are the names of a directive's shape, in the same order. Former names of a
/// variant follow a bar.
macro_rules! choice {
    ($(#[$doc:meta])* $type:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $name:literal $(| $former:literal)*),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $type { #[default] $($(#[$variant_doc])* $variant),* }

        impl $type {
            /// The names of the variants, in order.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
            /// Former names, each with the name that has taken its place.
            pub const FORMER_NAMES: &'static [(&'static str, &'static str)] = &[$($(($former, $name),)*)*];
            /// The variants, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name that the configuration has for it.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }

        impl Stored for $type {
            fn to_value(&self) -> Value {
                Value::Choice(*self as usize)
            }

            fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
                let Value::Choice(i) = value else { return Err(ValueError::ArgumentCount) };
                *self = *Self::ALL.get(i).ok_or(ValueError::NotChoice { names: Self::NAMES })?;
                Ok(())
            }
        }
    };
}

choice! {
    /// When the log is flushed to its devices.
    AppendFsync {
        /// Once a second: at most the last second of acknowledged writes can be lost.
        EverySec = "everysec",
        /// Before the reply leaves: no acknowledged write can be lost.
        Always = "always",
        /// When the operating system decides.
        No = "no",
    }
}

choice! {
    /// The least important messages that are logged.
    LogLevel {
        /// Everything.
        Debug = "debug",
        /// Connections and other details.
        Verbose = "verbose",
        /// Events that an operator wants to know in production.
        Notice = "notice",
        /// Only what needs attention.
        Warning = "warning",
    }
}

choice! {
    /// The channels that new users may read and write.
    AclPubsubDefault {
        /// All.
        AllChannels = "allchannels",
        /// None.
        ResetChannels = "resetchannels",
    }
}

choice! {
    /// How the log is kept short.
    LogCompaction {
        /// Copy the records that are still valid, file by file.
        Vtc = "vtc",
        /// Never.
        None = "none",
        /// Write the whole log again from a snapshot.
        Rewrite = "rewrite",
    }
}

choice! {
    /// How the blocks of the log are written.
    LogCompression {
        /// As they are.
        No = "no",
        /// Compressed by LZ4, where that makes them shorter.
        Lz4 = "lz4",
    }
}

choice! {
    /// How a checkpoint gets the store as of one instant.
    CheckpointMode {
        /// All of it is read through a view.
        Full = "full" | "piggyback",
        /// Reads the changes since the last checkpoint, and merges them with it.
        Incremental = "incremental" | "hourglass",
        /// A child process has all of it, and writes it.
        Fork = "fork",
    }
}

choice! {
    /// The format of checkpoints.
    CheckpointFormat {
        /// As Tarn's own files, which a log goes on from.
        Tarn = "tarn",
        /// As an RDB file, which every Redis loads.
        Rdb = "rdb",
    }
}

choice! {
    /// The version of RDB files that are written.
    RdbVersion {
        /// For Redis 5 and later.
        Redis5 = "9",
        /// For Redis 7.0 and later.
        Redis7_0 = "10",
        /// For Redis 7.2 and later, and Valkey.
        Redis7_2 = "11",
        /// For Redis 7.4 and later.
        Redis7_4 = "12",
        /// For Valkey 9 and later.
        Valkey9 = "80",
    }
}

impl RdbVersion {
    /// The number that a file begins with.
    pub fn number(self) -> u16 {
        tarn_rdb::VERSIONS_WRITTEN[self as usize]
    }
}

choice! {
    /// How hard checkpoints work.
    CheckpointPace {
        /// They rest most of the time.
        Quiet = "quiet",
        /// They do not rest.
        Fast = "fast",
    }
}

choice! {
    /// Whether connections of PostgreSQL's protocol are encrypted.
    SqlTls {
        /// For those who ask for it.
        Optional = "optional",
        /// All: who does not ask is turned away.
        Required = "required",
    }
}

choice! {
    /// Whether clients show a certificate.
    AuthClients {
        /// They are asked for none.
        No = "no",
        /// A client without one is turned away.
        Yes = "yes",
        /// A client without one is served as well.
        Optional = "optional",
    }
}

choice! {
    /// The part of a client's certificate that names its user.
    CertificateUser {
        /// None.
        Off = "off",
        /// The common name of the subject.
        CommonName = "CN",
        /// A URI among the other names of the subject.
        Uri = "URI",
    }
}

choice! {
    /// Whose connections must be encrypted.
    Encryption {
        /// Nobody's.
        No = "no",
        /// Those of clients that are not on this machine.
        Remote = "remote",
        /// All over TCP.
        All = "all",
    }
}

choice! {
    /// Whom metrics ask for the password.
    MetricsAuth {
        /// Clients that are not on this machine.
        Remote = "remote",
        /// Everybody.
        All = "all",
        /// Nobody.
        No = "no",
    }
}

choice! {
    /// Who may use `DEBUG`.
    DebugAccess {
        /// Nobody.
        No = "no",
        /// Everybody.
        Yes = "yes",
        /// Connections from this machine.
        Local = "local",
    }
}

choice! {
    /// Who is told that the server is ready.
    Supervised {
        /// Upstart, by a stop that it ends.
        Upstart = "upstart",
        /// systemd, at the socket that `NOTIFY_SOCKET` names.
        Systemd = "systemd",
        /// Whichever of them has started the server.
        Auto = "auto",
        /// Nobody.
        No = "no",
    }
}

choice! {
    /// The keys that are evicted, and their order.
    MaxmemoryPolicy {
        /// Of those with an expiry, those that have not been used for the longest time.
        VolatileLru = "volatile-lru",
        /// Of those with an expiry, those that are used least often.
        VolatileLfu = "volatile-lfu",
        /// Of those with an expiry, those that have not been changed for the longest time.
        VolatileLrm = "volatile-lrm",
        /// Of those with an expiry, any.
        VolatileRandom = "volatile-random",
        /// Of those with an expiry, those that expire first.
        VolatileTtl = "volatile-ttl",
        /// Those that have not been used for the longest time.
        AllKeysLru = "allkeys-lru",
        /// Those that are used least often.
        AllKeysLfu = "allkeys-lfu",
        /// Those that have not been changed for the longest time.
        AllKeysLrm = "allkeys-lrm",
        /// Any.
        AllKeysRandom = "allkeys-random",
        /// None: commands that may make memory grow are refused.
        NoEviction = "noeviction",
    }
}

impl MaxmemoryPolicy {
    /// Whether only keys with an expiry are evicted.
    pub fn is_volatile(self) -> bool {
        use MaxmemoryPolicy::{VolatileLfu, VolatileLrm, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(self, VolatileLru | VolatileLfu | VolatileLrm | VolatileRandom | VolatileTtl)
    }

    /// Whether uses of keys are counted.
    pub fn is_lfu(self) -> bool {
        matches!(self, MaxmemoryPolicy::VolatileLfu | MaxmemoryPolicy::AllKeysLfu)
    }

    /// Whether the time of a key's last change is noted, not that of its last use.
    pub fn is_lrm(self) -> bool {
        matches!(self, MaxmemoryPolicy::VolatileLrm | MaxmemoryPolicy::AllKeysLrm)
    }
}

/// Bytes of memory, or a share of `maxmemory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryShare {
    /// So many bytes; 0: no limit.
    Bytes(u64),
    /// So many percent, up to 100.
    Percent(u8),
}

impl Default for MemoryShare {
    fn default() -> MemoryShare {
        MemoryShare::Bytes(0)
    }
}

impl MemoryShare {
    /// The bytes, where `whole` are all; 0: no limit.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            MemoryShare::Bytes(bytes) => bytes,
            MemoryShare::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
        }
    }
}

impl Stored for MemoryShare {
    fn to_value(&self) -> Value {
        Value::Text(match self {
            MemoryShare::Bytes(bytes) => bytes.to_string().into_bytes(),
            MemoryShare::Percent(percent) => format!("{percent}%").into_bytes(),
        })
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let Value::Text(text) = value else { return Err(ValueError::NotMemoryOrPercent) };
        let share = match text.strip_suffix(b"%") {
            // As in Redis, 0 is the same in both.
            Some(b"0") => Some(MemoryShare::Bytes(0)),
            Some(percent) => {
                number(percent).and_then(|percent| u8::try_from(percent).ok()).map(MemoryShare::Percent)
            }
            None => parse_memory(&text).map(MemoryShare::Bytes),
        };
        *self = share.ok_or(ValueError::NotMemoryOrPercent)?;
        Ok(())
    }
}

impl Stored for bool {
    fn to_value(&self) -> Value {
        Value::Bool(*self)
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let Value::Bool(b) = value else { return Err(ValueError::NotBool) };
        *self = b;
        Ok(())
    }
}

macro_rules! stored_integers {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            fn to_value(&self) -> Value {
                Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
            }

            fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
                let Value::Int(n) = value else { return Err(ValueError::NotInteger) };
                *self = <$type>::try_from(n).map_err(|_| ValueError::NotInteger)?;
                Ok(())
            }
        }
    )*};
}

stored_integers!(u16, u32, u64, usize, i32, i64);

impl Stored for Vec<u8> {
    fn to_value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let Value::Text(text) = value else { return Err(ValueError::ArgumentCount) };
        *self = text;
        Ok(())
    }
}

/// The name of a file in the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileName(pub Vec<u8>);

impl Stored for FileName {
    fn to_value(&self) -> Value {
        Value::Text(self.0.clone())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let Value::Text(text) = value else { return Err(ValueError::ArgumentCount) };
        if text.contains(&b'/') || [&b""[..], b".", b".."].contains(&&*text) {
            return Err(ValueError::NotFileName);
        }
        self.0 = text;
        Ok(())
    }
}

/// An absolute path without `..`: where the system finds it, or by its words alone if nothing is there yet.
pub(super) fn settled(path: &Path) -> PathBuf {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let found = climbs.then(|| path.canonicalize().ok()).flatten();
    found.unwrap_or_else(|| by_words(path))
}

/// A path whose `..` take the word before them away.
pub fn by_words(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
        path
    })
}

/// A directory: made absolute when it is set, so that it does not depend on the working directory later.
impl Stored for PathBuf {
    fn to_value(&self) -> Value {
        Value::Text(self.as_os_str().as_bytes().to_vec())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let Value::Text(text) = value else { return Err(ValueError::ArgumentCount) };
        let path = PathBuf::from(std::ffi::OsString::from_vec(text));
        *self = settled(&std::path::absolute(path).map_err(|_| ValueError::NotDirectory)?);
        Ok(())
    }
}

/// Paths, as they were written.
impl Stored for Vec<PathBuf> {
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let words = words_of(value)?;
        *self = words.into_iter().map(|word| PathBuf::from(std::ffi::OsString::from_vec(word))).collect();
        Ok(())
    }
}

/// Addresses that `bind` takes at most.
const ADDRESSES_MAX: usize = 16;

/// Addresses, as they were written.
impl Stored for Vec<String> {
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(|word| word.clone().into_bytes()).collect())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let words = words_of(value)?;
        if words.len() > ADDRESSES_MAX {
            return Err(ValueError::TooManyAddresses);
        }
        *self = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        Ok(())
    }
}

/// One rule of `save`: take a checkpoint `after_s` seconds after the last, if there were `changes` writes
/// since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveRule {
    /// Seconds, at least 1.
    pub after_s: u64,
    /// Writes, 0 or more.
    pub changes: u64,
}

/// The rules of `save`; any one of them triggers, none means never.
#[derive(Debug, Clone, Default)]
pub struct SaveRules {
    /// The rules, in the order they were given.
    pub rules: Vec<SaveRule>,
    /// Nobody has said anything: the first `save` line of a file replaces the defaults, the others add to it.
    are_default: bool,
}

/// The rules of a Redis to which nobody has given any.
const REDIS_RULES: [SaveRule; 3] = [
    SaveRule { after_s: 3600, changes: 1 },
    SaveRule { after_s: 300, changes: 100 },
    SaveRule { after_s: 60, changes: 10_000 },
];

impl SaveRules {
    /// Has Redis's rules where nobody has given any and there is no log; none where there is one.
    pub(super) fn follow(&mut self, appendonly: bool) {
        if self.are_default {
            self.rules = if appendonly { Vec::new() } else { REDIS_RULES.to_vec() };
        }
    }
}

/// Two sets of rules are equal if they trigger alike, wherever they come from.
impl PartialEq for SaveRules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl Stored for SaveRules {
    fn to_value(&self) -> Value {
        let numbers = self.rules.iter().flat_map(|rule| [rule.after_s, rule.changes]);
        Value::List(numbers.map(|n| n.to_string().into_bytes()).collect())
    }

    fn store(&mut self, value: Value, phase: Phase) -> Result<(), ValueError> {
        let words = words_of(value)?;
        let mut rules = Vec::new();
        for pair in words.chunks(2) {
            let [after, changes] = pair else { return Err(ValueError::SaveRules) };
            let after_s = number(after).filter(|&n| n >= 1).ok_or(ValueError::SaveRules)?;
            rules.push(SaveRule { after_s, changes: number(changes).ok_or(ValueError::SaveRules)? });
        }
        if phase == Phase::Load && !words.is_empty() && !self.are_default {
            self.rules.append(&mut rules);
        } else {
            self.rules = rules;
        }
        self.are_default = phase == Phase::Default;
        Ok(())
    }
}

/// The classes of clients that output buffer limits are given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientClass {
    /// Everybody who is not one of the others.
    Normal,
    /// Replicas.
    Replica,
    /// Subscribers to channels or patterns.
    PubSub,
}

impl ClientClass {
    /// All of them.
    pub const ALL: [ClientClass; 3] = [ClientClass::Normal, ClientClass::Replica, ClientClass::PubSub];

    const NAMES: [(&'static str, Self); 3] =
        [("normal", Self::Normal), ("slave", Self::Replica), ("pubsub", Self::PubSub)];

    fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// The class that a word names.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Self::Normal),
            b"slave" | b"replica" => Some(Self::Replica),
            b"pubsub" => Some(Self::PubSub),
            _ => None,
        }
    }
}

/// When a client that reads too slowly is disconnected. 0 stands for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputBufferLimit {
    /// At once above so many bytes of unread output.
    pub hard_bytes: u64,
    /// Above so many bytes for `soft_s` seconds.
    pub soft_bytes: u64,
    /// Seconds that go with `soft_bytes`.
    pub soft_s: u64,
}

/// The limits of each class of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutputBufferLimits {
    limits: [OutputBufferLimit; 3],
}

impl OutputBufferLimits {
    /// The limit of one class.
    pub fn of(&self, class: ClientClass) -> OutputBufferLimit {
        self.limits[class as usize]
    }

    /// The limit of one class, as a file would say it.
    pub(super) fn words_of(&self, class: ClientClass) -> [String; 4] {
        let limit = self.of(class);
        let [hard, soft, seconds] = [limit.hard_bytes, limit.soft_bytes, limit.soft_s].map(|n| n.to_string());
        [class.name().to_owned(), hard, soft, seconds]
    }
}

impl Stored for OutputBufferLimits {
    fn to_value(&self) -> Value {
        let words = ClientClass::NAMES.iter().flat_map(|&(_, class)| self.words_of(class));
        Value::List(words.map(String::into_bytes).collect())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let words = words_of(value)?;
        if words.len() % 4 != 0 {
            return Err(ValueError::BufferLimitCount);
        }
        let mut limits = self.limits;
        for group in words.chunks(4) {
            let class = ClientClass::from_name(&group[0]).ok_or(ValueError::ClientClass)?;
            let memory = |word: &[u8]| parse_memory(word).ok_or(ValueError::BufferLimitNumber);
            limits[class as usize] = OutputBufferLimit {
                hard_bytes: memory(&group[1])?,
                soft_bytes: memory(&group[2])?,
                soft_s: number(&group[3]).ok_or(ValueError::BufferLimitNumber)?,
            };
        }
        self.limits = limits;
        Ok(())
    }
}

/// Percentiles, each from 0 to 100.
impl Stored for Vec<f64> {
    fn to_value(&self) -> Value {
        Value::List(self.iter().map(|p| p.to_string().into_bytes()).collect())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let mut percentiles = Vec::new();
        for word in words_of(value)? {
            let p = std::str::from_utf8(&word).ok().and_then(|text| text.parse::<f64>().ok());
            let p = p.filter(|p| !p.is_nan()).ok_or(ValueError::NotPercentile)?;
            if !(0.0..=100.0).contains(&p) {
                return Err(ValueError::PercentileRange);
            }
            percentiles.push(p);
        }
        *self = percentiles;
        Ok(())
    }
}

pub(super) fn words_of(value: Value) -> Result<Vec<Vec<u8>>, ValueError> {
    match value {
        Value::List(words) => Ok(words),
        _ => Err(ValueError::ArgumentCount),
    }
}

fn number(word: &[u8]) -> Option<u64> {
    parse_integer(word).and_then(|n| u64::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn directories_are_where_the_system_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::DirBuilder::new().recursive(true).create(real.join("there/below")).unwrap();
        std::os::unix::fs::symlink(real.join("there/below"), real.join("link")).unwrap();
        let cases = [("link/..", "there"), ("there/../there", "there"), ("none/../data", "data")];
        for (written, found) in cases {
            let found = by_words(&real.join(found));
            assert_eq!(settled(&real.join(written)), found, "{written}");
        }
        assert_eq!(by_words(Path::new("/a/../../b")), Path::new("/b"));
    }
}
