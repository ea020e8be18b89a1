//! A client as `CLIENT LIST` shows it, and the log of what was refused.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use tarn_resp::Protocol;

use crate::config::ClientClass;
use crate::execute::table::Table;
use crate::net::handle::{ClientHandle, ClientInfo};
use crate::net::tracks::TrackFlags;

/// One line of `CLIENT LIST`.
pub(crate) fn client_line(table: &Table, client: &ClientHandle) -> String {
    let info = client.info.lock().clone();
    let queued = client.queued.load(Ordering::Relaxed);
    let [channels, patterns, shard_channels] = client.subscriptions();
    let queued_bytes = client.queued_bytes.load(Ordering::Relaxed);
    // There is one buffer of replies, and no list behind it. Requests are read where they stand, so arguments
    // take no memory.
    let output_bytes = client.output_bytes.load(Ordering::Relaxed);
    let buffer_bytes = client.output_buffer_bytes.load(Ordering::Relaxed);
    let [library, version] = &info.library;
    let mut line = String::new();
    let _ = write!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={channels} psub={patterns} \
         ssub={shard_channels} multi={queued} qbuf={} qbuf-free={} argv-mem=0 multi-mem={queued_bytes} \
         rbs={buffer_bytes} rbp={buffer_bytes} obl={output_bytes} oll=0 omem={output_bytes} tot-mem={} \
         events={} cmd={} user={} redir={} resp={} lib-name={library} lib-ver={version}",
        client.id,
        client.addr,
        client.local_addr,
        client.descriptor.load(Ordering::Relaxed),
        info.name,
        client.since.elapsed().as_secs(),
        client.idle().as_secs(),
        flags_of(client, &info),
        info.db,
        client.query_bytes.load(Ordering::Relaxed),
        client.query_free_bytes.load(Ordering::Relaxed),
        client.memory_bytes(),
        if output_bytes > 0 { "rw" } else { "r" },
        table.name_of_slot(client.last_slot.load(Ordering::Relaxed)).unwrap_or("NULL".into()),
        String::from_utf8_lossy(&info.user.name),
        redirect(client),
        if client.protocol() == Protocol::Resp3 { 3 } else { 2 },
    );
    line
}

/// Who is told in a client's stead; 0: nobody, -1: it does not track.
pub(crate) fn redirect(client: &ClientHandle) -> i64 {
    if client.tracks.is_on() { client.tracks.redirect() as i64 } else { -1 }
}

/// The signs of a client in `CLIENT LIST`.
pub(crate) fn flags_of(client: &ClientHandle, info: &ClientInfo) -> String {
    let queued = client.queued.load(Ordering::Relaxed);
    let tracks = client.tracks.flags();
    let signs = [
        (client.is_monitoring(), 'O'),
        (client.class() == ClientClass::PubSub, 'P'),
        (queued >= 0, 'x'),
        (info.blocked, 'b'),
        (tracks.has(TrackFlags::ON), 't'),
        (tracks.has(TrackFlags::BROKEN), 'R'),
        (tracks.has(TrackFlags::BCAST), 'B'),
        (client.addr.is_unix(), 'U'),
        (info.no_evict, 'e'),
        (info.no_touch, 'T'),
    ];
    let flags: String = signs.into_iter().filter_map(|(holds, sign)| holds.then_some(sign)).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}
