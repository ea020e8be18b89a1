//! Periodic work of the main thread, ten times a second: rates, the peak of memory, the memory of clients,
//! and whether the log takes records; and once a second the file of messages, which may have been moved away,
//! and those of certificates, which may have been renewed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::execute::services::Services;
use crate::observe::logging;
use crate::observe::process;
use crate::observe::rates::Look;
use crate::store::Store;

/// How often a round is made.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
const ROUNDS_A_SECOND: u64 = 10;
/// The least limit of the memory of clients, as in Redis: less would leave none connected.
const CLIENTS_BYTES_MIN: u64 = 128 << 10;

/// The findings of the last round.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Rounds so far.
    made: u64,
    log_failed: bool,
    /// Whether it was told that the numbers of records come to their end.
    told_end: bool,
    /// Whether the directories of the log were told to have no next file.
    directory_troubles: Vec<bool>,
    /// Why the log could not be compacted.
    compaction_error: Option<String>,
    /// Rounds over the whole log that were told.
    compaction_rounds: u64,
    /// The indexes that were told to be given up.
    given_up: Vec<(u8, String)>,
}

impl Rounds {
    /// Makes a round.
    pub(super) fn make(&mut self, server: &Services) {
        let stats = &server.stats;
        server.rates.note(Look {
            at: Instant::now(),
            commands: stats.calls(),
            input_bytes: stats.sum(|worker| &worker.input_bytes),
            output_bytes: stats.sum(|worker| &worker.output_bytes),
        });
        stats.note_memory(process::Heap::now().allocated);
        server.hold_expiry();
        if server.tracking.is_on() {
            server.tracking.limit(server.live.tracked_keys_max(), server.post(None));
        }
        look_at_clients(server);
        self.look_at_files(server);
        self.look_at_log(server);
        self.look_at_compactions(server);
        self.look_at_indexes(server);
        server.saver.look(server, &server.config.snapshot());
    }

    /// About once a second, goes on in a new file of messages if the old one was moved away, and reads
    /// certificates again if their files have changed.
    fn look_at_files(&mut self, server: &Services) {
        self.made += 1;
        if self.made.is_multiple_of(ROUNDS_A_SECOND) {
            logging::follow_file();
            server.tls.look_soon(false);
        }
    }

    /// Tells of indexes that are given up, and of those that are not any more.
    fn look_at_indexes(&mut self, server: &Services) {
        let Some(engine) = server.engine() else { return };
        let given_up = engine.index_memory().given_up;
        for (db, name) in given_up.iter().filter(|index| !self.given_up.contains(index)) {
            tracing::warn!(
                "Gave up the index {name} of database {db}: all indexes took more than index-max-memory; \
                 queries read without it"
            );
        }
        for (db, name) in self.given_up.iter().filter(|index| !given_up.contains(index)) {
            tracing::info!("The index {name} of database {db} is built again, or is gone");
        }
        self.given_up = given_up;
    }

    /// Tells when the log fails and when it works again, and the same of each of its directories.
    fn look_at_log(&mut self, server: &Services) {
        let Some(status) = server.store().and_then(Store::log_status) else { return };
        match &status.failed {
            Some((_, error)) if !self.log_failed => {
                tracing::error!("{error}; writes are refused until it can be");
            }
            None if self.log_failed => tracing::info!("The log can be written again"),
            _ => {}
        }
        self.log_failed = status.failed.is_some();
        if status.ends_soon() && !self.told_end {
            tracing::warn!(
                "{} records can still be numbered, then writes are refused: export the data in time (tarn \
                 export), and import them into a new directory (tarn import)",
                status.records_left()
            );
            self.told_end = true;
        }
        self.directory_troubles.resize(status.directories.len(), false);
        for (told, directory) in self.directory_troubles.iter_mut().zip(status.directories) {
            let path = directory.path.display();
            match &directory.trouble {
                Some(error) if !*told => {
                    tracing::error!("The log has no next file in {path}: {error}; it is tried again");
                }
                None if *told => tracing::info!("The log has a next file in {path} again"),
                _ => {}
            }
            *told = directory.trouble.is_some();
        }
    }

    /// Tells when the log cannot be compacted and when it can again, and of each round over the whole log.
    fn look_at_compactions(&mut self, server: &Services) {
        let Some(store) = server.store() else { return };
        let status = store.engine.compactor().status();
        if status.error != self.compaction_error {
            match &status.error {
                Some(error) => tracing::error!("The log could not be compacted: {error}; it is tried again"),
                None => tracing::info!("The log can be compacted again"),
            }
            self.compaction_error = status.error;
        }
        if let Some(took) = status.round_took.filter(|_| status.rounds != self.compaction_rounds) {
            let (files, megabytes, seconds) = (status.files, status.bytes as f64 / 1e6, took.as_secs_f64());
            match status.round_failures {
                0 => tracing::info!(
                    "Compacted the log in {seconds:.2} s: {files} full files, {megabytes:.1} MB"
                ),
                failures => tracing::warn!(
                    "Went over the log in {seconds:.2} s: of its {files} full files {failures} could not be \
                     compacted, {megabytes:.1} MB"
                ),
            }
            self.compaction_rounds = status.rounds;
        }
    }
}

/// Disconnects the clients with the largest buffers, as long as those of all take more than
/// `maxmemory-clients`, but for clients that are not to be evicted.
fn look_at_clients(server: &Services) {
    let config = server.config.snapshot();
    let limit = config.memory.maxmemory_clients.of(config.memory.maxmemory_bytes);
    if limit == 0 {
        return;
    }
    let limit = limit.max(CLIENTS_BYTES_MIN);
    let all = server.clients.all();
    let there = all.iter().filter(|client| !client.is_killed());
    let mut sizes: Vec<_> = there.map(|client| (client.memory_bytes() as u64, client)).collect();
    let mut bytes: u64 = sizes.iter().map(|(bytes, _)| *bytes).sum();
    if bytes <= limit {
        return;
    }
    sizes.retain(|(_, client)| !client.info.lock().no_evict);
    sizes.sort_unstable_by_key(|(bytes, _)| *bytes);
    // A client without a buffer would give nothing back.
    while bytes > limit
        && let Some((largest, client)) = sizes.pop()
        && largest > 0
    {
        tracing::info!(
            "closing client {} at {}: its buffers take {largest} bytes, those of all {bytes}, see \
             maxmemory-clients",
            client.id,
            client.addr
        );
        client.kill();
        server.stats.evicted_clients.fetch_add(1, Ordering::Relaxed);
        bytes -= largest;
    }
}
