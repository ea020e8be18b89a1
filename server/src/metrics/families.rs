//! The families of metrics. `docs/metrics.md` lists them; a test compares the page.
//!
//! The numbers are those of `INFO`, in base units: seconds, bytes. Those of the process have the names that
//! Prometheus gives them in every program.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tarn_engine::KeyCounts;
use tarn_engine::checkpoint::Progress;
use tarn_engine::record::UnixMs;

use super::page::Page;
use crate::acl::Reason;
use crate::execute::services::Services;
use crate::execute::table::Table;
use crate::metrics::figures::{Clients, LogDirectory, Memory, Persistence};
use crate::net::listen::Service;
use crate::observe::latency;
use crate::observe::ledger::Cause;
use crate::observe::process;
use crate::observe::stats::CommandTotals;

/// All metrics of a server as they are now, in the text format of Prometheus.
pub(super) fn page(server: &Services, table: &Table) -> String {
    let mut page = Page::default();
    let figures = Persistence::of(server);
    about(&mut page, server);
    process(&mut page, server);
    clients(&mut page, server);
    memory(&mut page, server);
    encryption(&mut page, server);
    commands(&mut page, server, table);
    keyspace(&mut page, server);
    checkpoints(&mut page, server, &figures);
    views(&mut page, server);
    log(&mut page, server, &figures);
    directories(&mut page, &figures);
    compactions(&mut page, &figures);
    page.text()
}

fn about(page: &mut Page, server: &Services) {
    let config = server.config.snapshot();
    let appendfsync = crate::metrics::figures::setting(server, "appendfsync");
    let mode = crate::metrics::figures::setting(server, "checkpoint-mode");
    let labels =
        [("version", env!("CARGO_PKG_VERSION")), ("appendfsync", &appendfsync), ("checkpoint_mode", &mode)];
    page.gauges("tarn_build_info", "Always 1; the labels say what runs, and how it was set.")
        .add(&labels, 1.0);
    page.gauge("tarn_uptime_seconds", "How long the server runs.", server.started.elapsed());
    page.gauge("tarn_worker_threads", "Threads that serve clients.", config.threads());
}

fn process(page: &mut Page, server: &Services) {
    let (cpu, _) = process::cpu_times();
    let (open, limit) = process::open_files();
    let seconds = cpu.user_s + cpu.system_s;
    page.counter("process_cpu_seconds_total", "Processor time of user and system together.", seconds);
    page.gauge("process_resident_memory_bytes", "Memory of the process in RAM.", process::resident_bytes());
    page.gauge("process_virtual_memory_bytes", "Address space of the process.", process::virtual_bytes());
    page.gauge("process_open_fds", "Open files and sockets.", open);
    page.gauge("process_max_fds", "As many files and sockets may be open.", limit);
    page.gauge(
        "process_start_time_seconds",
        "When the process started, since the Unix epoch.",
        seconds_of(server.started_unix_ms),
    );
}

fn clients(page: &mut Page, server: &Services) {
    let clients = Clients::of(server);
    page.gauge("tarn_clients_connected", "Clients that are connected.", clients.connected);
    page.gauge("tarn_clients_blocked", "Clients that wait in a blocking command.", clients.blocked);
    page.gauge("tarn_clients_limit", "As many clients may be connected: maxclients.", clients.limit);
    page.gauge("tarn_clients_memory_bytes", "Memory of all clients.", clients.bytes);
    page.gauge(
        "tarn_client_query_bytes_max",
        "The most bytes of requests that one client has sent and that have not run.",
        clients.query_bytes_max,
    );
    page.gauge(
        "tarn_client_output_bytes_max",
        "The most bytes of replies that one client has not read.",
        clients.output_bytes_max,
    );
    page.counter(
        "tarn_evicted_clients_total",
        "Clients disconnected as the buffers of all took more than maxmemory-clients.",
        server.stats.evicted_clients.load(Ordering::Relaxed),
    );
}

