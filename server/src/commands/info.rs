//! `INFO`: the state of the server in Redis's sections and field names, with Tarn's own fields beside them.
//!
//! A field that Redis has is here if Tarn has the thing that it counts; monitors read them by name. It never
//! waits for the disk, not even under `appendfsync always`: it must answer when the disk is what fails. Only
//! the section `keysizes`, which has to be asked for by its name, waits.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tarn_engine::checkpoint::Progress;
use tarn_engine::compactor::FileStatus;
use tarn_engine::record::UnixMs;
use tarn_engine::view::OpenView;
use tarn_engine::{Entry, KeyCounts, LogStatus};
use tarn_resp::Args;

use crate::acl::Reason;
use crate::commands::{self, absent, key_sizes};
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::services::Services;
use crate::execute::spec::Flags;
use crate::metrics::figures::{Clients, LogDirectory, Memory, Overhead, Persistence, setting, word};
use crate::net::listen::Service;
use crate::observe::keyspace::Counts;
use crate::observe::latency;
use crate::observe::ledger::{Cause, Waited};
use crate::observe::process;
use crate::observe::stats::{CommandTotals, Totals};
use crate::persist::backups::{Ended, Running, Status};
use crate::persist::saver;
use crate::pubsub::Kind;
use crate::version::REDIS_VERSION;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "info",
    -1,
    Flags::LOADING.with(Flags::STALE).with(Flags::ALONE_IN_EXEC),
    "1.0.0",
    "Returns what there is to know about the server.",
    info,
)
.categories(&["@dangerous"])];

/// Files that the section `log` has lines for.
const FILES_MAX: usize = 256;

type Section = fn(&mut Report, &Context<'_, '_>);

/// Who is shown a section.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    /// Who asks for nothing in particular.
    Always,
    /// Who asks for all, or for it.
    OnDemand,
    /// Who asks for it by its name: it may wait for the disk.
    ByName,
}

/// Name, title, who is shown it, and what writes it.
const SECTIONS: [(&str, &str, Shown, Section); 18] = [
    ("server", "Server", Shown::Always, server),
    ("clients", "Clients", Shown::Always, clients),
    ("memory", "Memory", Shown::Always, memory),
    ("persistence", "Persistence", Shown::Always, persistence),
    ("log", "Log", Shown::OnDemand, log_files),
    ("views", "Views", Shown::Always, views),
    ("analytics", "Analytics", Shown::Always, analytics),
    ("stats", "Stats", Shown::Always, stats),
    ("tls", "TLS", Shown::OnDemand, tls),
    ("replication", "Replication", Shown::Always, replication),
    ("cpu", "CPU", Shown::Always, cpu),
    ("modules", "Modules", Shown::Always, modules),
    ("commandstats", "Commandstats", Shown::OnDemand, commandstats),
    ("errorstats", "Errorstats", Shown::Always, errorstats),
    ("latencystats", "Latencystats", Shown::OnDemand, latencystats),
    ("cluster", "Cluster", Shown::Always, |report, _| report.line("cluster_enabled", 0)),
    ("keyspace", "Keyspace", Shown::Always, keyspace),
    ("keysizes", "Keysizes", Shown::ByName, keysizes),
];

/// The reply in the making.
#[derive(Default)]
struct Report {
    text: String,
    /// Why there is no reply.
    error: Option<CommandError>,
}

impl Report {
    fn title(&mut self, title: &str) {
        let gap = if self.text.is_empty() { "" } else { "\r\n" };
        self.put(format_args!("{gap}# {title}\r\n"));
    }

    fn line(&mut self, name: &str, value: impl Display) {
        self.put(format_args!("{name}:{value}\r\n"));
    }

    /// A number of bytes, also as people read it.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.put(format_args!("{name}_human:{}\r\n", human(bytes)));
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("a String takes any text");
    }
}

fn info<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let asked = |name: &str| args.iter().skip(1).any(|arg| arg.eq_ignore_ascii_case(name.as_bytes()));
    let all = asked("all") || asked("everything");
    let default = args.len() == 1 || asked("default");
    let mut report = Report::default();
    let most = match (all, default) {
        (true, _) => Some(Shown::OnDemand),
        (false, true) => Some(Shown::Always),
        (false, false) => None,
    };
    for (name, title, shown, write) in SECTIONS {
        if most.is_some_and(|most| shown <= most) || asked(name) {
            report.title(title);
            write(&mut report, cx);
            absent::fields(name).for_each(|(field, value)| report.line(field, value));
        }
    }
    if let Some(error) = report.error {
        return Err(error);
    }
    cx.reply.verbatim(*b"txt", report.text.as_bytes());
    Ok(())
}

