//! Client-side caching: the keys that a command has read, and those that it has written.

use tarn_engine::record::{Batch, Lsn, Write};

use crate::execute::client::Client;
use crate::execute::command::Command;
use crate::execute::spec::{Flags, Keys};
use crate::pubsub::{Publication, Staged};
use crate::shared::Shared;

/// Whether the keys that a command of this client reads are to be noted. A client that waited is not tracked
/// for the reply to come: it would be told of a change before it has that.
#[inline]
pub(crate) fn notes_reads(command: &Command, client: &Client) -> bool {
    let flags = command.flags;
    flags.has(Flags::READONLY)
        && client.handle.tracks.flags().remembers()
        && !client.waits
        && !flags.has_any(Flags::SCRIPT.with(Flags::PUBSUB))
}

/// Notes that a client has read keys. REQUIRES: as `Tracking::note_read`.
pub(crate) fn note_reads(server: &Shared, client: &Client, keys: &Keys<'_>) {
    keys.iter().for_each(|key| note_read(server, client, key.key));
}

fn note_read(server: &Shared, client: &Client, key: &[u8]) {
    let post = server.post(Some(client.worker));
    server.tracking.note_read(&client.handle, key, server.live.tracked_keys_max(), post);
}

/// Tells of the changes that a client has made, the last as `lsn`. REQUIRES: as `Tracking::tell_readers`.
pub(crate) fn tell_written(server: &Shared, client: &Client, batch: &Batch<'_>, lsn: Lsn) {
    match written(batch) {
        Some(keys) => {
            tell_readers(server, client, &keys, lsn);
            tell_by_prefix(server, client, &keys, lsn);
        }
        None => tell_all(server, client, lsn),
    }
}

fn tell_readers(server: &Shared, client: &Client, keys: &[&[u8]], lsn: Lsn) {
    let (id, worker) = (client.handle.id, client.worker);
    server.tracking.tell_readers(keys, lsn, Some(id), server.post(Some(worker)));
}

fn tell_by_prefix(server: &Shared, client: &Client, keys: &[&[u8]], lsn: Lsn) {
    let (id, worker) = (client.handle.id, client.worker);
    server.tracking.tell_by_prefix(keys, lsn, Some(id), server.post(Some(worker)));
}

/// Tells of changes of any keys.
pub(crate) fn tell_all(server: &Shared, client: &Client, lsn: Lsn) {
    server.tracking.tell_all(lsn, server.post(Some(client.worker)));
}

/// The keys that a batch changes, in its order; `None`: any.
fn written<'b>(batch: &'b Batch<'_>) -> Option<Vec<&'b [u8]>> {
    let mut keys = Vec::new();
    for write in batch {
        let Write::Key { key, .. } = write else { return None };
        if keys.last() != Some(&&**key) {
            keys.push(&**key);
        }
    }
    Some(keys)
}

/// The keys that a command of a transaction has read, for later.
pub(crate) fn staged_reads(keys: &Keys<'_>) -> Staged {
    Staged::Read(keys.iter().map(|key| key.key.into()).collect())
}

/// The same of those that it has written.
pub(crate) fn staged_writes(batch: &Batch<'_>) -> Staged {
    match written(batch) {
        Some(keys) => Staged::Written(keys.into_iter().map(Box::from).collect()),
        None => Staged::AllWritten,
    }
}

/// Sends the messages that a client has staged, and notes what it has read and written: the changes are
/// there, the newest of them as `seen`. While the keys are latched, so that messages come in the order of the
/// changes.
pub(crate) fn send_staged(server: &Shared, client: &mut Client, seen: Lsn) {
    let seen = seen.max(client.seen);
    let mut written = Vec::new();
    for staged in std::mem::take(&mut client.staged) {
        match staged {
            Staged::Message(Publication { kind, channel, payload }) => {
                let worker = Some(client.worker);
                server.pubsub.publish(kind, &channel, &payload, seen, worker);
            }
            Staged::Read(keys) => keys.iter().for_each(|key| note_read(server, client, key)),
            Staged::Written(keys) => {
                tell_readers(server, client, &keys.iter().map(|key| &**key).collect::<Vec<_>>(), seen);
                written.extend(keys);
            }
            Staged::AllWritten => tell_all(server, client, seen),
        }
    }
    if !written.is_empty() {
        tell_by_prefix(server, client, &written.iter().map(|key| &**key).collect::<Vec<_>>(), seen);
    }
}