fn memory(page: &mut Page, server: &Services) {
    let Memory { heap, peak, .. } = Memory::of(server);
    page.gauge("tarn_memory_used_bytes", "Bytes that are allocated.", heap.allocated);
    page.gauge("tarn_memory_used_peak_bytes", "The most bytes that were ever allocated.", peak);
    page.gauge(
        "tarn_memory_limit_bytes",
        "Bytes past which keys are evicted, or writes refused: maxmemory; 0 for no limit.",
        server.memory_limit.bytes(),
    );
    page.gauge(
        "tarn_memory_not_counted_bytes",
        "Bytes that maxmemory does not count: the log's buffers, and what is kept for views.",
        server.not_counted_bytes(),
    );
    let memory = server.engine().map(|engine| engine.index_memory()).unwrap_or_default();
    page.gauge("tarn_index_bytes", "Memory of all indexes, about.", memory.bytes);
    page.gauge(
        "tarn_indexes_given_up",
        "Indexes that are not there for now, as all took more than index-max-memory.",
        memory.given_up.len(),
    );
    page.counter(
        "tarn_memory_exceeded_seconds_total",
        "Time for which more memory was in use than maxmemory.",
        server.memory_limit.exceeded()[0],
    );
    page.counter(
        "tarn_defrag_moved_total",
        "Entries that were moved, so that the allocator could give pages back.",
        server.defrag.entries()[0],
    );
    page.gauge("tarn_memory_allocator_active_bytes", "Bytes of pages with allocated objects.", heap.active);
    page.gauge("tarn_memory_allocator_resident_bytes", "Bytes in RAM of the allocator.", heap.resident);
    let frees = server.engine().map_or(0, |engine| engine.pending_frees());
    page.gauge("tarn_pending_frees", "Large values and databases that wait to be freed.", frees);
}

fn encryption(page: &mut Page, server: &Services) {
    let tls = &server.tls;
    let encrypted = [Service::RedisTls, Service::Metrics, Service::Sql];
    let mut done = page.counters("tarn_tls_handshakes_total", "Handshakes of TLS that went well, by port.");
    for service in encrypted {
        done.add(&[("port", service.name())], tls.handshakes(service)[0]);
    }
    let mut failed =
        page.counters("tarn_tls_handshakes_failed_total", "Handshakes of TLS that failed, by port.");
    for service in encrypted {
        failed.add(&[("port", service.name())], tls.handshakes(service)[1]);
    }
    page.counter(
        "tarn_tls_handshakes_resumed_total",
        "Handshakes of TLS that resumed a session.",
        tls.resumed(),
    );
    page.gauge("tarn_tls_handshakes_under_way", "Handshakes of TLS that are under way.", tls.under_way());
    let ends = tls.any_identity().map_or(0, |identity| identity.ends_unix_s.max(0) as u64);
    page.gauge(
        "tarn_tls_certificate_end_timestamp_seconds",
        "When the certificate of the server ends, as Unix time; 0 without one.",
        ends,
    );
    page.gauge(
        "tarn_tls_certificate_failing",
        "1 while the files of certificates have changed and cannot be used.",
        u64::from(tls.error().is_some()),
    );
}

