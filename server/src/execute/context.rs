//! The context of a command: everything that it sees besides its arguments.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tarn_engine::Entry;
use tarn_engine::record::{BYTES_MAX, Batch, Bytes, Change, Kind, UnixMs, Write};
use tarn_engine::session::{Copied, Latched};
use tarn_engine::value::{HashRef, ListRef, SetRef, StreamRef, StringRef, ValueRef, ZSetRef};
use tarn_resp::Writer;
use tarn_resp::{Args, OwnedArgs};

use crate::config::{AppendFsync, ClientClass};
use crate::error::CommandError;
use crate::execute::blocking::{AwaitedLog, BlockRequest, LOOK_PAUSE, acknowledge};
use crate::execute::client::{After, Client};
use crate::execute::preparing::{ATTEMPTS, Place, Preparing, Ready};
use crate::execute::services::Services;
use crate::execute::steps::{GATHERED_MIN, MUCH, Rest, STEP, Steps};
use crate::execute::storing::{Stored, begin};

/// Bytes of a key that a value is prepared for, at most.
const PREPARED_KEY_MAX: usize = 4 << 10;
/// Elements that are written between two looks at the time of a step, and about how many bytes.
const PART_ELEMENTS: usize = 64;
const PART_BYTES: usize = 16 << 10;

/// Copies of the entries of keys, some of which may be missing, or come more than once.
pub(crate) struct Copies {
    copies: Vec<Copied>,
    /// The place of each key's copy.
    places: Vec<Option<usize>>,
    /// Elements in all, those of a key that comes twice counted twice.
    elements: usize,
}

impl Copies {
    /// The entries; `None` for keys that are missing.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Option<&Entry>> {
        self.places.iter().map(|place| place.map(|place| &*self.copies[place]))
    }

    /// Elements in all.
    pub(crate) fn elements(&self) -> usize {
        self.elements
    }
}

/// The surroundings of one run of a command.
///
/// A command looks at the keys that its row in the table declares, pushes the writes that it wants, and
/// writes one reply. The writes are appended and applied when it has returned `Ok`; on `Err` there is no
/// change and the reply is the error.
pub struct Context<'c, 'a> {
    /// The latched keys.
    pub keys: &'c Latched<'c>,
    /// The changes to make. Effects of earlier writes are not visible in `keys`.
    pub batch: &'c mut Batch<'a>,
    /// Where the reply goes.
    pub reply: Writer<'c>,
    /// Whose request it is.
    pub client: &'c mut Client,
    /// The server.
    pub server: &'c Services,
    /// The selected database.
    pub db: u8,
}

impl<'c, 'a> Context<'c, 'a> {
    /// The time this command takes for now.
    pub fn now(&self) -> UnixMs {
        self.keys.now()
    }

    /// Says that an answer of analytics, which waits for the disk as `appendfsync` says, goes to a client
    /// that asked for more.
    pub fn see_if_strict(&self) {
        if self.client.handle.durability() == Some(AppendFsync::Always) {
            self.keys.see_all();
        }
    }

