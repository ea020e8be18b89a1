//! The description of a command, from which arity, latching, `COMMAND` and the documentation follow.

use std::ops::BitOr;

use smallvec::SmallVec;
use tarn_engine::KeyRef;
use tarn_resp::Args;

/// A set of command flags, in the names of `COMMAND INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// Changes keys: its keys are latched for writing.
    pub const WRITE: Flags = Flags(1);
    /// Reads keys and changes nothing.
    pub const READONLY: Flags = Flags(1 << 1);
    /// May make memory grow.
    pub const DENYOOM: Flags = Flags(1 << 2);
    /// Of the operator, not of applications.
    pub const ADMIN: Flags = Flags(1 << 3);
    /// Constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 4);
    /// May make the client wait for another's write.
    pub const BLOCKING: Flags = Flags(1 << 5);
    /// Answers while the data is being loaded.
    pub const LOADING: Flags = Flags(1 << 6);
    /// Answers on a replica that lost its master.
    pub const STALE: Flags = Flags(1 << 7);
    /// Answers before `AUTH`.
    pub const NO_AUTH: Flags = Flags(1 << 8);
    /// Not allowed in scripts.
    pub const NOSCRIPT: Flags = Flags(1 << 9);
    /// Not allowed in `MULTI`.
    pub const NO_MULTI: Flags = Flags(1 << 10);
    /// Never shown in `SLOWLOG`.
    pub const SKIP_SLOWLOG: Flags = Flags(1 << 11);
    /// Never shown to `MONITOR`.
    pub const SKIP_MONITOR: Flags = Flags(1 << 12);
    /// The key specs do not say all keys.
    pub const MOVABLEKEYS: Flags = Flags(1 << 13);
    /// Allowed while writes are refused for lack of a durable log.
    pub const ALLOW_BUSY: Flags = Flags(1 << 14);
    /// Needs the store for itself, as its keys cannot be declared.
    pub const EXCLUSIVE: Flags = Flags(1 << 15);
    /// Publishes or subscribes.
    pub const PUBSUB: Flags = Flags(1 << 16);

    /// Redis has no rows for its subcommands: unknown ones and wrong numbers of arguments get one and the
    /// same error.
    pub const LOOSE: Flags = Flags(1 << 17);

    /// Obeyed only as far as `enable-debug-command` allows.
    pub const PROTECTED: Flags = Flags(1 << 18);
    /// Takes microseconds if its arguments are few and short: timed by sample, as fast ones are.
    pub const STEADY: Flags = Flags(1 << 19);
    /// Is not queued by `MULTI`.
    pub const AT_ONCE: Flags = Flags(1 << 20);
    /// Runs what `MULTI` has queued.
    pub const EXEC: Flags = Flags(1 << 21);
    /// Within a transaction it needs the store for itself: it looks at keys that it cannot declare, one
    /// segment at a time, or at what must not be waited for by who holds latches.
    pub const ALONE_IN_EXEC: Flags = Flags(1 << 22);
    /// Refused while the data is being loaded beside the old one, as only replicas of Redis do.
    pub const NO_ASYNC_LOADING: Flags = Flags(1 << 23);
    /// Needs nothing of the store and may take long: the worker leaves the gate before it runs.
    pub const OUTSIDE: Flags = Flags(1 << 24);

    /// Runs for a client that reads channels and speaks RESP2.
    pub const AMONG_MESSAGES: Flags = Flags(1 << 25);
    /// Sends something to replicas, or would: it waits while writes are paused.
    pub const MAY_REPLICATE: Flags = Flags(1 << 26);

    /// Runs a script.
    pub const SCRIPT: Flags = Flags(1 << 27);
    /// Clients of a cluster may send it without a key.
    pub const NO_MANDATORY_KEYS: Flags = Flags(1 << 28);

    /// Makes or brings back data for tests, of which no keyspace events tell.
    pub const UNTOLD: Flags = Flags(1 << 29);
    /// A look at a key is no use of it.
    pub const NO_TOUCH: Flags = Flags(1 << 30);
    /// Looks at keys that no argument names, or changes them: for users who may do so with every key.
    pub const READS_ALL: Flags = Flags(1 << 31);

    /// Whether all flags of `other` are in this set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a flag of `other` is in this set.
    pub const fn has_any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The union, in constants.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        self.with(other)
    }
}