fn commands(page: &mut Page, server: &Services, table: &Table) {
    let totals = server.stats.totals();
    page.counter("tarn_connections_total", "Connections accepted.", totals.connections);
    page.counter(
        "tarn_connections_rejected_total",
        "Connections refused, for maxclients or protected-mode.",
        totals.rejected_connections,
    );
    let mut denied =
        page.counters("tarn_acl_denied_total", "Requests refused by rules of users, and logins.");
    for reason in Reason::ALL {
        denied.add(&[("reason", reason.name())], server.acl.log.denied(reason));
    }
    let mut wrong = page.counters("tarn_wrong_passwords_total", "Wrong passwords, by the port they came to.");
    // Redis' protocol is one, with and without TLS.
    for service in Service::ALL.into_iter().filter(|service| *service != Service::RedisTls) {
        wrong.add(&[("port", service.name())], server.attempts.wrong(service));
    }
    page.counter(
        "tarn_refused_passwords_total",
        "Wrong passwords that cost their connection, as too many had come from the same address.",
        server.attempts.excessive(),
    );
    page.counter("tarn_net_input_bytes_total", "Bytes read from clients.", totals.input_bytes);
    page.counter("tarn_net_output_bytes_total", "Bytes written to clients.", totals.output_bytes);
    page.counter("tarn_keyspace_hits_total", "Reads that found their key.", totals.hits);
    page.counter("tarn_keyspace_misses_total", "Reads that did not.", totals.misses);
    page.gauge(
        "tarn_commands_per_second",
        "Commands a second, over the last 1.6 seconds.",
        server.rates.now().commands,
    );
    let called: Vec<(String, usize, CommandTotals)> = table
        .full_names()
        .into_iter()
        .map(|(name, slot)| (name, slot, totals.commands.get(slot).copied().unwrap_or_default()))
        .filter(|(_, _, total)| *total != CommandTotals::default())
        .collect();
    let percents = server.config.snapshot().latency_tracking_info_percentiles.clone();
    let quantiles = |counts: &latency::Counts| -> Vec<(f64, f64)> {
        let quantile = |percent: &f64| {
            Some(((percent * 1e7).round() / 1e9, latency::percentile(counts, *percent)? as f64 / 1e9))
        };
        percents.iter().filter_map(quantile).collect()
    };
    let mut times = page.summaries(
        "tarn_command_duration_seconds",
        "How long calls took, by command; quantiles as latency-tracking-info-percentiles says.",
    );
    for (name, slot, total) in &called {
        let counts = server.stats.latencies(*slot);
        times.add_times(&[("command", name)], total.nanos as f64 / 1e9, total.calls, &quantiles(&counts));
    }
    let mut waits = page.summaries(
        "tarn_request_wait_seconds",
        "Where requests waited, by cause; each counts the whole turn of the worker that ran it.",
    );
    for cause in Cause::ALL {
        let waited = server.stats.ledgers.waited(cause);
        let seconds = waited.us as f64 / 1e6;
        waits.add_times(&[("cause", cause.name())], seconds, waited.requests, &quantiles(&waited.counts));
    }
    let mut rejected =
        page.counters("tarn_commands_rejected_total", "Calls that were refused before they ran.");
    for (name, _, total) in &called {
        rejected.add(&[("command", name)], total.rejected);
    }
    let mut failed = page.counters("tarn_commands_failed_total", "Calls that replied an error.");
    for (name, _, total) in &called {
        failed.add(&[("command", name)], total.failed);
    }
    let mut errors: Vec<(String, u64)> =
        server.stats.errors.lock().iter().map(|(code, count)| (code.clone(), *count)).collect();
    errors.sort();
    let mut family = page.counters("tarn_error_replies_total", "Error replies, by their first word.");
    for (code, count) in &errors {
        family.add(&[("code", code)], *count);
    }
}

fn keyspace(page: &mut Page, server: &Services) {
    let Some(engine) = server.engine() else { return };
    page.counter(
        "tarn_expired_keys_total",
        "Keys that were deleted as they were due.",
        engine.expiry().expired_keys(),
    );
    page.counter(
        "tarn_expired_fields_total",
        "Fields of hashes that were removed as their time was over.",
        engine.expiry().expired_fields(),
    );
    page.counter(
        "tarn_evicted_keys_total",
        "Keys that were deleted as more memory was in use than maxmemory.",
        engine.eviction().evicted_keys(),
    );
    let databases: Vec<(String, KeyCounts)> = server
        .keyspace()
        .unwrap_or_default()
        .into_iter()
        .enumerate()
        .filter(|(db, counts)| *db == 0 || counts.keys > 0)
        .map(|(db, counts)| (db.to_string(), counts))
        .collect();
    let mut keys = page.gauges("tarn_keys", "Keys of a database; 0 is always told of, others if not empty.");
    for (db, counts) in &databases {
        keys.add(&[("db", db)], counts.keys);
    }
    let mut expiring = page.gauges("tarn_keys_expiring", "Keys of a database that expire.");
    for (db, counts) in &databases {
        expiring.add(&[("db", db)], counts.expiring);
    }
    let mut timed = page.gauges("tarn_keys_timed", "Hashes of a database whose fields have times.");
    for (db, counts) in &databases {
        timed.add(&[("db", db)], counts.timed);
    }
}