fn server(report: &mut Report, cx: &Context<'_, '_>) {
    let config = cx.server.config.snapshot();
    let uptime_s = cx.server.started.elapsed().as_secs();
    let executable = std::env::current_exe().unwrap_or_default();
    let file = cx.server.config.file().map(|path| path.display().to_string()).unwrap_or_default();
    report.line("redis_version", REDIS_VERSION);
    report.line("tarn_version", env!("CARGO_PKG_VERSION"));
    report.line("redis_mode", "standalone");
    report.line("os", process::system_name());
    report.line("arch_bits", usize::BITS);
    report.line("multiplexing_api", "epoll");
    report.line("process_id", std::process::id());
    report.line("process_supervised", "no");
    report.line("run_id", &cx.server.run_id);
    report.line("tcp_port", config.port);
    report.line("server_time_usec", cx.server.clock.unix_ms() * 1000);
    report.line("uptime_in_seconds", uptime_s);
    report.line("uptime_in_days", uptime_s / 86_400);
    report.line("lru_clock", (cx.server.clock.unix_ms() / 1000) & 0xFF_FFFF);
    report.line("hz", config.hz);
    report.line("configured_hz", config.hz);
    report.line("threads", config.threads());
    report.line("executable", executable.display());
    report.line("config_file", file);
}

fn clients(report: &mut Report, cx: &Context<'_, '_>) {
    let clients = Clients::of(cx.server);
    report.line("connected_clients", clients.connected);
    report.line("cluster_connections", 0);
    report.line("maxclients", clients.limit);
    report.line("client_recent_max_input_buffer", clients.query_bytes_max);
    report.line("client_recent_max_output_buffer", clients.output_bytes_max);
    report.line("blocked_clients", clients.blocked);
    report.line("clients_in_timeout_table", cx.server.blocking.waiting_for_a_time());
    report.line("tracking_clients", cx.server.tracking.clients());
}

fn memory(report: &mut Report, cx: &Context<'_, '_>) {
    let Memory { heap, resident, peak } = Memory::of(cx.server);
    let ratio = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
    report.bytes("used_memory", heap.allocated);
    report.bytes("used_memory_rss", resident);
    report.bytes("used_memory_peak", peak);
    report.line("used_memory_peak_perc", format_args!("{:.2}%", 100.0 * ratio(heap.allocated, peak)));
    let kinds = Overhead::of(cx.server);
    let (startup, overhead) = (kinds.startup, kinds.bytes());
    let dataset = heap.allocated.saturating_sub(overhead);
    let of_growth = ratio(dataset, heap.allocated.saturating_sub(startup)).min(1.0);
    report.line("used_memory_overhead", overhead);
    report.line("used_memory_startup", startup);
    report.line("used_memory_dataset", dataset);
    report.line("used_memory_dataset_perc", format_args!("{:.2}%", 100.0 * of_growth));
    report.line("allocator_allocated", heap.allocated);
    report.line("allocator_active", heap.active);
    report.line("allocator_resident", heap.resident);
    report.bytes("total_system_memory", process::machine_bytes());
    scripts(report, cx);
    report.bytes("maxmemory", cx.server.memory_limit.bytes());
    report.line("maxmemory_policy", setting(cx.server, "maxmemory-policy"));
    report.line("allocator_frag_ratio", format_args!("{:.2}", ratio(heap.active, heap.allocated)));
    report.line("allocator_frag_bytes", heap.active.saturating_sub(heap.allocated));
    report.line("allocator_rss_ratio", format_args!("{:.2}", ratio(heap.resident, heap.active)));
    report.line("allocator_rss_bytes", heap.resident.saturating_sub(heap.active));
    report.line("rss_overhead_ratio", format_args!("{:.2}", ratio(resident, heap.resident)));
    report.line("rss_overhead_bytes", resident as i64 - heap.resident as i64);
    report.line("mem_fragmentation_ratio", format_args!("{:.2}", ratio(resident, heap.allocated)));
    report.line("mem_fragmentation_bytes", resident as i64 - heap.allocated as i64);
    report.line("mem_not_counted_for_evict", cx.server.not_counted_bytes());
    report.line("mem_clients_normal", kinds.clients);
    report.line("mem_aof_buffer", kinds.log);
    report.line("mem_indexes", kinds.indexes);
    report.line("mem_kept_versions", kinds.versions);
    report.line("mem_log_validity", kinds.validity);
    report.line("mem_allocator", allocator_name());
    report.line("active_defrag_running", cx.server.defrag.running_percent());
    report.line("lazyfree_pending_objects", cx.keys.store().pending_frees());
    report.line("lazyfreed_objects", cx.keys.store().freed());
}

