//! Keyspace events: those of a command follow from its name and from what it has written.
//!
//! ```text
//!   a command has run ── its changes are there ── events, among the staged messages ── publish ── unlatch
//! ```
//!
//! The events of a command are found when its changes are in force and its keys are latched still, so that a
//! key that was emptied is seen to be gone. They leave as messages do: when the changes may be revealed.

use smallvec::{SmallVec, smallvec};
use tarn_engine::record::{Batch, Change, Lsn, Write};
use tarn_engine::session::Latched;
use tarn_engine::value::ValueRef;
use tarn_engine::value::stream::element;
use tarn_resp::Args;

use crate::config::EventClasses;
use crate::execute::parse::{Comparison, ExpiryForm};
use crate::execute::spec::Keys;
use crate::pubsub::{Kind, Publication, Staged};
use crate::shared::Shared;

/// The events of each key that a command has written.
enum Tells {
    /// The event, then `del` if the key is gone.
    ThenDel,
    /// `del` if the key is gone, or the event.
    OrDel,
}

/// The events that one command publishes.
pub(super) struct Events<'e> {
    classes: EventClasses,
    staged: &'e mut Vec<Staged>,
}

impl<'e> Events<'e> {
    /// The events of these classes, which are added to `staged`.
    pub(super) fn new(classes: EventClasses, staged: &'e mut Vec<Staged>) -> Events<'e> {
        Events { classes, staged }
    }

    fn add(&mut self, class: EventClasses, event: &str, db: u8, key: &[u8]) {
        if self.classes.has(class) {
            self.staged.extend(publications(self.classes, event, db, key).map(Staged::Message));
        }
    }

    /// Adds `del` if the key is gone. Of a hash of which only fields are left whose time is over, who removes
    /// these will tell so.
    fn del_if_gone(&mut self, latched: &Latched<'_>, db: u8, key: &[u8]) {
        if latched.is_gone(db, key) {
            self.add(EventClasses::GENERIC, "del", db, key);
        }
    }

    /// Adds those of the keys that `batch` will create.
    pub(super) fn add_new(&mut self, latched: &Latched<'_>, batch: &Batch<'_>) {
        if !self.classes.has(EventClasses::NEW) {
            return;
        }
        let mut last = None;
        for write in batch {
            let Write::Key { db, key, change } = write else { continue };
            let place = (*db, key.as_ref());
            if !matches!(change, Change::Delete) && last != Some(place) && latched.get(*db, key).is_none() {
                self.add(EventClasses::NEW, "new", *db, key);
            }
            last = Some(place);
        }
    }

    /// Adds those of the consumers that `batch` will create, whatever the command is.
    pub(super) fn add_consumers(&mut self, latched: &Latched<'_>, batch: &Batch<'_>) {
        if !self.classes.has(EventClasses::STREAM) {
            return;
        }
        for write in batch {
            if let Write::Key { db, key, change: Change::StreamPut { name, .. } } = write
                && let Some((group, consumer)) = element::consumer_in(name)
            {
                let is_there = latched.get(*db, key).is_some_and(|entry| match entry.value() {
                    ValueRef::Stream(stream) => {
                        stream.group(group).is_some_and(|group| group.consumer(consumer).is_some())
                    }
                    _ => false,
                });
                if !is_there {
                    self.add(EventClasses::STREAM, "xgroup-createconsumer", *db, key);
                }
            }
        }
    }

    /// Adds those of the keys that a command has looked for and that are missing. `OBJECT` and `MEMORY USAGE`
    /// tell of none.
    pub(super) fn add_missed(&mut self, latched: &Latched<'_>, name: &str, keys: &Keys<'_>) {
        let only_inspects = matches!(name, "encoding" | "freq" | "idletime" | "refcount" | "usage");
        if self.classes.has(EventClasses::KEY_MISS) && !only_inspects {
            for key in keys.iter().filter(|key| latched.find(**key).is_none()) {
                self.add(EventClasses::KEY_MISS, "keymiss", key.db, key.key);
            }
        }
    }

    /// Adds those of a command whose changes, which `batch` has, are in force.
    pub(super) fn add_written(
        &mut self,
        latched: &Latched<'_>,
        name: &str,
        args: Args<'_>,
        db: u8,
        batch: &Batch<'_>,
    ) {
        if batch.is_empty() {
            return;
        }
        match name {
            "rename" | "renamenx" => {
                self.add(EventClasses::GENERIC, "rename_from", db, args.at(1));
                self.add(EventClasses::GENERIC, "rename_to", db, args.at(2));
            }
            "move" => {
                let target = batch.iter().filter_map(database).find(|target| *target != db).unwrap_or(db);
                self.add(EventClasses::GENERIC, "move_from", db, args.at(1));
                self.add(EventClasses::GENERIC, "move_to", target, args.at(1));
            }
            "smove" => {
                self.add(EventClasses::SET, "srem", db, args.at(1));
                self.del_if_gone(latched, db, args.at(1));
                let adds =
                    |write: &Write<'_>| matches!(write, Write::Key { change: Change::SetAdd { .. }, .. });
                if batch.iter().any(adds) {
                    self.add(EventClasses::SET, "sadd", db, args.at(2));
                }
            }
            // A message that has come again is counted, and no entry.
            "xadd" if batch.iter().any(adds_entry) => {
                self.add(EventClasses::STREAM, "xadd", db, args.at(1));
                if batch.iter().any(removes_entries) {
                    self.add(EventClasses::STREAM, "xtrim", db, args.at(1));
                }
            }
            "increx" => {
                for write in batch {
                    let Write::Key { change, .. } = write else { continue };
                    let (class, event) = match change {
                        Change::Delete => (EventClasses::GENERIC, "del"),
                        Change::Expire(None) => (EventClasses::GENERIC, "persist"),
                        Change::Expire(Some(_)) => (EventClasses::GENERIC, "expire"),
                        _ if has_word(args.tail(2), "byfloat") => (EventClasses::STRING, "incrbyfloat"),
                        _ => (EventClasses::STRING, "incrby"),
                    };
                    self.add(class, event, db, args.at(1));
                }
            }
            // What is acknowledged, or pending no more, is no event.
            "xdelex" | "xackdel" if batch.iter().any(removes_entries) => {
                self.add(EventClasses::STREAM, "xdel", db, args.at(1));
            }
            "xadd" | "xdelex" | "xackdel" => {}
            "lmove" | "blmove" | "rpoplpush" | "brpoplpush" => {
                let is_left = |at: usize| args.at(at).eq_ignore_ascii_case(b"left");
                let by_sides = name.ends_with("lmove");
                let (pops_left, pushes_left) =
                    if by_sides { (is_left(3), is_left(4)) } else { (false, true) };
                self.add(EventClasses::LIST, if pushes_left { "lpush" } else { "rpush" }, db, args.at(2));
                self.add(EventClasses::LIST, if pops_left { "lpop" } else { "rpop" }, db, args.at(1));
                self.del_if_gone(latched, db, args.at(1));
            }
            _ if of_field_times(name, args, batch).is_some() => {
                for event in of_field_times(name, args, batch).into_iter().flatten() {
                    self.add(EventClasses::HASH, event, db, args.at(1));
                }
                self.del_if_gone(latched, db, args.at(1));
            }
            _ => self.add_each(latched, name, args, batch),
        }
    }

    /// Adds the event of a command for each key that it has written.
    fn add_each(&mut self, latched: &Latched<'_>, name: &str, args: Args<'_>, batch: &Batch<'_>) {
        let Some((class, event, tells)) = event_of(name, args) else { return };
        // Each pair of MSET is an event; other commands write several elements of a key.
        let is_for_each_write = matches!(name, "mset" | "msetnx" | "msetex");
        let mut last = None;
        for write in batch {
            let Write::Key { db, key, .. } = write else { continue };
            if !is_for_each_write && last == Some((*db, key.as_ref())) {
                continue;
            }
            last = Some((*db, key.as_ref()));
            let is_gone = latched.is_gone(*db, key);
            if !is_gone || matches!(tells, Tells::ThenDel) {
                self.add(class, event, *db, key);
            }
            if is_gone {
                self.add(EventClasses::GENERIC, "del", *db, key);
            } else if matches!(name, "set" | "setex" | "psetex" | "msetex") && sets_expiry(name, args) {
                self.add(EventClasses::GENERIC, "expire", *db, key);
            }
        }
    }
}

/// The database of a write.
fn database(write: &Write<'_>) -> Option<u8> {
    if let Write::Key { db, .. } = write { Some(*db) } else { None }
}

/// Whether a stream gets an entry.
fn adds_entry(write: &Write<'_>) -> bool {
    matches!(write, Write::Key { change: Change::StreamPut { name, .. }, .. } if element::is_entry(name))
}

/// Whether a stream loses entries.
fn removes_entries(write: &Write<'_>) -> bool {
    let Write::Key { change, .. } = write else { return false };
    match change {
        Change::StreamTrim { .. } => true,
        Change::StreamRemove { name } => element::is_entry(name),
        _ => false,
    }
}

/// The events of a command that changes the times of fields, by what it has written; `None` for another
/// command.
fn of_field_times(name: &str, args: Args<'_>, batch: &Batch<'_>) -> Option<SmallVec<[&'static str; 2]>> {
    let has = |is: fn(&Change<'_>) -> bool| {
        batch.iter().any(|write| matches!(write, Write::Key { change, .. } if is(change)))
    };
    let removes = || has(|change| matches!(change, Change::HashRemove { .. }));
    let set = || if removes() { "hdel" } else { "hexpire" };
    Some(match name {
        "hexpire" | "hpexpire" | "hexpireat" | "hpexpireat" => smallvec![set()],
        "hpersist" => smallvec!["hpersist"],
        "hgetdel" => smallvec!["hdel"],
        "hgetex" if has(|change| matches!(change, Change::HashExpire { at: None, .. })) => {
            smallvec!["hpersist"]
        }
        "hgetex" => smallvec![set()],
        // `KEEPTTL` writes times again that the fields had.
        "hsetex" if sets_field_times(args) => smallvec!["hset", set()],
        "hsetex" => smallvec!["hset"],
        _ => return None,
    })
}

/// Whether `HSETEX` has an option in front of its fields that says when these expire.
fn sets_field_times(args: Args<'_>) -> bool {
    let mut options = args.tail(2).iter().take_while(|word| !word.eq_ignore_ascii_case(b"fields"));
    let names = ["ex", "px", "exat", "pxat"];
    options.any(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes())))
}

