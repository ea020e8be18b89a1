//! Bringing a configuration into force: at the start, and after each `CONFIG SET`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tarn_engine::compactor::CompactionOptions;
use tarn_engine::value::EncodingLimits;
use tarn_engine::value::limits::set_current;
use tarn_engine::value::usage::{self, Tracked};
use tarn_engine::view::ViewLimits;
use tarn_engine::{EvictionOptions, Victims};

use crate::acl::registry::{DEFAULT, is_name};
use crate::acl::{Catalog, RuleError, User, UserId, file, merge_selectors, without_password};
use crate::config::{AclPubsubDefault, Config, Encryption, LogCompaction, MaxmemoryPolicy};
use crate::execute::services::Services;
use crate::net::certificates::{Prepared, TlsError};
use crate::net::listen::{ListenError, Service};
use crate::observe::defrag::DefragSettings;
use crate::observe::logging;
use crate::observe::process;
use crate::persist::keeping;
use crate::persist::log_switch;
use crate::store::Store;

/// The certificates of a changed configuration.
pub(crate) enum Certificates {
    /// Connections are encrypted as before.
    Same,
    /// They were read, or could not be.
    Read(Result<Prepared, TlsError>),
}

/// Brings a changed configuration into force. `Err` names the directive that the system does not allow, and
/// why; then nothing has changed.
pub(crate) fn apply(
    server: &Services,
    old: &Config,
    new: &Config,
    certificates: Certificates,
) -> Result<(), (&'static str, String)> {
    if let Some(directive) = grown(old, new) {
        process::allow_clients(new).map_err(|fit| (directive, too_many_clients(fit)))?;
    }
    let certificates = new_certificates(old, new, certificates)?;
    if Service::ALL.iter().any(|service| service.place(old) != service.place(new)) {
        listen_elsewhere(server, old, new, certificates)?;
    } else if let Some(certificates) = certificates {
        server.tls.apply(certificates);
    }
    if !has_closed_doors(old) {
        warn_of_closed_doors(new);
    }
    if !old.keeps_nothing() {
        keeping::warn_if_nothing_is_kept(new);
    }
    if new.requirepass != old.requirepass {
        server.acl.set_default_password(&new.requirepass);
        // A line of the user default would outrank the new password at the next start.
        if server.config.has_noted_users() || !old.orders.users.is_empty() {
            note_users(server, new);
        }
    }
    server.acl.log.set_len_max(new.acl.log_max_len);
    server.live.update(new);
    server.slowlog.set_len_max(new.slowlog_max_len);
    server.large_requests.set_len_max(new.commandlog_large_request_max_len);
    server.large_replies.set_len_max(new.commandlog_large_reply_max_len);
    set_encoding_limits(new);
    server.memory_limit.set(new.memory.maxmemory_bytes, server.freed());
    if new.memory.maxmemory_bytes != old.memory.maxmemory_bytes && server.memory_excess() > 0 {
        let (limit, policy) = (new.memory.maxmemory_bytes, new.memory.maxmemory_policy.name());
        tracing::warn!(
            "'maxmemory {limit}' is less than is in use: keys are evicted, or writes refused, as \
             'maxmemory-policy {policy}' says"
        );
    }
    set_defrag(server, new);
    if has_other_uses(old, new) {
        track_uses(new);
    }
    if new.loglevel != old.loglevel {
        logging::set_level(new.loglevel);
    }
    // What is set before there is a store is brought into force with it.
    if let Some(store) = server.store() {
        if new.hz != old.hz {
            set_expiry_cycle(store, new.hz);
        }
        set_view_limits(store, new);
        set_eviction(store, new);
        store.engine.limit_indexes(new.memory.index_max_memory_bytes);
        set_latency_target(store, new);
        set_compaction(store, new);
        server.scrubber.set_bytes_per_second(new.log_scrub_bytes_per_second as u64);
        if new.appendfsync != old.appendfsync {
            log_switch::set_sync_mode(store, new.appendfsync);
        }
        if new.log_compression != old.log_compression {
            log_switch::set_compression(store, new.log_compression);
        }
        if new.appendonly != old.appendonly || new.appendfsync != old.appendfsync {
            log_switch::hold_for_log(server, store, new);
        }
        if new.appendonly != old.appendonly {
            server.saver.switch_log();
        }
    }
    Ok(())
}

/// Has `CONFIG REWRITE` write the users that are in force, unless they stand in a file of their own.
pub(crate) fn note_users(server: &Services, config: &Config) {
    if config.aclfile_path().is_none() {
        server.config.note_users();
    }
}