/// Where a group of keys begins.
#[derive(Clone, Copy)]
pub enum Begin {
    /// At this argument.
    Index(usize),
    /// At this argument, if the function says so too: with some options the argument is no key.
    IndexIf(usize, FindKey),
    /// Behind this keyword, where the function says: what looks like the keyword may be the value of an
    /// option. Clients are told to look for it from this argument on (from the end backwards if negative).
    Option(&'static str, i32, FindKey),
    /// Where the function says, if anywhere; clients are told that it is unknown.
    Found(FindKey),
}

/// Which arguments from there on are keys.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// Every `step`th up to `last`, counted from the beginning, or from the end of the arguments if negative.
    /// With `limit` ≥ 2 only the first `1/limit` of the arguments.
    Range {
        /// Last key.
        last: i32,
        /// Distance from key to key.
        step: usize,
        /// Divisor of the number of arguments; 0 or 1: none.
        limit: usize,
    },
    /// An argument says how many keys follow.
    KeyNum {
        /// Where the number stands, from the beginning.
        at: usize,
        /// Where the first key stands, from the beginning.
        first: usize,
        /// Distance from key to key.
        step: usize,
    },
}

/// One group of keys of a command, as Redis 7.0 describes them in `COMMAND INFO`.
#[derive(Clone, Copy)]
pub struct KeySpec {
    /// Where the group begins.
    pub begin: Begin,
    /// Which arguments are keys.
    pub find: Find,
    /// `RO`, `RW`, `OW` or `RM`, then `access`, `update`, `insert`, `delete`, `incomplete` …, as `COMMAND
    /// INFO` prints them.
    pub flags: &'static [&'static str],
}

/// The keys that a request declares, each with its database and its hash, which is made here and nowhere
/// else.
pub type Keys<'a> = SmallVec<[KeyRef<'a>; 1]>;

/// Adds keys of the arguments to the declared ones. Given are the selected database and how many there are; a
/// key in a database that is not there must be left out.
pub type MoreKeys = for<'a> fn(u8, usize, Args<'a>, &mut Keys<'a>);

/// The argument that is a key, in a request of which only the command itself knows.
pub type FindKey = for<'a> fn(Args<'a>) -> Option<usize>;

/// Says whether a request looks at keys that it cannot declare.
pub type AloneIf = for<'a> fn(Args<'a>) -> bool;

/// The description of a command: all of its row but the function.
pub struct Spec {
    /// Lower case; a subcommand without its parent's name.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least that many.
    pub arity: i32,
    /// Properties.
    pub flags: Flags,
    /// ACL categories with their `@`, beyond those that follow from the flags and the group of its family.
    pub categories: &'static [&'static str],
    /// The groups of keys.
    pub keys: &'static [KeySpec],
    /// The groups of channels of shards, which clients of a cluster treat as keys.
    pub channels: &'static [KeySpec],
    /// Adds keys that the specs cannot say (`COPY … DB n`, `MOVE`); most commands have none.
    pub more_keys: Option<MoreKeys>,
    /// Says whether this very request needs the store for itself, as all do with `Flags::EXCLUSIVE`.
    pub alone_if: Option<AloneIf>,
    /// The Redis version that brought it.
    pub since: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Big-O, for `COMMAND DOCS`.
    pub complexity: &'static str,
}