/// Whether a command that writes a string gives it an expiry.
fn sets_expiry(name: &str, args: Args<'_>) -> bool {
    match name {
        "set" => has_expiry(args, 3),
        "msetex" => number_at(args, 1).is_some_and(|pairs| has_expiry(args, 2 + 2 * pairs)),
        _ => true,
    }
}

/// Whether an option says when a key expires; the first one stands at `index`.
fn has_expiry(args: Args<'_>, mut index: usize) -> bool {
    while let Some(option) = args.get(index) {
        if ExpiryForm::of_option(option).is_some() {
            return true;
        }
        // A value to be compared with may look like an option.
        index += if Comparison::of_option(option).is_some() { 2 } else { 1 };
    }
    false
}

/// Whether one of the arguments is this word.
fn has_word(args: Args<'_>, word: &str) -> bool {
    args.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether one of the options of `ZADD`, which stand before the first score, is `INCR`.
fn is_zadd_incr(args: Args<'_>) -> bool {
    let is = |word: &[u8], option: &str| word.eq_ignore_ascii_case(option.as_bytes());
    let mut options = args
        .tail(2)
        .iter()
        .take_while(|word| ["nx", "xx", "gt", "lt", "ch", "incr"].iter().any(|option| is(word, option)));
    options.any(|word| is(word, "incr"))
}

/// The word behind the counted keys of `LMPOP`, `ZMPOP` and their kind, whose number stands at `at`.
fn word_behind_keys<'a>(args: Args<'a>, at: usize) -> &'a [u8] {
    number_at(args, at).and_then(|count| args.get(at + 1 + count)).unwrap_or_default()
}