fn scripts(report: &mut Report, cx: &Context<'_, '_>) {
    let scripts = &cx.server.scripts;
    let [of_scripts, of_functions] = scripts.running.interpreter_bytes().map(|bytes| bytes as u64);
    let ((number, bytes), libraries) = (scripts.cache.size(), scripts.functions.now());
    let (number_of_libraries, number_of_functions) = libraries.count();
    report.bytes("used_memory_lua", of_scripts);
    report.line("used_memory_vm_eval", of_scripts);
    report.line("used_memory_scripts_eval", bytes);
    report.line("number_of_cached_scripts", number);
    report.line("number_of_functions", number_of_functions);
    report.line("number_of_libraries", number_of_libraries);
    report.line("used_memory_vm_functions", of_functions);
    report.bytes("used_memory_vm_total", of_scripts + of_functions);
    report.line("used_memory_functions", libraries.bytes());
    report.bytes("used_memory_scripts", (bytes + libraries.bytes()) as u64);
}

fn persistence(report: &mut Report, cx: &Context<'_, '_>) {
    let figures = Persistence::of(cx.server);
    report.line("loading", u8::from(figures.loading));
    report.line("async_loading", 0);
    if figures.loading {
        loading(report, cx, figures.loaded);
    }
    checkpoints(report, cx, &figures);
    backups(report, cx.server);
    report.line("aof_enabled", u8::from(figures.log.is_some()));
    let compactions = &figures.compactions;
    // As there: until the log that was switched on has its first checkpoint.
    report.line("aof_rewrite_in_progress", u8::from(figures.log_is_rewritten()));
    report.line("aof_rewrite_scheduled", 0);
    let took = |took: Option<Duration>| took.map_or(-1, |took| took.as_secs() as i64);
    report.line("aof_last_rewrite_time_sec", took(compactions.round_took));
    let failed = compactions.error.is_some() || cx.server.saver.status().rewrite_failures > 0;
    report.line("aof_last_bgrewrite_status", if failed { "err" } else { "ok" });
    report.line("aof_rewrites", compactions.rounds);
    let failures = figures.checkpoints.rewrite_failures.max(u64::from(compactions.error.is_some()));
    report.line("aof_rewrites_consecutive_failures", failures);
    let rewrite = figures.checkpoints.running_since.filter(|_| figures.log_is_rewritten());
    report.line("aof_current_rewrite_time_sec", took(rewrite.map(|since| since.elapsed())));
    if let Some(error) = cx.server.saver.status().switch_error {
        report.line("log_switch_error", error);
    }
    let failed = figures.log.as_ref().and_then(|log| log.failed.as_ref());
    report.line("aof_last_write_status", if failed.is_some() { "err" } else { "ok" });
    report.line("appendfsync", setting(cx.server, "appendfsync"));
    if let Some((_, error)) = failed {
        report.line("log_failure", error);
    }
    if let Some(log) = &figures.log {
        report.line("log_compression", setting(cx.server, "log-compression"));
        log_fields(report, log, &figures);
        compaction_fields(report, &figures);
        damage_fields(report, &figures);
        log_directories(report, &figures);
    }
}

/// The log: what was appended, what of it is durable, what went wrong.
fn log_fields(report: &mut Report, log: &LogStatus, figures: &Persistence) {
    report.line("aof_current_size", log.directories.iter().map(|directory| directory.bytes).sum::<u64>());
    report.line("aof_buffer_length", log.backlog_bytes);
    report.line("aof_pending_rewrite", 0);
    report.line("aof_pending_bio_fsync", log.in_flight);
    report.line("log_dirs", log.directories.len());
    report.line("log_last_lsn", log.last.0);
    report.line("log_durable_lsn", log.durable.0);
    if log.ends_soon() {
        report.line("log_records_left", log.records_left());
    }
    report.line("log_lag_records", log.lag_records());
    report.line("log_lag_ms", log.lag.as_millis());
    report.line("log_backlog_bytes", log.backlog_bytes);
    report.line("log_flushes_in_progress", log.in_flight);
    report.line("log_appended_bytes", log.bytes_accepted);
    report.line("log_flushed_bytes", log.bytes_written());
    report.line("log_write_amplification", format_args!("{:.2}", figures.write_amplification()));
    report.line("log_compressed_blocks", log.packed_blocks);
    report.line("log_compressed_bytes_before", log.packed_bytes_before);
    report.line("log_compressed_bytes_after", log.packed_bytes_after);
    report.line("log_compression_misses", log.packing_misses);
    report.line("log_compression_overtaken", log.packing_overtaken);
    report.line("log_failures", log.failures);
    if let Some((at, error)) = &log.last_error {
        report.line("log_last_error", error);
        report.line("log_last_error_time", at / 1000);
    }
}

