//! `COMMAND` and its subcommands: the table, told to clients.

use tarn_resp::Args;
use tarn_resp::Writer;

use crate::commands;
use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse::Comparison;
use crate::execute::spec::{Begin, Find, Flags, KeySpec};
use crate::execute::table::Found;
use crate::glob;

const ANY_TIME: Flags = Flags::LOADING.with(Flags::STALE);

const fn sub(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    run: crate::execute::command::Run,
) -> Command {
    row(name, arity, ANY_TIME, since, summary, run).categories(&["@connection"])
}

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("command", -1, ANY_TIME, "2.8.13", "Describes all commands.", command)
        .categories(&["@connection"])
        .complexity("O(N) where N is the number of commands")
        .subcommands(&[
            sub("count", 2, "2.8.13", "Counts the commands.", count),
            sub("docs", -2, "7.0.0", "Returns documentation of commands.", docs),
            sub("getkeys", -4, "2.8.13", "Returns the keys of a request.", getkeys),
            sub(
                "getkeysandflags",
                -4,
                "7.0.0",
                "Returns the keys of a request and how they are used.",
                getkeysandflags,
            ),
            sub("help", 2, "5.0.0", "Lists the subcommands.", help),
            sub("info", -2, "2.8.13", "Describes the named commands.", info),
            sub("list", -2, "7.0.0", "Lists the names of commands.", list),
        ])];

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

/// ACL categories in the order of Redis.
const CATEGORIES: &[&str] = &[
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
];

/// The ACL categories of a command: those that its flags and the kind of value that its group is about imply,
/// and its own.
fn categories(Row { group, command, .. }: Row) -> Vec<&'static str> {
    let group = match group {
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

/// A command or a subcommand.
#[derive(Clone, Copy)]
struct Row {
    group: &'static str,
    parent: Option<&'static Command>,
    command: &'static Command,
}

impl Row {
    fn name(&self) -> String {
        let name = self.command.name;
        self.parent.map_or_else(|| name.to_owned(), |parent| format!("{}|{name}", parent.name))
    }

    fn subcommands(self) -> impl Iterator<Item = Row> {
        let Row { group, command: parent, .. } = self;
        parent.subcommands.iter().map(move |command| Row { group, parent: Some(parent), command })
    }
}

/// All commands, without their subcommands.
fn rows() -> impl Iterator<Item = Row> {
    commands::table().all().map(|Found { group, command, .. }| Row { group, parent: None, command })
}

/// First key, last key and step, as far as three numbers can say it: those of the only group of keys, or of
/// groups of single keys that follow each other.
fn key_range(command: &Command) -> (i64, i64, i64) {
    let ranges =
        command.keys.iter().chain(command.channels).filter_map(|spec| match (spec.begin, spec.find) {
            (Begin::Index(first), Find::Range { last, step, .. }) => {
                let last = if last >= 0 { first as i64 + i64::from(last) } else { i64::from(last) };
                Some((first as i64, last, step as i64))
            }
            _ => None,
        });
    let mut whole: Option<(i64, i64, i64)> = None;
    for (first, last, step) in ranges {
        whole = match whole {
            None if step == 1 || command.keys.len() == 1 => Some((first, last, step)),
            Some((begin, end, 1)) if step == 1 && first == end + 1 => Some((begin, last, 1)),
            whole => whole,
        };
    }
    whole.unwrap_or((0, 0, 0))
}

fn describe(reply: &mut Writer<'_>, row: Row) {
    let command = row.command;
    reply.array(10);
    reply.bulk(row.name().as_bytes());
    reply.integer(command.arity.into());
    let flags: Vec<&str> =
        FLAG_NAMES.iter().filter(|(flag, _)| is_told(command.flags, *flag)).map(|(_, name)| *name).collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = key_range(command);
    [first, last, step].iter().for_each(|number| reply.integer(*number));
    let categories = categories(row);
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(category));
    reply.array(0);
    reply.array(command.keys.len() + command.channels.len());
    command.keys.iter().chain(command.channels).for_each(|spec| describe_keys(reply, spec));
    reply.array(command.subcommands.len());
    row.subcommands().for_each(|sub| describe(reply, sub));
}