fn checkpoints(page: &mut Page, server: &Services, figures: &Persistence) {
    let status = &figures.checkpoints;
    let (loaded, to_load) = figures.loaded;
    page.gauge("tarn_loading", "1 while the data is being loaded.", figures.loading);
    page.gauge("tarn_loading_loaded_bytes", "Bytes loaded at the start, so far.", loaded);
    page.gauge("tarn_loading_total_bytes", "Bytes to load at the start.", to_load);
    page.counter("tarn_checkpoints_total", "Checkpoints taken.", status.saves);
    page.gauge("tarn_checkpoint_in_progress", "1 while one is being taken.", status.running_since.is_some());
    page.gauge("tarn_checkpoint_failing", "1 if the last attempt failed.", figures.checkpoint_failed());
    page.gauge("tarn_checkpoint_unsaved_changes", "Writes since the last one.", figures.changes_unsaved);
    page.gauge(
        "tarn_checkpoint_last_timestamp_seconds",
        "When the data was last saved or loaded, since the Unix epoch.",
        status.last_save_unix_s,
    );
    page.gauge(
        "tarn_checkpoint_last_duration_seconds",
        "How long the last attempt took; 0 before the first.",
        status.last_took,
    );
    if let Some(Ok(taken)) = &status.last {
        page.gauge("tarn_checkpoint_last_size_bytes", "Bytes of the last one.", taken.bytes);
        page.gauge("tarn_checkpoint_last_keys", "Keys of the last one.", taken.keys);
    }
    if let Some(store) = server.store() {
        let Progress { forks, .. } = store.checkpoints.progress();
        page.counter("tarn_forks_total", "Child processes for checkpoints.", forks.load(Ordering::Relaxed));
    }
}

fn views(page: &mut Page, server: &Services) {
    let Some(engine) = server.engine() else { return };
    let status = engine.views().status();
    page.gauge("tarn_views_open", "Open views of the store.", status.open.len());
    page.counter("tarn_views_opened_total", "Views opened.", status.opened);
    page.counter("tarn_views_cancelled_total", "Views cancelled.", status.cancelled);
    page.gauge("tarn_views_retained_bytes", "Old versions kept for views.", status.retained.bytes);
    let oldest = status.open.iter().map(|view| view.age).max().unwrap_or(Duration::ZERO);
    page.gauge("tarn_views_oldest_age_seconds", "Age of the oldest open view; 0 if there is none.", oldest);
    page.counter(
        "tarn_slow_turns_total",
        "Turns of workers that waited longer for a processor or a lock than background-latency-target-us.",
        engine.clients().slow_turns(),
    );
    page.counter(
        "tarn_background_rest_seconds_total",
        "Time that background threads rested for clients, together.",
        engine.clients().rested(),
    );
}

fn log(page: &mut Page, server: &Services, figures: &Persistence) {
    page.gauge(
        "tarn_log_enabled",
        "1 if writes are logged: appendonly.",
        server.config.snapshot().appendonly,
    );
    let Some(log) = &figures.log else { return };
    page.gauge(
        "tarn_log_failing",
        "1 while the log takes no records, as a disk refuses.",
        log.failed.is_some(),
    );
    page.counter("tarn_log_failures_total", "How often the log stopped taking records.", log.failures);
    page.gauge(
        "tarn_log_last_error_timestamp_seconds",
        "When a disk refused something last, since the Unix epoch; 0 for never.",
        seconds_of(log.last_error.as_ref().map_or(0, |(at, _)| *at)),
    );
    page.gauge("tarn_log_last_lsn", "The number of the newest record.", log.last.0);
    page.gauge(
        "tarn_log_durable_lsn",
        "That of the newest that is durable with all before it.",
        log.durable.0,
    );
    page.gauge("tarn_log_lag_records", "Records that are not durable.", log.lag_records());
    page.gauge(
        "tarn_log_lag_seconds",
        "Age of the oldest record that is not durable, from when its block was taken for writing.",
        log.lag,
    );
    page.gauge("tarn_log_backlog_bytes", "Bytes of records that are not written.", log.backlog_bytes);
    page.gauge("tarn_log_flushes_in_progress", "Blocks that are being written.", log.in_flight);
    page.counter("tarn_log_appended_bytes_total", "Bytes of records taken.", log.bytes_accepted);
    page.gauge(
        "tarn_log_write_amplification",
        "Bytes written by flushes and compactions for each byte of records, since the start.",
        figures.write_amplification(),
    );
    page.counter("tarn_log_compressed_blocks_total", "Blocks written compressed.", log.packed_blocks);
    page.counter(
        "tarn_log_compressed_bytes_before_total",
        "Bytes of them, had they not been compressed.",
        log.packed_bytes_before,
    );
    page.counter("tarn_log_compressed_bytes_after_total", "Bytes of them.", log.packed_bytes_after);
    page.counter(
        "tarn_log_compression_misses_total",
        "Blocks that compression made no shorter, or hardly.",
        log.packing_misses,
    );
    page.counter(
        "tarn_log_compression_overtaken_total",
        "Blocks compressed in vain, as another one had been placed behind them meanwhile.",
        log.packing_overtaken,
    );
}