/// The number of keys that stands at `at`.
fn number_at(args: Args<'_>, at: usize) -> Option<usize> {
    std::str::from_utf8(args.at(at)).ok()?.parse().ok()
}

/// The event of a command for each key that it writes; `None`: it has none.
fn event_of<'n>(name: &'n str, args: Args<'_>) -> Option<(EventClasses, &'n str, Tells)> {
    use EventClasses as Class;
    use Tells::{OrDel, ThenDel};
    let is_left = |at| word_behind_keys(args, at).eq_ignore_ascii_case(b"left");
    let is_min = |at| word_behind_keys(args, at).eq_ignore_ascii_case(b"min");
    let pop = |is_left| if is_left { "lpop" } else { "rpop" };
    let zpop = |is_min| if is_min { "zpopmin" } else { "zpopmax" };
    Some(match name {
        "set" | "setnx" | "setex" | "psetex" | "getset" | "mset" | "msetnx" | "msetex" => {
            (Class::STRING, "set", ThenDel)
        }
        "append" | "setrange" | "incrbyfloat" => (Class::STRING, name, ThenDel),
        "incr" | "decr" | "incrby" | "decrby" => (Class::STRING, "incrby", ThenDel),
        "pfadd" | "pfmerge" => (Class::STRING, "pfadd", ThenDel),
        "setbit" | "bitfield" => (Class::STRING, "setbit", ThenDel),
        "bitop" => (Class::STRING, "set", OrDel),
        "del" | "unlink" | "getdel" | "delex" | "delifeq" | "migrate" => (Class::GENERIC, "del", OrDel),
        "getex" if has_word(args.tail(2), "persist") => (Class::GENERIC, "persist", OrDel),
        "getex" | "expire" | "pexpire" | "expireat" | "pexpireat" => (Class::GENERIC, "expire", OrDel),
        "persist" | "restore" => (Class::GENERIC, name, OrDel),
        "copy" => (Class::GENERIC, "copy_to", OrDel),
        "sort" => (Class::LIST, "sortstore", OrDel),
        "lpush" | "lpushx" => (Class::LIST, "lpush", ThenDel),
        "rpush" | "rpushx" => (Class::LIST, "rpush", ThenDel),
        "linsert" | "lset" | "lrem" | "ltrim" => (Class::LIST, name, ThenDel),
        "lpop" | "blpop" => (Class::LIST, "lpop", ThenDel),
        "rpop" | "brpop" => (Class::LIST, "rpop", ThenDel),
        "lmpop" => (Class::LIST, pop(is_left(1)), ThenDel),
        "blmpop" => (Class::LIST, pop(is_left(2)), ThenDel),
        "sadd" | "srem" | "spop" => (Class::SET, name, ThenDel),
        "sinterstore" | "sunionstore" | "sdiffstore" => (Class::SET, name, OrDel),
        "hset" | "hmset" | "hsetnx" => (Class::HASH, "hset", ThenDel),
        "hdel" | "hincrby" | "hincrbyfloat" => (Class::HASH, name, ThenDel),
        "zadd" if is_zadd_incr(args) => (Class::ZSET, "zincr", ThenDel),
        "zincrby" => (Class::ZSET, "zincr", ThenDel),
        "zadd" | "zrem" | "zremrangebyrank" | "zremrangebyscore" | "zremrangebylex" => {
            (Class::ZSET, name, ThenDel)
        }
        "zpopmin" | "bzpopmin" => (Class::ZSET, "zpopmin", ThenDel),
        "zpopmax" | "bzpopmax" => (Class::ZSET, "zpopmax", ThenDel),
        "zmpop" => (Class::ZSET, zpop(is_min(1)), ThenDel),
        "bzmpop" => (Class::ZSET, zpop(is_min(2)), ThenDel),
        "zrangestore" | "zunionstore" | "zinterstore" | "zdiffstore" => (Class::ZSET, name, OrDel),
        "xdel" | "xsetid" | "xtrim" => (Class::STREAM, name, ThenDel),
        "create" => (Class::STREAM, "xgroup-create", ThenDel),
        "destroy" => (Class::STREAM, "xgroup-destroy", ThenDel),
        "delconsumer" => (Class::STREAM, "xgroup-delconsumer", ThenDel),
        "setid" => (Class::STREAM, "xgroup-setid", ThenDel),
        "geoadd" => (Class::ZSET, "zadd", ThenDel),
        "georadius" | "georadiusbymember" => (Class::ZSET, "georadiusstore", OrDel),
        "geosearchstore" => (Class::ZSET, "geosearchstore", OrDel),
        "json.forget" => (Class::MODULE, "json.del", ThenDel),
        _ if name.starts_with("json.") => (Class::MODULE, name, ThenDel),
        _ => return None,
    })
}