    /// The live entry of a declared key.
    pub fn entry(&self, key: &[u8]) -> Option<&'c Entry> {
        self.keys.get(self.db, key)
    }

    /// The entry of `key`, which holds a value of this kind; `None` if the key is missing.
    pub fn entry_of(&self, key: &[u8], kind: Kind) -> Result<Option<&'c Entry>, CommandError> {
        match self.entry(key) {
            Some(entry) if entry.kind() != kind => Err(CommandError::WrongType),
            entry => Ok(entry),
        }
    }

    /// The string at `key`; `None` if the key is missing.
    pub fn string(&self, key: &[u8]) -> Result<Option<StringRef<'c>>, CommandError> {
        match self.entry(key).map(Entry::value) {
            None => Ok(None),
            Some(ValueRef::String(value)) => Ok(Some(value)),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    /// The hash at `key`, without fields whose time is over; `None` if the key is missing.
    pub fn hash(&self, key: &[u8]) -> Result<Option<HashRef<'c>>, CommandError> {
        match self.entry(key).map(Entry::value) {
            None => Ok(None),
            Some(ValueRef::Hash(value)) => Ok(Some(value.at(self.now()))),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    /// The list at `key`; `None` if the key is missing.
    pub fn list(&self, key: &[u8]) -> Result<Option<ListRef<'c>>, CommandError> {
        match self.entry(key).map(Entry::value) {
            None => Ok(None),
            Some(ValueRef::List(value)) => Ok(Some(value)),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    /// The set at `key`; `None` if the key is missing.
    pub fn set(&self, key: &[u8]) -> Result<Option<SetRef<'c>>, CommandError> {
        match self.entry(key).map(Entry::value) {
            None => Ok(None),
            Some(ValueRef::Set(value)) => Ok(Some(value)),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    /// The sorted set at `key`; `None` if the key is missing.
    pub fn zset(&self, key: &[u8]) -> Result<Option<ZSetRef<'c>>, CommandError> {
        match self.entry(key).map(Entry::value) {
            None => Ok(None),
            Some(ValueRef::ZSet(value)) => Ok(Some(value)),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    /// The stream at `key`; `None` if the key is missing.
    pub fn stream(&self, key: &[u8]) -> Result<Option<StreamRef<'c>>, CommandError> {
        match self.entry(key).map(Entry::value) {
            None => Ok(None),
            Some(ValueRef::Stream(value)) => Ok(Some(value)),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    /// The text of the JSON document at `key`; `None` if the key is missing.
    pub fn json(&self, key: &[u8]) -> Result<Option<StringRef<'c>>, CommandError> {
        match self.entry(key).map(Entry::value) {
            None => Ok(None),
            Some(ValueRef::Json(text)) => Ok(Some(text)),
            Some(_) => Err(CommandError::WrongType),
        }
    }

    /// Replies with a part of the string of an entry, in steps if it is giant. REQUIRES: it ends in there.
    #[inline]
    pub fn reply_part_of(&mut self, entry: &Entry, string: StringRef<'_>, range: Range<usize>) {
        match string.whole() {
            Some(bytes) => self.reply.bulk(&bytes[range]),
            None => self.reply_giant(entry, string, range),
        }
    }

    #[cold]
    fn reply_giant(&mut self, entry: &Entry, string: StringRef<'_>, range: Range<usize>) {
        if !self.is_long(0, range.len()) {
            return self.reply_part(string, range);
        }
        let copy = self.keys.copy(entry);
        self.run_in_steps(0, async move |steps| {
            let Some(string) = copy.value().bytes() else { return Ok(()) };
            steps.reply(|reply| reply.raw(format!("${}\r\n", range.len()).as_bytes()));
            steps.each(string.pieces(range), |reply, piece| reply.raw(piece)).await;
            steps.reply(|reply| reply.raw(b"\r\n"));
            Ok(())
        });
    }

    /// Replies with a string.
    #[inline]
    pub fn reply_string(&mut self, string: StringRef<'_>) {
        self.reply_part(string, 0..string.len());
    }

    /// Replies with a part of a string. REQUIRES: it ends in there.
    #[inline]
    pub fn reply_part(&mut self, string: StringRef<'_>, range: Range<usize>) {
        match string.whole() {
            Some(bytes) => self.reply.bulk(&bytes[range]),
            None => self.reply.bulk_of_pieces(range.len(), string.pieces(range)),
        }
    }

    /// As `list`, for commands that may wait: those that do pass keys of another kind over, and others leave
    /// what there is to those that do.
    pub fn awaited_list(&self, key: &[u8]) -> Result<Option<ListRef<'c>>, CommandError> {
        match self.list(key) {
            Err(_) if self.client.waits => Ok(None),
            Ok(Some(_)) if self.is_behind_others(key, Kind::List) => Ok(None),
            list => list,
        }
    }

    /// As `zset`, for commands that may wait: those that do pass keys of another kind over, and others leave
    /// what there is to those that do.
    pub fn awaited_zset(&self, key: &[u8]) -> Result<Option<ZSetRef<'c>>, CommandError> {
        match self.zset(key) {
            Err(_) if self.client.waits => Ok(None),
            Ok(Some(_)) if self.is_behind_others(key, Kind::ZSet) => Ok(None),
            zset => zset,
        }
    }

    /// Whether the client can wait, and others wait for this key already. They are served when it has joined
    /// them at the latest.
    fn is_behind_others(&self, key: &[u8], kind: Kind) -> bool {
        self.can_wait() && self.server.blocking.is_awaited(self.client.db, key, kind)
    }

    /// The same, where others wait for entries of the stream at this key on behalf of a group.
    pub fn is_behind_readers(&self, key: &[u8], group: &[u8]) -> bool {
        self.can_wait() && self.server.blocking.is_read_for(self.client.db, key, group)
    }

    fn can_wait(&self) -> bool {
        !self.client.waits && !self.client.denies_waiting
    }

    /// Lets the client wait until one of the keys, which are `args[keys]` in the selected database, is given
    /// something of this kind, or for the timeout (`None`: for ever). The command that asks for it writes no
    /// reply; it runs again then. Within a transaction nobody waits: the reply is that of a wait that is
    /// over.
    pub fn wait_for(&mut self, kind: Kind, keys: Range<usize>, timeout: Option<Duration>, args: Args<'_>) {
        if self.client.denies_waiting {
            self.reply.null_array();
            return;
        }
        let request = BlockRequest {
            kind: Some(kind),
            first_key: keys.start,
            keys: keys.map(|index| Box::from(&args[index])).collect(),
            ..BlockRequest::new(timeout, OwnedArgs::from(args))
        };
        self.client.after = After::Block(Box::new(request));
    }

    /// As `wait_for`, for entries of streams, of which the IDs stand behind all keys; `group` is the group
    /// that reads them.
    pub fn wait_for_entries(
        &mut self,
        keys: Range<usize>,
        group: Option<&[u8]>,
        timeout: Option<Duration>,
        args: Args<'_>,
    ) {
        self.wait_for(Kind::Stream, keys, timeout, args);
        if let After::Block(request) = &mut self.client.after {
            request.group = group.map(Box::from);
        }
    }

    /// Lets the client, if it waits, look again after this time: something may be there then although nobody
    /// has written.
    pub fn look_again_after(&mut self, time: Duration) {
        if let After::Block(request) = &mut self.client.after {
            request.look_after = Some(time.max(LOOK_PAUSE));
        }
    }

    /// Lets the client wait until the time is over (`None`: for ever), which is answered with 0.
    pub fn wait_for_replicas(&mut self, timeout: Option<Duration>, args: Args<'_>) {
        if self.client.denies_waiting {
            self.reply.integer(0);
            return;
        }
        self.wait_without_keys(None, timeout, args);
    }

    /// Waits until the log is durable as `awaited` says.
    pub fn wait_for_log(&mut self, awaited: AwaitedLog, timeout: Option<Duration>, args: Args<'_>) {
        let kept = self.server.kept();
        if awaited.is_done(kept) || self.client.denies_waiting {
            acknowledge(&mut self.reply, awaited.is_kept(kept));
            return;
        }
        self.server.have_synced(awaited.local.unwrap_or_default(), false);
        self.wait_without_keys(Some(awaited), timeout, args);
    }

    fn wait_without_keys(&mut self, log: Option<AwaitedLog>, timeout: Option<Duration>, args: Args<'_>) {
        let request = BlockRequest { log, ..BlockRequest::new(timeout, OwnedArgs::from(args)) };
        self.client.after = After::Block(Box::new(request));
    }

    /// Whether a command that goes through so many elements of each of these entries is to run in steps.
    pub fn runs_long<'e>(&self, parts: impl Iterator<Item = (&'e Entry, usize)>) -> bool {
        let (mut elements, mut bytes) = (0, 0);
        for (entry, part) in parts {
            elements += part;
            if entry.is_large() {
                bytes += entry.bytes_about() / entry.count().max(1) * part;
            }
        }
        self.is_long(elements, bytes)
    }

    /// Copies of these entries, if a command that goes through all of them is to run in steps.
    pub(crate) fn copies_if_long(&self, entries: &[Option<&Entry>]) -> Option<Copies> {
        let there = entries.iter().flatten();
        if !self.runs_long(there.clone().map(|entry| (*entry, entry.count()))) {
            return None;
        }
        let elements = there.map(|entry| entry.count()).sum();
        let mut copies = Vec::new();
        let mut known = HashMap::new();
        let mut place = |entry: &Entry| {
            *known.entry(std::ptr::from_ref(entry).addr()).or_insert_with(|| {
                copies.push(self.keys.copy(entry));
                copies.len() - 1
            })
        };
        let places = entries.iter().map(|entry| entry.map(&mut place)).collect();
        Some(Copies { copies, places, elements })
    }

    /// Copies of these entries, if a command that stores what it makes of all of them is to prepare that.
    pub(crate) fn copies_to_prepare(&self, key: &[u8], entries: &[Option<&Entry>]) -> Option<Copies> {
        self.may_prepare(key).then(|| self.copies_if_long(entries)).flatten()
    }

    /// Whether a command that goes through so many elements, or bytes, is to run in steps. One within a
    /// transaction does not, nor one that runs in the stead of a client that waits.
    #[inline]
    pub fn is_long(&self, elements: usize, bytes: usize) -> bool {
        (elements > self.server.steps_from.load(Relaxed) || bytes > MUCH)
            && !self.client.denies_waiting
            && !self.client.waits
    }

    /// Lets the client wait until the rest of its command has run, in steps without a latch: what has been
    /// replied so far is followed by what `run` replies. The rest reads copies of the keys. Before it replies
    /// it gathers about so many elements.
    pub(crate) fn run_in_steps<F>(&mut self, gathered: usize, run: impl FnOnce(Rc<Steps>) -> F)
    where
        F: Future<Output = Result<(), CommandError>> + 'static,
    {
        let is_test = self.server.steps_from.load(Relaxed) == 0;
        let step = if is_test { Duration::ZERO } else { STEP };
        let gathers = gathered > if is_test { 0 } else { GATHERED_MIN };
        let held_max = match self.server.live.output_limit_bytes(ClientClass::Normal) {
            0 => usize::MAX,
            limit => limit,
        };
        let rest = Rest::new(self.reply.protocol(), step, gathers, held_max, run);
        self.client.after = After::Steps(Box::new(rest));
    }

    /// Whether a command that is long is to prepare the value that it stores at `key`, instead of doing all
    /// at once.
    pub(crate) fn may_prepare(&self, key: &[u8]) -> bool {
        // Each part has the key.
        key.len() <= PREPARED_KEY_MAX && self.ready().is_none_or(|ready| ready.attempts < ATTEMPTS)
    }

    /// Has a value of this kind prepared for a key, in steps without a latch, from copies of `sources`; then
    /// the command runs again, and [`Context::put_ready`] puts the value in its place. The command changes
    /// and replies nothing now. Before `run` stores anything it gathers about so many elements.
    pub(crate) fn prepare(
        &mut self,
        (db, key): (u8, &[u8]),
        kind: Kind,
        sources: &[&[u8]],
        gathered: usize,
        run: impl AsyncFnOnce(Rc<Steps>, &mut Preparing) -> Result<Stored, CommandError> + 'static,
    ) -> Result<(), CommandError> {
        let engine = self.server.shared_engine().ok_or(CommandError::NoSuchKey)?;
        let source = |key: &&[u8]| ((self.db, Box::from(*key)), self.entry(key).map(Entry::lsn));
        let sources: Vec<(Place, _)> = sources.iter().map(source).collect();
        let before = self.ready().map(|ready| (ready.attempts, ready.took));
        let (attempts, took) = before.unwrap_or_default();
        let target: Place = (db, key.into());
        self.run_in_steps(gathered, async move |steps| {
            let mut preparing = begin(&steps, &engine, &target, kind).await?;
            let (stored, is_void) = match run(steps.clone(), &mut preparing).await {
                // The log was switched off or on.
                Err(CommandError::Unprepared) => ((None, 0), true),
                stored => (stored?, false),
            };
            let (change, elements) = stored;
            let (is_used, has_run) = (false, false);
            steps.be_ready(Ready {
                sources,
                change,
                elements,
                preparing,
                attempts: attempts + 1,
                took,
                is_void,
                is_used,
                has_run,
            });
            Ok(())
        });
        Ok(())
    }

    /// Puts the value in its place that was prepared for a key, if what it was made of has not changed since;
    /// how many elements it has. If it is empty, the key is deleted.
    pub(crate) fn put_ready(&mut self, db: u8, key: &'a [u8]) -> Option<usize> {
        let ready = self.ready().filter(|ready| !ready.is_void)?;
        let newest = |(db, key): &Place| self.keys.get(*db, key).map(Entry::lsn);
        if ready.sources.iter().any(|(source, lsn)| newest(source) != *lsn) {
            return None;
        }
        let (change, elements) = (ready.change.clone(), ready.elements);
        match change {
            Some(change) => self.write_in(db, key.into(), change),
            None if self.keys.get(db, key).is_some() => self.write_in(db, key.into(), Change::Delete),
            None => {}
        }
        self.client.ready.iter_mut().for_each(|ready| ready.is_used = true);
        Some(elements)
    }

    /// The value that this very command has prepared.
    fn ready(&self) -> Option<&Ready> {
        self.client.ready.as_deref().filter(|ready| !ready.has_run)
    }

    /// Replies with those elements of a collection that are in `range`, in steps if they are many. `write`
    /// writes those in a part of it.
    pub fn reply_elements(
        &mut self,
        entry: &Entry,
        range: Range<usize>,
        write: impl Fn(&mut Writer<'_>, ValueRef<'_>, Range<usize>) + 'static,
    ) {
        if !self.runs_long([(entry, range.len())].into_iter()) {
            return write(&mut self.reply, entry.value(), range);
        }
        let copy = self.keys.copy(entry);
        self.run_in_steps(0, async move |steps| {
            // The size of elements is not known before they are written.
            let (mut at, mut part) = (range.start, 1);
            while at < range.end {
                let end = range.end.min(at + part);
                let mut written = 0;
                steps.reply(|reply| {
                    let before = reply.len();
                    write(reply, copy.value(), at..end);
                    written = (reply.len() - before).max(1);
                });
                steps.pass(end - at + written / 64).await;
                part = (PART_BYTES * (end - at) / written).clamp(1, 2 * part).min(PART_ELEMENTS);
                at = end;
            }
            Ok(())
        });
    }

    /// Asks for a change of a declared key in the selected database.
    pub fn write(&mut self, key: &'a [u8], change: Change<'a>) {
        self.write_in(self.db, Cow::Borrowed(key), change);
    }

    /// Asks for a change of a declared key.
    pub fn write_in(&mut self, db: u8, key: Bytes<'a>, change: Change<'a>) {
        self.batch.push(Write::Key { db, key, change });
    }

    /// Notes that a string was to be changed in part and stays as it is: `OBJECT ENCODING` says `raw` then.
    pub fn touch_string(&mut self, key: &'a [u8]) {
        if self.entry(key).is_some_and(|entry| !entry.sticky()) {
            self.write(key, Change::MAKES_RAW);
        }
    }

    /// Refuses strings that would become longer than a bulk may be.
    pub fn check_string_len(&self, len: u64) -> Result<(), CommandError> {
        if len > self.string_len_max() as u64 { Err(CommandError::StringTooLong) } else { Ok(()) }
    }

    /// How long a string may become.
    pub fn string_len_max(&self) -> usize {
        self.server.live.proto_max_bulk_len().min(BYTES_MAX as u64) as usize
    }
}