impl KeySpec {
    /// One key, the first argument.
    pub const fn one(flags: &'static [&'static str]) -> KeySpec {
        KeySpec { begin: Begin::Index(1), find: Find::Range { last: 0, step: 1, limit: 0 }, flags }
    }

    /// Every `step`th argument from the first to the last.
    pub const fn all(step: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { begin: Begin::Index(1), find: Find::Range { last: -1, step, limit: 0 }, flags }
    }

    /// Keys from argument `first` to `last` (counted from `first`; from the end of the arguments if
    /// negative).
    pub const fn range(first: usize, last: i32, step: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { begin: Begin::Index(first), find: Find::Range { last, step, limit: 0 }, flags }
    }

    /// A number at argument `at` and so many keys behind it.
    pub const fn counted(at: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { begin: Begin::Index(at), find: Find::KeyNum { at: 0, first: 1, step: 1 }, flags }
    }

    /// A number at argument `at` and so many pairs behind it, each of a key and its value.
    pub const fn counted_pairs(at: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { begin: Begin::Index(at), find: Find::KeyNum { at: 0, first: 1, step: 2 }, flags }
    }

    /// The one key that the function finds.
    pub const fn found(find: FindKey, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { begin: Begin::Found(find), find: Find::Range { last: 0, step: 1, limit: 0 }, flags }
    }

    /// Whether the group is just the first argument.
    pub const fn is_first_only(&self) -> bool {
        matches!(self.begin, Begin::Index(1)) && matches!(self.find, Find::Range { last: 0, .. })
    }

    /// Calls `visit` with the index of each argument that is a key. `false`: the arguments do not fit the
    /// spec (a count that is no number or too large); the command itself then says what is wrong.
    pub fn visit(&self, args: Args<'_>, mut visit: impl FnMut(usize)) -> bool {
        let first = match self.begin {
            Begin::Index(index) => index,
            Begin::Found(find) | Begin::Option(_, _, find) | Begin::IndexIf(_, find) => match find(args) {
                Some(index) => index,
                None => return true,
            },
        };
        let (first, last, step) = match self.find {
            Find::Range { last, step, limit } => {
                let last = if last >= 0 {
                    first + last as usize
                } else if limit > 1 {
                    let part = args.len().saturating_sub(first) / limit;
                    (first as i64 + part as i64 + i64::from(last)).max(0) as usize
                } else {
                    (args.len() as i64 + i64::from(last)).max(0) as usize
                };
                (first, last, step)
            }
            Find::KeyNum { at, first: offset, step } => {
                let count =
                    args.get(first + at).and_then(|text| std::str::from_utf8(text).ok()?.parse::<i64>().ok());
                let Some(count) = count.filter(|&count| count > 0 && (count as usize) < args.len()) else {
                    return false;
                };
                (first + offset, first + offset + (count as usize - 1) * step, step)
            }
        };
        if last >= args.len() {
            return false;
        }
        for index in (first..=last).step_by(step) {
            visit(index);
        }
        true
    }
}

impl Spec {
    /// Whether the command may change keys.
    #[inline]
    pub const fn may_write(&self) -> bool {
        self.flags.has(Flags::WRITE) || self.flags.has(Flags::SCRIPT) && !self.flags.has(Flags::READONLY)
    }

    /// Whether a request with `len` arguments, the name among them, is long enough and not too long.
    pub const fn accepts(&self, len: usize) -> bool {
        if self.arity >= 0 { len == self.arity as usize } else { len >= self.arity.unsigned_abs() as usize }
    }

    /// The keys that a request declares. None if its arguments are not right, as it will be refused before it
    /// looks at any.
    pub fn declared_keys<'a>(&self, db: u8, databases: usize, args: Args<'a>) -> Keys<'a> {
        let mut keys = Keys::new();
        for spec in self.keys {
            if spec.is_first_only() {
                keys.push(KeyRef::of(db, args.at(1)));
            } else if !spec.visit(args, |index| keys.push(KeyRef::of(db, args.at(index)))) {
                // The command will refuse these arguments before it looks at any key.
                keys.clear();
                break;
            }
        }
        if let Some(more_keys) = self.more_keys {
            more_keys(db, databases, args, &mut keys);
        }
        keys
    }
}