/// Brings the users of the configuration into force: those of its lines, or of the file that `aclfile` names.
/// An error says why the server must not start.
pub(crate) fn load_users(server: &Services, config: &Config) -> Result<(), String> {
    match users_of(config, server.acl.catalog())? {
        ConfiguredUsers::Added(users) => {
            let off = users.iter().filter(|user| !user.is_enabled());
            off.for_each(|user| {
                let name = String::from_utf8_lossy(&user.name);
                tracing::warn!("The user '{name}' is disabled: there is no 'on' among its rules");
            });
            server.acl.add(users);
        }
        ConfiguredUsers::All(users) => drop(server.acl.replace(users)),
    }
    warn_if_requirepass_is_outranked(server, config);
    Ok(())
}

/// Whether the server would start with the users of a configuration.
pub(crate) fn check_users(config: &Config, catalog: &Catalog) -> Result<(), String> {
    users_of(config, catalog).map(drop)
}

/// Tells whether the server would start with the file of users beside the `requirepass` of a configuration;
/// for another thread.
pub(crate) fn password_check(catalog: Arc<Catalog>) -> impl Fn(&Config) -> Result<(), String> + Send {
    move |config| match config.aclfile_path() {
        Some(path) if !config.requirepass.is_empty() => read_users(config, &catalog, &path).map(drop),
        _ => Ok(()),
    }
}

/// Users that a configuration makes.
enum ConfiguredUsers {
    /// Those of its lines, which come to `default`.
    Added(Vec<User>),
    /// Those of the file that `aclfile` names, and no others.
    All(Vec<User>),
}

fn users_of(config: &Config, catalog: &Catalog) -> Result<ConfiguredUsers, String> {
    match config.aclfile_path() {
        Some(_) if !config.orders.users.is_empty() => {
            Err("users are in lines 'user' and in a file that 'aclfile' names; use one of both".to_owned())
        }
        Some(path) => read_users(config, catalog, &path).map(ConfiguredUsers::All),
        None => users_of_lines(config, catalog).map(ConfiguredUsers::Added),
    }
}

fn users_of_lines(config: &Config, catalog: &Catalog) -> Result<Vec<User>, String> {
    let all_channels = config.acl.pubsub_default == AclPubsubDefault::AllChannels;
    let mut users = Vec::with_capacity(config.orders.users.len());
    for words in &config.orders.users {
        let Some((name, rules)) = words.split_first() else { continue };
        let shown = String::from_utf8_lossy(name);
        if !is_name(name) {
            // A line that is one word has passwords in it.
            return Err(
                "the name of a user has white space or a NUL in it; write each rule as a word of its own"
                    .to_owned(),
            );
        }
        let rules = merge_selectors(rules.iter().map(Vec::as_slice))
            .map_err(|_| format!("user '{shown}': unmatched parenthesis in acl selector"))?;
        let mut user = User::new(name, UserId::default(), catalog, all_channels);
        // The user default is there already, and would keep its rules.
        let reset = (name.as_slice() == DEFAULT).then_some(&b"reset"[..]);
        for rule in reset.into_iter().chain(rules.iter().map(|rule| &**rule)) {
            user.apply(rule, catalog, all_channels).map_err(|error| match error {
                // A rule that names a command is no secret.
                RuleError::Unknown => {
                    let rule = String::from_utf8_lossy(without_password(rule));
                    format!("user '{shown}': rule '{rule}': {error}")
                }
                error => format!("user '{shown}': {error}"),
            })?;
        }
        users.push(user);
    }
    Ok(users)
}

/// The users of the file that `aclfile` names.
fn read_users(config: &Config, catalog: &Catalog, path: &Path) -> Result<Vec<User>, String> {
    let all_channels = config.acl.pubsub_default == AclPubsubDefault::AllChannels;
    let told = |error: String| match path.exists() {
        true => error,
        false => format!("{error}; make it, or remove 'aclfile'"),
    };
    let users = file::read(path, catalog, all_channels).map_err(told)?;
    refuse_without_default(config, &users, path)?;
    Ok(users)
}

/// Refuses users of a file without `default` where `requirepass` is set: it would need no password then.
fn refuse_without_default(config: &Config, users: &[User], path: &Path) -> Result<(), String> {
    if !config.requirepass.is_empty() && !users.iter().any(|user| *user.name == *DEFAULT) {
        return Err(format!(
            "Error loading ACLs: the file '{}' has no line of the user 'default', who would need no password \
             then, but 'requirepass' is set; write such a line, or remove 'requirepass'",
            path.display()
        ));
    }
    Ok(())
}

