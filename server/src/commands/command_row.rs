//! A row of the table as `COMMAND` tells of it: a command or a subcommand, its full name, its flags and its
//! ACL categories.

use tarn_resp::Args;
use tarn_resp::Writer;

use crate::acl::{CATEGORIES, Catalog, Listed};
use crate::commands;
use crate::execute::command::Command;
use crate::execute::context::Context;
use crate::execute::spec::Flags;
use crate::execute::table::Found;

/// About so many bytes describe a command, its subcommands counted with it. All commands together are many.
const ROW_BYTES: usize = 1024;

/// Flags in the order of Redis, with their names.
const FLAG_NAMES: &[(Flags, &str)] = &[
    (Flags::WRITE, "write"),
    (Flags::READONLY, "readonly"),
    (Flags::DENYOOM, "denyoom"),
    (Flags::ADMIN, "admin"),
    (Flags::PUBSUB, "pubsub"),
    (Flags::NOSCRIPT, "noscript"),
    (Flags::BLOCKING, "blocking"),
    (Flags::LOADING, "loading"),
    (Flags::STALE, "stale"),
    (Flags::SKIP_MONITOR, "skip_monitor"),
    (Flags::SKIP_SLOWLOG, "skip_slowlog"),
    (Flags::FAST, "fast"),
    (Flags::NO_AUTH, "no_auth"),
    (Flags::NO_ASYNC_LOADING, "no_async_loading"),
    (Flags::NO_MULTI, "no_multi"),
    (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (Flags::MOVABLEKEYS, "movablekeys"),
    (Flags::ALLOW_BUSY, "allow_busy"),
];

/// Whether clients are told of a flag: who reads and keeps what it has counted is no writer to them.
fn is_told(flags: Flags, flag: Flags) -> bool {
    flags.has(flag) && !(flag == Flags::WRITE && flags.has(Flags::READONLY))
}

/// A command or a subcommand.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// The group of its family.
    pub(super) group: &'static str,
    /// The command that a subcommand is of.
    pub(super) parent: Option<&'static Command>,
    /// The command, or the subcommand.
    pub(super) command: &'static Command,
}

impl Row {
    /// Its full name: `config|get`.
    pub(super) fn name(&self) -> String {
        let name = self.command.name;
        self.parent.map_or_else(|| name.to_owned(), |parent| format!("{}|{name}", parent.name))
    }

    /// Its subcommands.
    pub(super) fn subcommands(self) -> impl Iterator<Item = Row> {
        let Row { group, command: parent, .. } = self;
        parent.subcommands.iter().map(move |command| Row { group, parent: Some(parent), command })
    }

    /// The names of its flags.
    pub(super) fn flags(self) -> Vec<&'static str> {
        let told = FLAG_NAMES.iter().filter(|(flag, _)| is_told(self.command.flags, *flag));
        told.map(|(_, name)| *name).collect()
    }

    /// Its ACL categories: those that its flags and the kind of value that its group is about imply, and its
    /// own.
    pub(super) fn categories(self) -> Vec<&'static str> {
        let command = self.command;
        let group = match self.group {
            // A container does nothing of its own.
            _ if !command.subcommands.is_empty() => "",
            "string" => "@string",
            "bitmap" => "@bitmap",
            "list" => "@list",
            "set" => "@set",
            "sorted-set" => "@sortedset",
            "hash" => "@hash",
            "hyperloglog" => "@hyperloglog",
            "geo" => "@geo",
            "stream" => "@stream",
            "connection" => "@connection",
            "generic" if command.categories.is_empty() => "@keyspace",
            _ => "",
        };
        let has = |flag| command.flags.has(flag);
        let implied = |name: &str| match name {
            "@read" => has(Flags::READONLY) && !has(Flags::SCRIPT),
            "@write" => is_told(command.flags, Flags::WRITE),
            "@admin" | "@dangerous" => has(Flags::ADMIN),
            "@pubsub" => has(Flags::PUBSUB),
            "@blocking" => has(Flags::BLOCKING),
            "@fast" => has(Flags::FAST),
            "@slow" => !has(Flags::FAST),
            name => name == group,
        };
        CATEGORIES.iter().copied().filter(|name| implied(name) || command.categories.contains(name)).collect()
    }

    /// The same as rules of users have it; `parent` is the slot of its command, if it is a subcommand.
    fn listed(self, parent: Option<usize>) -> Listed {
        let own = self.categories();
        let bit = |(place, name): (usize, &&str)| u32::from(own.contains(name)) << place;
        let categories = CATEGORIES.iter().enumerate().map(bit).sum();
        // Redis has no rows for the subcommands of a loose one.
        let is_hidden = self.parent.is_some_and(|parent| parent.flags.has(Flags::LOOSE));
        Listed { name: self.name(), categories, parent, is_hidden }
    }
}