fn describe_keys(reply: &mut Writer<'_>, spec: &KeySpec) {
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(spec.flags.len());
    spec.flags.iter().for_each(|flag| reply.simple(flag));
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    match spec.begin {
        Begin::Found(_) => {
            reply.bulk(b"unknown");
            reply.bulk(b"spec");
            reply.map(0);
            reply.bulk(b"find_keys");
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(b"unknown");
            reply.bulk(b"spec");
            reply.map(0);
            return;
        }
        Begin::Index(index) => {
            reply.bulk(b"index");
            reply.bulk(b"spec");
            numbers(reply, &[("index", index as i64)]);
        }
        Begin::Option(word, from, _) => {
            reply.bulk(b"keyword");
            reply.bulk(b"spec");
            reply.map(2);
            reply.bulk(b"keyword");
            reply.bulk(word.as_bytes());
            reply.bulk(b"startfrom");
            reply.integer(from.into());
        }
    }
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    match spec.find {
        Find::Range { last, step, limit } => {
            reply.bulk(b"range");
            reply.bulk(b"spec");
            numbers(reply, &[("lastkey", last.into()), ("keystep", step as i64), ("limit", limit as i64)]);
        }
        Find::KeyNum { at, first, step } => {
            reply.bulk(b"keynum");
            reply.bulk(b"spec");
            numbers(reply, &[("keynumidx", at as i64), ("firstkey", first as i64), ("keystep", step as i64)]);
        }
    }
}

fn numbers(reply: &mut Writer<'_>, pairs: &[(&str, i64)]) {
    reply.map(pairs.len());
    for (name, number) in pairs {
        reply.bulk(name.as_bytes());
        reply.integer(*number);
    }
}

fn command<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.array(commands::table().all().count());
    rows().for_each(|row| describe(&mut cx.reply, row));
    Ok(())
}

fn count<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    cx.reply.integer(commands::table().all().count() as i64);
    Ok(())
}

/// A command by `name` or `name|subcommand`.
fn find(name: &[u8]) -> Option<Row> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let Found { group, command, .. } = commands::table().find(parts.next()?)?;
    Some(match parts.next() {
        None => Row { group, parent: None, command },
        Some(sub) => Row { group, parent: Some(command), command: command.subcommand(sub)? },
    })
}

fn info<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    if args.len() == 2 {
        return command(cx, args);
    }
    cx.reply.array(args.len() - 2);
    for name in args.tail(2) {
        match find(name) {
            Some(row) => describe(&mut cx.reply, row),
            None => cx.reply.null(),
        }
    }
    Ok(())
}

fn document(reply: &mut Writer<'_>, row: Row) {
    let command = row.command;
    reply.bulk(row.name().as_bytes());
    reply.map(4 + usize::from(!command.subcommands.is_empty()));
    for (name, value) in [
        ("summary", command.summary),
        ("since", command.since),
        ("group", row.group),
        ("complexity", command.complexity),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    if !command.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(command.subcommands.len());
        row.subcommands().for_each(|sub| document(reply, sub));
    }
}

fn docs<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let wanted: Vec<_> = match args.len() {
        2 => rows().collect(),
        _ => args.tail(2).iter().filter_map(find).collect(),
    };
    cx.reply.map(wanted.len());
    wanted.into_iter().for_each(|row| document(&mut cx.reply, row));
    Ok(())
}