fn compaction_fields(report: &mut Report, figures: &Persistence) {
    let compactions = &figures.compactions;
    report.line("log_closed_files", compactions.files);
    report.line("log_closed_bytes", compactions.bytes);
    report.line("log_closed_raw_bytes", compactions.raw_bytes);
    report.line("log_live_bytes", figures.live_bytes());
    report.line("log_invalid_bytes", figures.invalid_bytes());
    report.line("log_validity_bytes", compactions.validity_bytes);
    report.line("log_compaction_in_progress", u8::from(compactions.running));
    report.line("log_compactions", compactions.compactions);
    report.line("log_compaction_failures", compactions.failures);
    report.line("log_compaction_renewed_keys", compactions.renewed);
    report.line("log_compaction_read_bytes", compactions.bytes_read);
    report.line("log_compaction_written_bytes", compactions.bytes_written);
    if let Some((at, error)) = &compactions.last_error {
        report.line("log_compaction_last_error", error);
        report.line("log_compaction_last_error_time", at / 1000);
    }
}

/// Damage on the disk: what was found, and what waits to be made good.
fn damage_fields(report: &mut Report, figures: &Persistence) {
    let (scrub, compactions) = (&figures.scrub, &figures.compactions);
    report.line("log_scrub_in_progress", u8::from(scrub.running));
    report.line("log_scrub_passes", scrub.passes);
    report.line("log_scrub_bytes", scrub.bytes);
    report.line("log_scrub_last_pass_time", scrub.last_pass.map_or(0, |at| at / 1000));
    report.line("log_scrub_last_pass_sec", scrub.last_took.map_or(-1, |took| took.as_secs() as i64));
    report.line("log_scrub_damaged_places", scrub.damage);
    report.line("log_scrub_transient_errors", scrub.transient);
    if let Some((at, damage)) = &scrub.last_damage {
        report.line("log_scrub_last_damage", damage);
        report.line("log_scrub_last_damage_time", at / 1000);
    }
    report.line("log_damage_passed_at_start", compactions.damage_passed);
    report.line("log_damage_left_out", compactions.damage_left_out);
    report.line("log_damaged_files", compactions.damaged.len());
    report.line("log_damage_wants_checkpoint", u8::from(compactions.damage_wants_checkpoint));
    for (number, file) in compactions.damaged.iter().take(FILES_MAX).enumerate() {
        let (path, damage) = (word(&file.path.to_string_lossy()), &file.damage);
        report.put(format_args!("log_damaged_file{number}:path={path},offset={},", damage.offset));
        report.put(format_args!("up_to={}\r\n", file.up_to.0));
    }
}

/// A line for each directory of the log, and what troubles it.
fn log_directories(report: &mut Report, figures: &Persistence) {
    for (number, directory) in LogDirectory::all(figures).iter().enumerate() {
        let LogDirectory { path, files, bytes, live_bytes, flushes, flushed_bytes, .. } = directory;
        report.put(format_args!("log_dir{number}:path={path},files={files},bytes={bytes},"));
        report.put(format_args!("live_bytes={live_bytes},flushes={flushes},flushed_bytes={flushed_bytes},"));
        let LogDirectory { syncs, sync_time_max, failures, trouble, .. } = directory;
        let (mean_us, max_us) = (directory.sync_time_mean().as_micros(), sync_time_max.as_micros());
        report.put(format_args!("syncs={syncs},sync_us_avg={mean_us},sync_us_max={max_us},"));
        report.put(format_args!("failures={failures},trouble={}\r\n", u8::from(trouble.is_some())));
        if let Some(trouble) = trouble {
            report.line(&format!("log_dir{number}_trouble"), trouble);
        }
    }
}

/// A line for each full file of the log; of very many, for those with the most obsolete bytes.
fn log_files(report: &mut Report, cx: &Context<'_, '_>) {
    let Some(store) = cx.server.store() else { return };
    let Some(log) = store.log.load_full() else { return };
    let engine = &store.engine;
    let (files, count) = engine.compactor().files(engine.store(), &log.appender, FILES_MAX);
    report.line("log_files", count);
    for (number, file) in files.iter().enumerate() {
        let FileStatus { path, records, bytes, live_bytes, is_compacted } = file;
        let (path, invalid) = (word(&path.to_string_lossy()), bytes - live_bytes);
        report.put(format_args!("log_file{number}:path={path},records={records},bytes={bytes},"));
        let compacted = u8::from(*is_compacted);
        report.put(format_args!("live_bytes={live_bytes},invalid_bytes={invalid},compacted={compacted}\r\n"));
    }
}