fn row_of(found: Found) -> Row {
    Row { group: found.group, parent: None, command: found.command }
}

/// The commands that somebody can call, without their subcommands.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    commands::table().named().map(row_of)
}

/// The same, each before its subcommands.
pub(super) fn rows_with_subcommands() -> impl Iterator<Item = Row> {
    rows().flat_map(|row| std::iter::once(row).chain(row.subcommands()))
}

/// All commands and subcommands as rules of users name them, by the slots of their counters.
pub(super) fn catalog() -> Catalog {
    let mut listed: Vec<Listed> = Vec::with_capacity(commands::table().slots());
    // Rules know commands by the names of their rows, also those that nobody can call any more.
    for row in commands::table().all().map(row_of) {
        let parent = listed.len();
        listed.push(row.listed(None));
        listed.extend(row.subcommands().map(|sub| sub.listed(Some(parent))));
    }
    Catalog::new(listed).with_absent(commands::NOT_BUILT)
}

/// A command by `name` or `name|subcommand`.
pub(super) fn find(name: &[u8]) -> Option<Row> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let Found { group, command, .. } = commands::table().find(parts.next()?)?;
    Some(match parts.next() {
        None => Row { group, parent: None, command },
        Some(sub) => Row { group, parent: Some(command), command: command.subcommand(sub)? },
    })
}

/// The rows that arguments from `index` on name, `None` for names of none; all commands if there is no such
/// argument.
pub(super) fn named(args: Args<'_>, index: usize) -> Vec<Option<Row>> {
    match args.len() > index {
        true => args.tail(index).iter().map(find).collect(),
        false => rows().map(Some).collect(),
    }
}

/// Writes each row, in steps if they are many, as a client may ask for the same ones over and over.
pub(super) fn reply_rows<T: Copy + 'static>(
    cx: &mut Context<'_, '_>,
    rows: Vec<T>,
    write: fn(&mut Writer<'_>, T),
) {
    if !cx.is_long(rows.len(), rows.len() * ROW_BYTES) {
        return rows.into_iter().for_each(|row| write(&mut cx.reply, row));
    }
    cx.run_in_steps(0, async move |steps| {
        steps.each(rows.into_iter(), write).await;
        Ok(())
    });
}

/// The replies that `write` writes, read back.
#[cfg(test)]
pub(super) fn replies(
    protocol: tarn_resp::Protocol,
    write: impl FnOnce(&mut Writer<'_>),
) -> Vec<tarn_resp::Frame> {
    let (mut bytes, mut decoder) = (Vec::new(), tarn_resp::FrameDecoder::default());
    write(&mut Writer::new(&mut bytes, protocol));
    let (mut replies, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let reply = decoder.decode(&bytes, &mut at).expect("a reply is well-formed");
        replies.push(reply.expect("a reply is as long as its headers say"));
    }
    replies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_has_every_slot_under_its_name() {
        let catalog = catalog();
        let names = commands::table().full_names();
        assert_eq!(catalog.len(), names.len());
        for (name, slot) in names {
            let parent = name.split('|').next().unwrap_or_default().to_owned();
            let ruled = catalog.name(slot);
            assert!(ruled == name || ruled == parent && name.starts_with("debug|"), "{name} is {ruled}");
            assert_eq!(catalog.find(ruled.as_bytes()), Some(catalog.ruled(slot)));
        }
    }

    #[test]
    fn a_row_is_found_by_its_full_name_in_any_case() {
        for row in rows_with_subcommands() {
            for name in [row.name(), row.name().to_uppercase()] {
                let found = find(name.as_bytes()).map(|found| found.command as *const Command);
                assert_eq!(found, Some(row.command as *const Command), "{name}");
            }
        }
        for name in ["", "|", "get|", "|get", "get|get", "config|nosuch", "config|get|get", "config get"] {
            assert!(find(name.as_bytes()).is_none(), "{name:?}");
        }
    }
}