/// The messages of one event.
fn publications(classes: EventClasses, event: &str, db: u8, key: &[u8]) -> impl Iterator<Item = Publication> {
    let publication = |channel: &[u8], behind: &[u8], payload: &[u8]| Publication {
        kind: Kind::Channel,
        channel: [channel, behind].concat().into(),
        payload: payload.into(),
    };
    let of_key = classes
        .has(EventClasses::KEYSPACE)
        .then(|| publication(format!("__keyspace@{db}__:").as_bytes(), key, event.as_bytes()));
    let of_event = classes
        .has(EventClasses::KEYEVENT)
        .then(|| publication(format!("__keyevent@{db}__:").as_bytes(), event.as_bytes(), key));
    of_key.into_iter().chain(of_event)
}

/// Whether anything of what expires is told where events of these classes are.
pub(crate) fn tells_of_expiry(classes: EventClasses) -> bool {
    // Of keys; of fields; of hashes that have lost the last one.
    let told = [EventClasses::EXPIRED, EventClasses::HASH, EventClasses::GENERIC];
    told.into_iter().any(|class| classes.has(class))
}

/// Tells that a key has expired and was deleted as `lsn`.
pub(crate) fn tell_expired(server: &Shared, db: u8, key: &[u8], lsn: Lsn) {
    tell_gone(server, (EventClasses::EXPIRED, "expired"), db, key, lsn);
}