fn checkpoints(report: &mut Report, cx: &Context<'_, '_>, figures: &Persistence) {
    let (status, store) = (&figures.checkpoints, cx.server.store());
    let running = status.running_since.map(|since| since.elapsed());
    let took = |last: Option<Duration>| last.map_or(-1, |took| took.as_secs() as i64);
    report.line("rdb_changes_since_last_save", figures.changes_unsaved);
    report.line("rdb_bgsave_in_progress", u8::from(running.is_some()));
    report.line("rdb_last_save_time", status.last_save_unix_s);
    report.line("rdb_last_bgsave_status", if figures.checkpoint_failed() { "err" } else { "ok" });
    report.line("rdb_last_bgsave_time_sec", took(status.last.as_ref().map(|_| status.last_took)));
    report.line("rdb_current_bgsave_time_sec", took(running));
    report.line("rdb_saves", status.saves);
    report.line("rdb_last_load_keys_loaded", status.loaded_keys[0]);
    report.line("rdb_last_load_keys_expired", status.loaded_keys[1]);
    let views = store.map(|store| store.engine.views().status()).unwrap_or_default();
    let child_bytes = status.last.as_ref().and_then(|last| last.as_ref().ok()?.child_bytes);
    report.line("rdb_last_cow_size", child_bytes.unwrap_or(views.retained_bytes_peak as u64));
    if let (Some(store), Some(_)) = (store, running) {
        let progress = store.checkpoints.progress();
        let (percent, bytes) = saver::progress(&store.checkpoints);
        report.line("current_save_keys_processed", progress.keys.load(Ordering::Relaxed));
        report.line("current_save_keys_total", progress.keys_total.load(Ordering::Relaxed));
        report.line("current_fork_perc", format_args!("{percent:.2}"));
        report.line("checkpoint_progress_perc", format_args!("{percent:.2}"));
        report.line("checkpoint_bytes_written", bytes);
    } else {
        report.line("current_save_keys_processed", 0);
        report.line("current_save_keys_total", 0);
        report.line("current_fork_perc", "0.00");
    }
    let kept = if running.is_some() { views.retained.bytes as u64 } else { 0 };
    report.line("current_cow_size", kept);
    let peak = if running.is_some() { views.retained_bytes_peak as u64 } else { 0 };
    report.line("current_cow_peak", peak.max(kept));
    // It is looked at when it is asked for.
    report.line("current_cow_size_age", 0);
    match &status.last {
        Some(Err(why)) => report.line("checkpoint_failure", why),
        Some(Ok(taken)) => {
            report.line("checkpoint_last_keys", taken.keys);
            report.line("checkpoint_last_bytes", taken.bytes);
            report.line("checkpoint_last_cut_usec", taken.cut.as_micros());
            report.line("checkpoint_last_read_msec", taken.read.as_millis());
            report.line("checkpoint_last_msec", taken.all.as_millis());
        }
        None => {}
    }
}

fn backups(report: &mut Report, server: &Services) {
    let Status { running, last } = server.backups.status();
    report.line("backup_in_progress", u8::from(running.is_some()));
    if let Some(Running { directory, began, progress }) = running {
        report.line("current_backup_dir", directory.display());
        report.line("current_backup_time_sec", began.elapsed().as_secs());
        report.line("current_backup_bytes", progress.bytes.load(Ordering::Relaxed));
        report.line("current_backup_bytes_total", progress.bytes_total.load(Ordering::Relaxed));
    }
    report.line(
        "last_backup_status",
        if last.as_ref().is_some_and(|last| last.outcome.is_err()) { "err" } else { "ok" },
    );
    let Some(Ended { directory, unix_s, outcome }) = last else { return };
    report.line("last_backup_dir", directory.display());
    report.line("last_backup_time", unix_s);
    match outcome {
        Ok(taken) => {
            report.line("last_backup_lsn", taken.end);
            report.line("last_backup_files", taken.files);
            report.line("last_backup_files_here", taken.files_here);
            report.line("last_backup_files_linked", taken.files_linked);
            report.line("last_backup_bytes", taken.bytes);
            report.line("last_backup_msec", taken.took.as_millis());
        }
        Err(why) => report.line("last_backup_error", why),
    }
}

fn views(report: &mut Report, cx: &Context<'_, '_>) {
    let store = cx.keys.store();
    report.line("slow_turns", store.clients().slow_turns());
    report.line("background_rested_ms", store.clients().rested().as_millis());
    let status = store.views().status();
    report.line("views_open", status.open.len());
    report.line("views_opened", status.opened);
    report.line("views_cancelled", status.cancelled);
    report.line("views_retained_records", status.retained.records);
    report.line("views_retained_bytes", status.retained.bytes);
    report.line("views_retained_bytes_peak", status.retained_bytes_peak);
    for (number, view) in status.open.iter().enumerate() {
        let OpenView { purpose, cut, age, progress_permille, pinned } = view;
        let pinned = u8::from(*pinned);
        let (age_ms, percent) = (age.as_millis(), *progress_permille as f64 / 10.0);
        let line = format!("purpose={purpose},cut={cut},age_ms={age_ms},read_perc={percent},pinned={pinned}");
        report.line(&format!("view{number}"), line);
    }
}

