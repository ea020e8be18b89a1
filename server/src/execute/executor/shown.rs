//! Shows requests to the clients that monitor.
//!
//! A request is shown when it has run, the requests of a transaction before its `EXEC`, and a script before
//! what it asks for. A script that may have to run again keeps its lines until it has ended.

use std::time::{SystemTime, UNIX_EPOCH};

use tarn_resp::Args;

use super::is_to_run_again;
use crate::error::CommandError;
use crate::execute::client::{After, Client};
use crate::execute::command::Command;
use crate::execute::services::Services;
use crate::execute::spec::Flags;
use crate::observe::slowlog::is_secret;
use crate::pubsub::monitors::{Sender, line};

/// Commands that nobody is shown, or that are shown otherwise.
const HIDDEN: Flags = Flags::ADMIN.with(Flags::SKIP_MONITOR);
/// Shows a request, which stands behind the slot of its command, of a client that has run, unless it is to
/// run again, or has been shown when it ran first.
#[cold]
pub(super) fn show_run<T>(
    server: &Services,
    client: &mut Client,
    command: &Command,
    request: (usize, Args<'_>),
    result: &Result<T, CommandError>,
) {
    let runs_again =
        is_to_run_again(result) || matches!(client.after, After::Postpone | After::Pause) || client.waits;
    if !runs_again && !command.flags.has_any(HIDDEN) {
        show(server, client, server.acl.catalog().name(request.0), request.1, false);
    }
}

/// Shows a request of a transaction, or of a script.
#[cold]
pub(super) fn show_part(
    server: &Services,
    client: &mut Client,
    command: &Command,
    request: (usize, Args<'_>),
    by_script: bool,
) {
    if !command.flags.has_any(HIDDEN) {
        show(server, client, server.acl.catalog().name(request.0), request.1, by_script);
    }
}

/// Shows the request that asks for a script.
pub(super) fn show_script(server: &Services, client: &mut Client, args: Args<'_>) {
    if server.pubsub.is_monitored() {
        // None of its arguments is a secret.
        show(server, client, "", args, false);
    }
}

/// Keeps the lines that follow until they are sent or forgotten.
pub(super) fn keep(server: &Services, client: &mut Client) {
    client.unshown = server.pubsub.is_monitored().then(Box::default);
}

/// Sends the lines that were kept. Those that follow are sent at once.
pub(super) fn send_kept(server: &Services, client: &mut Client) {
    if let Some(kept) = client.unshown.take() {
        send(server, client, kept.into_lines());
    }
}

/// `command`: the full name.
fn show(server: &Services, client: &mut Client, command: &str, args: Args<'_>, by_script: bool) {
    if !server.pubsub.can_show(args.total_bytes()) {
        return close(server, &server.pubsub.monitoring());
    }
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let sender = if by_script { Sender::Script } else { Sender::Client(&client.handle.addr) };
    let line = line(time, client.db, sender, args, |i| is_secret(command, args, i));
    match &mut client.unshown {
        Some(kept) => kept.push(line),
        None => send(server, client, vec![line]),
    }
}

fn send(server: &Services, client: &Client, lines: Vec<Vec<u8>>) {
    close(server, &server.pubsub.show(lines, client.worker));
}

/// Closes clients that monitor and do not keep up.
fn close(server: &Services, ids: &[u64]) {
    for client in ids.iter().filter_map(|id| server.clients.get(*id)) {
        if !client.is_killed() {
            tracing::warn!("closing client {} at {}: it monitors more than it reads", client.id, client.addr);
            client.kill();
        }
    }
}