fn directories(page: &mut Page, figures: &Persistence) {
    let all = LogDirectory::all(figures);
    let mut family = page.gauges("tarn_log_files", "Files of the log, by directory.");
    all.iter().for_each(|one| _ = family.add(&[("directory", &one.path)], one.files));
    let mut family = page.gauges("tarn_log_size_bytes", "Bytes in files of the log.");
    all.iter().for_each(|one| _ = family.add(&[("directory", &one.path)], one.bytes));
    let mut family = page.gauges("tarn_log_live_bytes", "Bytes of them that are not known to be obsolete.");
    all.iter().for_each(|one| _ = family.add(&[("directory", &one.path)], one.live_bytes));
    let mut family = page.counters("tarn_log_flushes_total", "Blocks written.");
    all.iter().for_each(|one| _ = family.add(&[("directory", &one.path)], one.flushes));
    let mut family = page.counters("tarn_log_flushed_bytes_total", "Bytes of blocks written.");
    all.iter().for_each(|one| _ = family.add(&[("directory", &one.path)], one.flushed_bytes));
    let mut family = page.summaries("tarn_log_sync_duration_seconds", "How long syncs took.");
    for one in &all {
        family.add_times(&[("directory", &one.path)], one.sync_time.as_secs_f64(), one.syncs, &[]);
    }
    let mut family = page.gauges("tarn_log_sync_duration_max_seconds", "How long the longest sync took.");
    all.iter().for_each(|one| _ = family.add(&[("directory", &one.path)], one.sync_time_max));
    let mut family =
        page.counters("tarn_log_directory_failures_total", "Writes, syncs and new files that failed.");
    all.iter().for_each(|one| _ = family.add(&[("directory", &one.path)], one.failures));
    let mut family =
        page.gauges("tarn_log_directory_trouble", "1 while it has no next file, as the disk refuses.");
    all.iter().for_each(|one| _ = family.add(&[("directory", &one.path)], one.trouble.is_some()));
}

fn compactions(page: &mut Page, figures: &Persistence) {
    if figures.log.is_none() {
        return;
    }
    let status = &figures.compactions;
    page.gauge("tarn_log_closed_files", "Files that are written to no more.", status.files);
    page.gauge("tarn_log_closed_bytes", "Bytes of them.", status.bytes);
    page.gauge("tarn_log_closed_raw_bytes", "Bytes of them, were no block compressed.", status.raw_bytes);
    page.gauge(
        "tarn_log_invalid_bytes",
        "Bytes of them that are known to be obsolete.",
        figures.invalid_bytes(),
    );
    page.gauge("tarn_log_validity_bytes", "Memory that knowing so takes.", status.validity_bytes);
    page.gauge("tarn_compaction_in_progress", "1 while a file is being compacted.", status.running);
    page.gauge("tarn_compaction_failing", "1 if the last compaction failed.", status.error.is_some());
    page.counter("tarn_compactions_total", "Compactions of files.", status.compactions);
    page.counter("tarn_compaction_failures_total", "Compactions that were given up.", status.failures);
    page.counter("tarn_compaction_rounds_total", "Rounds over all files.", status.rounds);
    page.counter(
        "tarn_compaction_renewed_keys_total",
        "Keys that were rewritten in the log.",
        status.renewed,
    );
    page.counter("tarn_compaction_read_bytes_total", "Bytes of files compacted.", status.bytes_read);
    page.counter(
        "tarn_compaction_written_bytes_total",
        "Bytes of the files that took their place.",
        status.bytes_written,
    );
    damage(page, figures);
}

fn damage(page: &mut Page, figures: &Persistence) {
    let (status, scrub) = (&figures.compactions, &figures.scrub);
    page.counter("tarn_scrub_passes_total", "Passes over all full files and the checkpoint.", scrub.passes);
    page.counter("tarn_scrub_read_bytes_total", "Bytes read again to find damage.", scrub.bytes);
    page.counter("tarn_scrub_damaged_places_total", "Damaged places found.", scrub.damage);
    page.gauge(
        "tarn_log_damaged_files",
        "Files with damage that has not been made good.",
        status.damaged.len(),
    );
    page.counter(
        "tarn_log_damage_left_out_total",
        "Damaged places that compactions left out, as a checkpoint has what was there.",
        status.damage_left_out,
    );
}

fn seconds_of(unix_ms: UnixMs) -> f64 {
    unix_ms as f64 / 1000.0
}