fn analytics(report: &mut Report, cx: &Context<'_, '_>) {
    let sql = cx.server.sql();
    report.line("sql_enabled", u8::from(sql.is_some()));
    let figures = sql.map(|sql| sql.figures()).unwrap_or_default();
    figures.into_iter().for_each(|(name, figure)| report.line(name, figure));
}

fn loading(report: &mut Report, cx: &Context<'_, '_>, (loaded, total): (u64, u64)) {
    let seconds = cx.server.started.elapsed().as_secs();
    let left_s = total.saturating_sub(loaded).saturating_mul(seconds).checked_div(loaded).unwrap_or(1);
    report.line("loading_start_time", cx.server.started_unix_ms / 1000);
    report.line("loading_total_bytes", total);
    report.line("loading_loaded_bytes", loaded);
    let share = if total == 0 { 0.0 } else { 100.0 * loaded as f64 / total as f64 };
    report.line("loading_loaded_perc", format_args!("{share:.2}"));
    report.line("loading_eta_seconds", left_s);
    report.line("loading_serves_reads", u8::from(cx.server.live.serves_while_loading()));
    report.line("loading_reads_served", cx.server.stats.early_reads.load(Ordering::Relaxed));
}

fn stats(report: &mut Report, cx: &Context<'_, '_>) {
    let totals = cx.server.stats.totals();
    let Totals { commands, input_bytes, output_bytes, hits, misses, connections, .. } = totals;
    report.line("total_connections_received", connections);
    report.line("total_commands_processed", commands.iter().map(|command| command.calls).sum::<u64>());
    let rate = cx.server.rates.now();
    report.line("instantaneous_ops_per_sec", rate.commands as u64);
    report.line("total_net_input_bytes", input_bytes);
    report.line("total_net_output_bytes", output_bytes);
    report.line("instantaneous_input_kbps", format_args!("{:.2}", rate.input_bytes / 1024.0));
    report.line("instantaneous_output_kbps", format_args!("{:.2}", rate.output_bytes / 1024.0));
    report.line("total_reads_processed", totals.reads);
    report.line("total_writes_processed", totals.writes);
    report.line("rejected_connections", totals.rejected_connections);
    let wrong: u64 = Service::ALL.iter().map(|service| cx.server.attempts.wrong(*service)).sum();
    report.line("wrong_passwords", wrong);
    report.line("refused_passwords", cx.server.attempts.excessive());
    report.line("expire_cycle_cpu_milliseconds", cx.keys.store().expiry().took().as_millis());
    report.line("expired_keys", cx.keys.store().expiry().expired_keys());
    report.line("expired_subkeys", cx.keys.store().expiry().expired_fields());
    report.line("evicted_keys", cx.keys.store().eviction().evicted_keys());
    report.line("evicted_clients", cx.server.stats.evicted_clients.load(Ordering::Relaxed));
    let [exceeded, exceeded_now] = cx.server.memory_limit.exceeded();
    report.line("total_eviction_exceeded_time", exceeded.as_millis());
    report.line("current_eviction_exceeded_time", exceeded_now.as_millis());
    let ([moved, stayed], [took, takes]) = (cx.server.defrag.entries(), cx.server.defrag.took());
    for (name, entries) in [("hits", moved), ("misses", stayed), ("key_hits", moved), ("key_misses", stayed)]
    {
        report.line(&format!("active_defrag_{name}"), entries);
    }
    report.line("total_active_defrag_time", took.as_millis());
    report.line("current_active_defrag_time", takes.as_millis());
    report.line("keyspace_hits", hits);
    report.line("keyspace_misses", misses);
    let tracking = &cx.server.tracking;
    report.line("tracking_total_keys", tracking.keys());
    report.line("tracking_total_items", tracking.items());
    report.line("tracking_total_prefixes", tracking.prefixes());
    report.line("pubsub_channels", cx.server.pubsub.count(Kind::Channel));
    report.line("pubsub_patterns", cx.server.pubsub.count(Kind::Pattern));
    report.line("pubsubshard_channels", cx.server.pubsub.count(Kind::Shard));
    let forks = cx.server.store().map_or((0, 0), |store| {
        let Progress { forks, last_fork_us, .. } = store.checkpoints.progress();
        (forks.load(Ordering::Relaxed), last_fork_us.load(Ordering::Relaxed))
    });
    report.line("latest_fork_usec", forks.1);
    report.line("total_forks", forks.0);
    report.line("total_error_replies", cx.server.stats.errors.lock().values().sum::<u64>());
    let log = &cx.server.acl.log;
    report.line("acl_access_denied_auth", log.denied(Reason::Auth));
    report.line("acl_access_denied_cmd", log.denied(Reason::Command));
    report.line("acl_access_denied_key", log.denied(Reason::Key));
    report.line("acl_access_denied_channel", log.denied(Reason::Channel));
    report.line("acl_access_denied_tls_cert", log.denied(Reason::Certificate));
    report.line("acl_access_denied_db", log.denied(Reason::Database));
}