/// Puts the users of the file that `aclfile` names in the place of all, if they may be. As
/// [`Acl::replace`](crate::acl::Acl::replace).
pub(crate) fn replace_users(
    server: &Services,
    users: Vec<User>,
    path: &Path,
) -> Result<Vec<Arc<User>>, String> {
    // Nobody sets `requirepass` meanwhile.
    server.config.apply_current(|config| {
        refuse_without_default(config, &users, path)?;
        let gone = server.acl.replace(users);
        warn_if_requirepass_is_outranked(server, config);
        Ok(gone)
    })
}

/// Tells the operator that `requirepass` is not what clients are asked for.
fn warn_if_requirepass_is_outranked(server: &Services, config: &Config) {
    let outranks = "rules of the user 'default' outrank 'requirepass'";
    if config.requirepass.is_empty() {
        return;
    }
    if !server.acl.needs_password() {
        tracing::warn!("No client needs a password: {outranks}");
    } else if server.acl.authenticate(DEFAULT, &config.requirepass).is_none() {
        tracing::warn!("The password of 'requirepass' lets nobody in: {outranks}");
    }
}

/// Settings that a start applies outside the server's own fields.
pub(crate) fn set_encoding_limits(config: &Config) {
    set_current(EncodingLimits {
        hash_listpack_entries: config.hash_max_listpack_entries,
        hash_listpack_value: config.hash_max_listpack_value_bytes,
        set_intset_entries: config.set_max_intset_entries,
        zset_listpack_entries: config.zset_max_listpack_entries,
        zset_listpack_value: config.zset_max_listpack_value_bytes,
    });
}

/// Opens the doors to a store that has been loaded, with the settings of now: some may have changed
/// meanwhile, and one that is changing at this moment either is seen here or sees the store.
pub(crate) fn open_doors(server: &Services, store: Store) {
    // Before the configuration is held: it goes through the gate.
    server.note_loaded(&store.engine);
    server.config.apply_current(|config| {
        log_switch::set_sync_mode(&store, config.appendfsync);
        log_switch::set_compression(&store, config.log_compression);
        set_expiry_cycle(&store, config.hz);
        set_view_limits(&store, config);
        track_uses(config);
        set_defrag(server, config);
        set_eviction(&store, config);
        store.engine.limit_indexes(config.memory.index_max_memory_bytes);
        set_latency_target(&store, config);
        set_compaction(&store, config);
        server.scrubber.set_bytes_per_second(config.log_scrub_bytes_per_second as u64);
        server.set_store(store);
    });
    // Not before: it closes the gate, and who sets a directive is inside it already.
    server.tell_of_store();
}

fn set_expiry_cycle(store: &Store, hz: u32) {
    store.engine.expiry().set_cycle(Duration::from_secs(1) / hz);
}

fn set_view_limits(store: &Store, config: &Config) {
    store.engine.views().set_limits(ViewLimits {
        retained_bytes: config.view_memory_limit_bytes,
        passing_bytes: config.analytics_max_memory_bytes,
        age: Duration::ZERO,
    });
}

/// Whether something else is to be noted of uses of keys.
fn has_other_uses(old: &Config, new: &Config) -> bool {
    let uses = |config: &Config| {
        let memory = &config.memory;
        let policy = memory.maxmemory_policy;
        (policy.is_lfu(), policy.is_lrm(), memory.lfu_log_factor, memory.lfu_decay_time_minutes)
    };
    uses(old) != uses(new)
}

/// Has of uses of keys noted what the policy needs; without one that does, when they were.
pub(crate) fn track_uses(config: &Config) {
    let tracked = match config.memory.maxmemory_policy {
        policy if policy.is_lfu() => Tracked::Frequency,
        policy if policy.is_lrm() => Tracked::Change,
        _ => Tracked::Access,
    };
    usage::track(tracked, config.memory.lfu_log_factor, config.memory.lfu_decay_time_minutes);
}

fn set_eviction(store: &Store, config: &Config) {
    use MaxmemoryPolicy::{
        AllKeysLfu, AllKeysLrm, AllKeysLru, AllKeysRandom, NoEviction, VolatileLfu, VolatileLrm, VolatileLru,
        VolatileRandom, VolatileTtl,
    };
    let victims = match config.memory.maxmemory_policy {
        NoEviction => Victims::None,
        AllKeysRandom | VolatileRandom => Victims::Random,
        AllKeysLru | AllKeysLrm | VolatileLru | VolatileLrm => Victims::Idle,
        AllKeysLfu | VolatileLfu => Victims::Rare,
        VolatileTtl => Victims::Soonest,
    };
    store.engine.eviction().set_options(EvictionOptions {
        victims,
        only_expiring: config.memory.maxmemory_policy.is_volatile(),
        samples: config.memory.maxmemory_samples,
    });
}