/// Which arguments are keys, and by which spec.
type KeyPlaces = Vec<(usize, &'static KeySpec)>;

/// The request behind `COMMAND GETKEYS` and where its keys stand, with the spec that says so.
fn keys_of(args: Args<'_>) -> Result<(Args<'_>, KeyPlaces), CommandError> {
    let request = args.tail(2);
    let invalid = || CommandError::text("ERR Invalid command specified");
    let Found { command, .. } = commands::table().find(request.at(0)).ok_or_else(invalid)?;
    let command = match request.get(1) {
        Some(name) if !command.subcommands.is_empty() => command.subcommand(name).ok_or_else(invalid)?,
        _ => command,
    };
    if command.keys.is_empty() {
        return Err(CommandError::text("ERR The command has no key arguments"));
    }
    if !command.accepts(request.len()) {
        return Err(CommandError::text("ERR Invalid number of arguments specified for command"));
    }
    let mut found = Vec::new();
    for spec in command.keys {
        if !spec.visit(request, |index| found.push((index, spec))) {
            return Err(CommandError::text("ERR Invalid arguments specified for command"));
        }
    }
    if found.is_empty() {
        return Err(CommandError::text("ERR The command has no key arguments"));
    }
    Ok((request, found))
}

fn getkeys<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (request, found) = keys_of(args)?;
    cx.reply.array(found.len());
    found.iter().for_each(|(index, _)| cx.reply.bulk(request.at(*index)));
    Ok(())
}

/// The use that a request makes of its keys: `SET` reads with `GET`, which returns the value, and with
/// comparisons, `DELEX` with these, and `BITFIELD` writes unless it only reads.
fn flags_of(request: Args<'_>, spec: &KeySpec) -> &'static [&'static str] {
    if !spec.flags.contains(&"variable_flags") {
        return spec.flags;
    }
    let is_named = |name: &str| request.at(0).eq_ignore_ascii_case(name.as_bytes());
    let says = |from: usize, word: &str| {
        request.tail(from).iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let compares = |from: usize| request.tail(from).iter().any(|arg| Comparison::of_option(arg).is_some());
    if is_named("bitfield") {
        if says(2, "set") || says(2, "incrby") { &["RW", "access", "update"] } else { &["RO", "access"] }
    } else if is_named("delex") {
        if compares(2) { &["RW", "delete"] } else { &["RM", "delete"] }
    } else if says(3, "get") {
        &["RW", "access", "update"]
    } else if compares(3) {
        &["RW", "update"]
    } else {
        &["OW", "update"]
    }
}

fn getkeysandflags<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let (request, found) = keys_of(args)?;
    cx.reply.array(found.len());
    for (index, spec) in found {
        let flags = flags_of(request, spec);
        cx.reply.array(2);
        cx.reply.bulk(request.at(index));
        cx.reply.set(flags.len());
        flags.iter().for_each(|flag| cx.reply.simple(flag));
    }
    Ok(())
}

fn list<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let everything = || rows().flat_map(|row| std::iter::once(row).chain(row.subcommands()));
    let names: Vec<String> = match args.len() {
        2 => rows().map(|row| row.name()).collect(),
        5 if args.at(2).eq_ignore_ascii_case(b"filterby") => {
            let (by, what) = (args.at(3), args.at(4));
            if by.eq_ignore_ascii_case(b"module") {
                Vec::new()
            } else if by.eq_ignore_ascii_case(b"aclcat") {
                let wanted = format!("@{}", String::from_utf8_lossy(what).to_lowercase());
                let has = |row: &Row| categories(*row).contains(&wanted.as_str());
                everything().filter(has).map(|row| row.name()).collect()
            } else if by.eq_ignore_ascii_case(b"pattern") {
                let names = everything().map(|row| row.name());
                names.filter(|name| glob::matches_ignoring_case(what, name.as_bytes())).collect()
            } else {
                return Err(CommandError::Syntax);
            }
        }
        _ => return Err(CommandError::Syntax),
    };
    cx.reply.array(names.len());
    names.iter().for_each(|name| cx.reply.bulk(name.as_bytes()));
    Ok(())
}

fn help<'a>(cx: &mut Context<'_, 'a>, _: Args<'a>) -> Result<(), CommandError> {
    crate::commands::help::help(cx, "COMMAND");
    Ok(())
}