/// Certificates and handshakes. Valkey names the fields about the certificate.
fn tls(report: &mut Report, cx: &Context<'_, '_>) {
    let tls = &cx.server.tls;
    let sum = |counts: [u64; 2], service: &Service| {
        let of_service = tls.handshakes(*service);
        [counts[0] + of_service[0], counts[1] + of_service[1]]
    };
    let [done, failed] = Service::ALL.iter().fold([0, 0], sum);
    report.line("tls_handshakes", done);
    report.line("tls_handshakes_resumed", tls.resumed());
    report.line("tls_handshakes_failed", failed);
    report.line("tls_handshakes_given_up", tls.given_up());
    report.line("tls_handshakes_under_way", tls.under_way());
    let [read, refused] = tls.reads();
    report.line("tls_certificate_reads", read);
    report.line("tls_certificate_reads_refused", refused);
    report.line("tls_certificate_error", tls.error().as_deref().unwrap_or("none"));
    let identity = tls.any_identity();
    let ends = identity.as_ref().map_or(0, |identity| identity.ends_unix_s);
    let now = i64::try_from(cx.server.clock.unix_ms() / 1000).unwrap_or(i64::MAX);
    report.line(
        "tls_server_cert_serial",
        identity.as_ref().map_or("none", |identity| identity.number.as_str()),
    );
    report.line("tls_server_cert_expire_time", ends);
    report.line("tls_server_cert_expires_in_seconds", if ends == 0 { 0 } else { (ends - now).max(0) });
}

fn replication(report: &mut Report, cx: &Context<'_, '_>) {
    report.line("role", "master");
    report.line("connected_slaves", 0);
    report.line("master_failover_state", "no-failover");
    report.line("master_replid", cx.server.replication_id.lock().as_str());
    report.line("master_repl_offset", 0);
}

fn cpu(report: &mut Report, _: &Context<'_, '_>) {
    let (all, main) = process::cpu_times();
    report.line("used_cpu_sys", format_args!("{:.6}", all.system_s));
    report.line("used_cpu_user", format_args!("{:.6}", all.user_s));
    let children = process::children_cpu_time();
    report.line("used_cpu_sys_children", format_args!("{:.6}", children.system_s));
    report.line("used_cpu_user_children", format_args!("{:.6}", children.user_s));
    report.line("used_cpu_sys_main_thread", format_args!("{:.6}", main.system_s));
    report.line("used_cpu_user_main_thread", format_args!("{:.6}", main.user_s));
}

fn modules(report: &mut Report, cx: &Context<'_, '_>) {
    commands::modules::info_lines(cx.server).for_each(|line| report.put(format_args!("{line}")));
}

fn commandstats(report: &mut Report, cx: &Context<'_, '_>) {
    let totals = cx.server.stats.totals();
    for (name, slot) in commands::table().full_names() {
        let total = totals.commands.get(slot).copied().unwrap_or_default();
        if total == CommandTotals::default() {
            continue;
        }
        let usec = total.nanos / 1000;
        let per_call = if total.calls == 0 { 0.0 } else { total.nanos as f64 / 1000.0 / total.calls as f64 };
        let CommandTotals { calls, rejected, failed, .. } = total;
        report.put(format_args!("cmdstat_{name}:calls={calls},usec={usec},usec_per_call={per_call:.2},"));
        report.put(format_args!("rejected_calls={rejected},failed_calls={failed}\r\n"));
    }
}