/// Tells that a key was evicted as `lsn`.
pub(crate) fn tell_evicted(server: &Shared, db: u8, key: &[u8], lsn: Lsn) {
    tell_gone(server, (EventClasses::EVICTED, "evicted"), db, key, lsn);
}

fn tell_gone(server: &Shared, (class, event): (EventClasses, &str), db: u8, key: &[u8], lsn: Lsn) {
    server.tell_changed(&[key], lsn);
    let Some(classes) = server.live.event_classes() else { return };
    if classes.has(class) {
        for Publication { kind, channel, payload } in publications(classes, event, db, key) {
            server.pubsub.publish(kind, &channel, &payload, lsn, None);
        }
    }
}

/// Tells that fields of a hash have expired and were removed up to `lsn`, and whether the key is gone.
pub(crate) fn tell_fields_expired(server: &Shared, db: u8, key: &[u8], lsn: Lsn, is_gone: bool) {
    server.tell_changed(&[key], lsn);
    let Some(classes) = server.live.event_classes() else { return };
    let events = [(EventClasses::HASH, "hexpired", true), (EventClasses::GENERIC, "del", is_gone)];
    for (_, event, _) in events.into_iter().filter(|(class, _, happens)| *happens && classes.has(*class)) {
        for Publication { kind, channel, payload } in publications(classes, event, db, key) {
            server.pubsub.publish(kind, &channel, &payload, lsn, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;
    use crate::execute::spec::Flags;
    use tarn_resp::OwnedArgs;

    #[test]
    fn expiry_is_told_of_by_each_class_that_has_an_event_of_it() {
        let with = |class: EventClasses| EventClasses(EventClasses::KEYEVENT.0 | class.0);
        for class in [EventClasses::EXPIRED, EventClasses::HASH, EventClasses::GENERIC] {
            assert!(tells_of_expiry(with(class)), "{}", class.0);
        }
        for class in [EventClasses::EVICTED, EventClasses::STRING, EventClasses::NEW] {
            assert!(!tells_of_expiry(with(class)), "{}", class.0);
        }
    }

    /// Commands whose events `add_written` finds itself.
    const WITH_SEVERAL: &[&str] = &[
        "rename",
        "renamenx",
        "move",
        "smove",
        "lmove",
        "blmove",
        "rpoplpush",
        "brpoplpush",
        "xadd",
        "increx",
        "xdelex",
        "xackdel",
    ];
    /// Commands whose events follow from what they write to times of fields.
    const OF_FIELD_TIMES: &[&str] =
        &["hexpire", "hpexpire", "hexpireat", "hpexpireat", "hpersist", "hgetdel", "hgetex", "hsetex"];
    /// Commands whose only events are of consumers that they create.
    const OF_CONSUMERS: &[&str] = &["createconsumer", "xreadgroup", "xclaim", "xautoclaim"];
    /// Commands that write and have no events, and why.
    const WITHOUT: &[(&str, &str)] = &[
        ("flushdb", "Redis has no event for it"),
        ("flushall", "Redis has no event for it"),
        ("swapdb", "Redis has no event for it"),
        ("xack", "Redis has no event for it"),
        ("xcfgset", "Redis has no event for it"),
        ("pfcount", "what it keeps is no change"),
        ("pfdebug", "Redis has no event for it"),
        ("loadaof", "brings back what was there"),
        ("populate", "keys for tests"),
        ("reload", "brings back what was there"),
        ("delete", "a library of functions is no key"),
        ("flush", "libraries of functions are no keys"),
        ("load", "a library of functions is no key"),
    ];

    #[test]
    fn each_command_that_writes_has_events_or_a_reason_for_none() {
        let args: OwnedArgs = ["name", "a", "1", "b", "c", "d", "e", "f"].into_iter().collect();
        let mut without: Vec<&str> = Vec::new();
        for found in commands::table().all() {
            for command in std::iter::once(found.command).chain(found.command.subcommands) {
                let is_told = event_of(command.name, args.as_args()).is_some()
                    || WITH_SEVERAL.contains(&command.name)
                    || OF_CONSUMERS.contains(&command.name)
                    || OF_FIELD_TIMES.contains(&command.name);
                if command.flags.has(Flags::WRITE) && !is_told {
                    without.push(command.name);
                }
            }
        }
        assert_eq!(without.len(), WITHOUT.len(), "{without:?} have no events");
        assert!(WITHOUT.iter().all(|(name, _)| without.contains(name)), "{without:?} have no events");
    }
}