fn set_defrag(server: &Services, config: &Config) {
    let memory = &config.memory;
    server.defrag.set(DefragSettings {
        is_on: memory.activedefrag,
        ignored_bytes: memory.active_defrag_ignore_bytes,
        percent: [memory.active_defrag_threshold_lower, memory.active_defrag_threshold_upper],
        share: [memory.active_defrag_cycle_min, memory.active_defrag_cycle_max],
    });
}

fn set_latency_target(store: &Store, config: &Config) {
    store.engine.clients().set_target(Duration::from_micros(config.background_latency_target_us));
}

fn set_compaction(store: &Store, config: &Config) {
    store.engine.compactor().set_options(CompactionOptions {
        enabled: config.log_compaction == LogCompaction::Vtc,
        rewrites: config.log_compaction == LogCompaction::Rewrite,
        bytes_per_second: config.log_compaction_bytes_per_second as u64,
        file_percent: config.log_compaction_file_percentage,
        log_percent: config.log_compaction_log_percentage,
        min_bytes: config.log_compaction_min_bytes as u64,
        file_bytes: config.log_file_bytes as u64,
        ..CompactionOptions::default()
    });
}

/// Warns if no client of the Redis protocol can connect.
pub(crate) fn warn_of_closed_doors(config: &Config) {
    if has_closed_doors(config) {
        tracing::warn!("'tls-required all' without 'tls-port' or 'unixsocket' lets no client in");
    }
}

fn has_closed_doors(config: &Config) -> bool {
    config.tls.required == Encryption::All && config.tls.port == 0 && config.unixsocket.is_empty()
}

/// The certificates that come into force, if something of encryption has changed.
fn new_certificates(
    old: &Config,
    new: &Config,
    certificates: Certificates,
) -> Result<Option<Prepared>, (&'static str, String)> {
    match certificates {
        _ if new.tls.encrypts_as(&old.tls) => Ok(None),
        Certificates::Read(Ok(read)) if read.is_for(new) => Ok(Some(read)),
        Certificates::Read(Err(error)) => {
            tracing::warn!("CONFIG SET failed: connections cannot be encrypted: {error}");
            Err((changed_tls(old, new), NOT_ENCRYPTED.to_owned()))
        }
        Certificates::Read(Ok(_)) | Certificates::Same => {
            Err((changed_tls(old, new), "Another CONFIG SET came between, try again.".to_owned()))
        }
    }
}

/// Moves the listeners to other ports or addresses, where the certificates come into force with them.
fn listen_elsewhere(
    server: &Services,
    old: &Config,
    new: &Config,
    certificates: Option<Prepared>,
) -> Result<(), (&'static str, String)> {
    server.acceptor.listen_as(old, new, certificates).map_err(|error| {
        match &error {
            Some(error) => tracing::warn!("CONFIG SET failed: {error}"),
            None => tracing::warn!("CONFIG SET failed: the server is stopping"),
        }
        let (service, [port, bind]) = match error {
            Some(ListenError::Tls { .. }) => (Service::RedisTls, ["tls-port", "bind"]),
            Some(ListenError::Metrics { .. }) => (Service::Metrics, ["metrics-port", "metrics-bind"]),
            Some(ListenError::Sql { .. }) => (Service::Sql, ["sql-port", "sql-bind"]),
            _ => (Service::Redis, ["port", "bind"]),
        };
        // Where nothing of its own has changed, it is the addresses of all.
        let bind = match service {
            Service::Metrics if new.metrics_bind == old.metrics_bind => "bind",
            Service::Sql if new.sql_bind == old.sql_bind => "bind",
            _ => bind,
        };
        if service.place(old).0 != service.place(new).0 {
            (port, "Unable to listen on this port. Check server logs.".to_owned())
        } else {
            (bind, "Failed to bind to specified addresses.".to_owned())
        }
    })
}

/// Redis' words for it.
const NOT_ENCRYPTED: &str = "Unable to update TLS configuration. Check server logs.";

