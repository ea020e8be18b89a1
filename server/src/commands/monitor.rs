//! `MONITOR`: shows a client the requests of all others.

use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::spec::Flags;

const FLAGS: Flags =
    Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE).with(Flags::READS_ALL);

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[row(
    "monitor",
    1,
    FLAGS,
    "1.0.0",
    "Shows the requests of all clients, but those of operators, from now on until RESET.",
    monitor,
)];

fn monitor<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    if cx.client.denies_waiting {
        return Err(CommandError::text("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    // As in Redis, there is no reply to a second one.
    if !cx.client.handle.is_monitoring() {
        cx.server.pubsub.monitor(&cx.client.handle);
        cx.client.look_again_if_rules_have_changed(&cx.server.acl);
        cx.reply.ok();
    }
    Ok(())
}
