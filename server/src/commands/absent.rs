//! Fields of `INFO` about things that Redis has and Tarn has not. Monitors read them by name; what they say
//! never changes.

/// Fields by section, each with what it always says.
const FIELDS: &[(&str, &[(&str, &str)])] = &[
    (
        "server",
        &[
            ("redis_git_sha1", "00000000"),
            ("redis_git_dirty", "0"),
            ("redis_build_id", "0"),
            ("monotonic_clock", "POSIX clock_gettime"),
            ("atomicvar_api", "std"),
            ("gcc_version", "0.0.0"),
            ("io_threads_active", "0"),
        ],
    ),
    (
        "memory",
        &[
            ("mem_replication_backlog", "0"),
            ("mem_total_replication_buffers", "0"),
            ("mem_clients_slaves", "0"),
            ("mem_cluster_links", "0"),
        ],
    ),
    (
        "persistence",
        &[
            // There is no base file: the log is compacted in place.
            ("aof_base_size", "0"),
            // No reply is sent before its sync, so none is delayed by one.
            ("aof_delayed_fsync", "0"),
            // Nothing copies the log on write.
            ("aof_last_cow_size", "0"),
            ("module_fork_in_progress", "0"),
            ("module_fork_last_cow_size", "0"),
        ],
    ),
    (
        "stats",
        &[
            ("total_net_repl_input_bytes", "0"),
            ("total_net_repl_output_bytes", "0"),
            ("instantaneous_input_repl_kbps", "0.00"),
            ("instantaneous_output_repl_kbps", "0.00"),
            ("sync_full", "0"),
            ("sync_partial_ok", "0"),
            ("sync_partial_err", "0"),
            // Each turn of the expirer deletes all that is due.
            ("expired_stale_perc", "0.00"),
            ("expired_time_cap_reached_count", "0"),
            ("migrate_cached_sockets", "0"),
            ("slave_expires_tracked_keys", "0"),
            ("unexpected_error_replies", "0"),
            ("dump_payload_sanitizations", "0"),
            ("io_threaded_reads_processed", "0"),
            ("io_threaded_writes_processed", "0"),
            ("reply_buffer_shrinks", "0"),
            ("reply_buffer_expands", "0"),
        ],
    ),
    (
        "replication",
        &[
            ("master_replid2", "0000000000000000000000000000000000000000"),
            ("second_repl_offset", "-1"),
            ("repl_backlog_active", "0"),
            ("repl_backlog_size", "1048576"),
            ("repl_backlog_first_byte_offset", "0"),
            ("repl_backlog_histlen", "0"),
        ],
    ),
];

/// The fields of a section.
pub(super) fn fields(section: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let named = move |(name, _): &&(&str, _)| *name == section;
    FIELDS.iter().filter(named).flat_map(|(_, fields)| fields.iter().copied())
}