/// A directive of encryption that has changed, for the error.
fn changed_tls(old: &Config, new: &Config) -> &'static str {
    let (old, new) = (&old.tls, &new.tls);
    [
        ("tls-port", new.port != old.port),
        ("tls-cert-file", new.cert_file != old.cert_file),
        ("tls-key-file", new.key_file != old.key_file),
        ("tls-key-file-pass", new.key_file_pass != old.key_file_pass),
        ("tls-ca-cert-file", new.ca_cert_file != old.ca_cert_file),
        ("tls-ca-cert-dir", new.ca_cert_dir != old.ca_cert_dir),
        ("tls-crl-file", new.crl_file != old.crl_file),
        ("tls-auth-clients", new.auth_clients != old.auth_clients),
        ("sql-tls-auth-clients", new.sql_auth_clients != old.sql_auth_clients),
        ("metrics-tls-auth-clients", new.metrics_auth_clients != old.metrics_auth_clients),
        ("tls-protocols", new.protocols != old.protocols),
        ("tls-ciphers", new.ciphers != old.ciphers),
        ("tls-ciphersuites", new.ciphersuites != old.ciphersuites),
        ("metrics-tls", new.metrics != old.metrics),
        ("tls-prefer-server-ciphers", new.prefer_server_ciphers != old.prefer_server_ciphers),
        ("tls-session-caching", new.session_caching != old.session_caching),
        ("tls-session-cache-size", new.session_cache_size != old.session_cache_size),
        ("tls-session-cache-timeout", new.session_cache_timeout_s != old.session_cache_timeout_s),
    ]
    .into_iter()
    .find_map(|(directive, has_changed)| has_changed.then_some(directive))
    .unwrap_or("tls-cert-file")
}

/// Which directive lets more clients in than before, if one does.
fn grown(old: &Config, new: &Config) -> Option<&'static str> {
    [
        ("maxclients", new.maxclients > old.maxclients),
        ("sql-max-clients", new.sql_max_clients > old.sql_max_clients),
        ("sql-port", new.sql_port != 0 && old.sql_port == 0),
        ("metrics-port", new.metrics_port != 0 && old.metrics_port == 0),
        ("proxy-protocol-from", !new.tls.proxies.is_empty() && old.tls.proxies.is_empty()),
    ]
    .into_iter()
    .find_map(|(directive, has_grown)| has_grown.then_some(directive))
}

fn too_many_clients(fit: usize) -> String {
    format!("The operating system is not able to handle the specified number of clients, try with {fit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytics::sql::{Asked, Sql, Who};
    use crate::commands;
    use crate::config::ConfigStore;
    use crate::net::caller::Caller;
    use crate::net::moves::AcceptorHandle;
    use std::sync::mpsc;
    use tarn_engine::Engine;
    use tarn_engine::checkpoint::Checkpoints;
    use tarn_engine::io::{SimDisk, SimOptions, SystemClock};

    /// Makes its indexes behind a gate that a client of `CONFIG SET` is inside of: such a client waits for
    /// the configuration.
    struct Declares(mpsc::Sender<bool>, Arc<ConfigStore>);

    impl Sql for Declares {
        fn ask(&self, _: &str, _: Who) -> Box<dyn Asked> {
            unreachable!("nothing is asked")
        }

        fn has_room(&self) -> bool {
            true
        }

        fn talk_to(&self, _: Caller) {
            unreachable!("nobody connects")
        }

        fn store_is_there(&self) {
            let (sender, config) = (self.0.clone(), self.1.clone());
            let (set, is_set) = mpsc::channel();
            std::thread::spawn(move || {
                let done = config.set(&[("hz", "20")]).is_ok();
                let _ = set.send(done);
            });
            let _ = sender.send(is_set.recv_timeout(Duration::from_secs(10)).unwrap_or(false));
        }

        fn figures(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    #[test]
    fn declared_indexes_are_made_while_nobody_waits_for_the_configuration() {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Services::new(config.clone(), AcceptorHandle::new().0, commands::catalog());
        let (sender, told) = mpsc::channel();
        server.set_sql(Arc::new(Declares(sender, config)));
        let (engine, _background) = Engine::unlogged(server.databases, 1, Arc::new(SystemClock::new()));
        let disk = SimDisk::new(1, SimOptions::default());
        let checkpoints = Checkpoints::open(Arc::new(disk), std::path::Path::new("/data"));
        let checkpoints = Arc::new(checkpoints.expect("the disk has no faults"));
        open_doors(&server, Store::new(engine, None, checkpoints));
        assert_eq!(told.recv(), Ok(true), "who sets a directive waits for who waits for him");
    }
}