/// The percentiles of `latency-tracking-info-percentiles` of each command that was called, and of the waits
/// for each cause, in microseconds.
fn latencystats(report: &mut Report, cx: &Context<'_, '_>) {
    let config = cx.server.config.snapshot();
    let percentiles = |counts: &latency::Counts| -> Vec<String> {
        let percents = config.latency_tracking_info_percentiles.iter();
        percents
            .filter_map(|&percent| Some((percent, latency::percentile(counts, percent)?)))
            .map(|(percent, nanos)| format!("p{percent}={:.3}", nanos as f64 / 1000.0))
            .collect()
    };
    for (name, slot) in commands::table().full_names() {
        let values = percentiles(&cx.server.stats.latencies(slot));
        if !values.is_empty() {
            report.line(&format!("latency_percentiles_usec_{name}"), values.join(","));
        }
    }
    for cause in Cause::ALL {
        let Waited { requests, us, counts } = cx.server.stats.ledgers.waited(cause);
        if requests > 0 {
            let mut values = vec![format!("requests={requests},usec={us}")];
            values.extend(percentiles(&counts));
            report.line(&format!("latency_waits_usec_{}", cause.name()), values.join(","));
        }
    }
}

fn errorstats(report: &mut Report, cx: &Context<'_, '_>) {
    let errors = cx.server.stats.errors.lock();
    let mut sorted: Vec<_> = errors.iter().collect();
    sorted.sort();
    for (code, count) in sorted {
        report.put(format_args!("errorstat_{code}:count={count}\r\n"));
    }
}

fn keyspace(report: &mut Report, cx: &Context<'_, '_>) {
    let (counts, is_live) = counts_to_tell(cx);
    for (db, KeyCounts { keys, expiring, timed }) in counts.into_iter().enumerate() {
        if keys > 0 {
            let ttl_ms = if expiring == 0 || !is_live { 0 } else { mean_ttl_ms(cx, db as u8) };
            // Redis has this since 7.4 alone, in which it is always there.
            let timed = if timed > 0 { format!(",subexpiry={timed}") } else { String::new() };
            report.put(format_args!("db{db}:keys={keys},expires={expiring},avg_ttl={ttl_ms}{timed}\r\n"));
        }
    }
}

fn keysizes(report: &mut Report, cx: &Context<'_, '_>) {
    match key_sizes::lines(cx) {
        Ok(lines) => lines.into_iter().for_each(|(name, value)| report.line(&name, value)),
        // A script has keys for long: the command runs again.
        Err(error) => report.error = Some(error),
    }
}

/// Keys of each database by number, and whether that is so at this moment. Without what is not durable yet if
/// the client's replies wait for that, as `INFO` itself never waits for the disk. A transaction sees what it
/// has changed, and waits as ever.
pub(super) fn counts_to_tell(cx: &Context<'_, '_>) -> (Counts, bool) {
    let counts: Counts = (0..cx.keys.databases()).map(|db| cx.keys.counts(db as u8)).collect();
    if cx.server.engine().is_none() {
        return (counts, true);
    }
    if cx.client.denies_waiting {
        cx.keys.see_all();
        return (counts, true);
    }
    let newest = cx.keys.newest();
    // While the log is being switched on, what there is of it tells nothing of what a start would find.
    let durable = cx.server.durable().min(cx.server.revealable());
    let is_durable = cx.server.keyspace.note(&counts, newest, durable);
    if is_durable || newest <= cx.client.handle.revealable(|| cx.server.durable(), || cx.server.revealable())
    {
        return (counts, true);
    }
    (cx.server.keyspace.settled(), false)
}

/// The mean of the time that some keys have left, of those that expire. Latches few segments, however many
/// there are.
fn mean_ttl_ms(cx: &Context<'_, '_>, db: u8) -> u64 {
    const KEYS: u64 = 64;
    const SEGMENTS: usize = 64;
    let table = cx.keys.table(db);
    let (mut keys, mut sum_ms) = (0, 0u64);
    let first = rand::random_range(0..table.segments());
    // Around the table once; what was looked at twice counts twice.
    let from = |index| table.next_due(index, UnixMs::MAX).or_else(|| table.next_due(0, UnixMs::MAX));
    let mut next = from(first);
    for _ in 0..SEGMENTS {
        let Some(index) = next.filter(|_| keys < KEYS) else { break };
        // A script may have one for long, and who ends it may be behind this command.
        for expiry in
            table.try_read(index).iter().flat_map(|segment| segment.iter()).filter_map(Entry::expiry)
        {
            keys += 1;
            sum_ms = sum_ms.saturating_add(expiry.saturating_sub(cx.now()));
        }
        next = from(index + 1);
    }
    sum_ms.checked_div(keys).unwrap_or(0)
}

fn allocator_name() -> String {
    let version = tikv_jemalloc_ctl::version::read().unwrap_or_default();
    format!("jemalloc-{}", version.split('-').next().unwrap_or_default())
}

/// Bytes as people read them: `1.50M`.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_as_redis_rounds_them() {
        let cases =
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_584_240, "1.51M"), (25_276_514_304, "23.54G")];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text);
        }
    }
}
