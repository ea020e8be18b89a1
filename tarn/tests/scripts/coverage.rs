//! Checks that the scripts cover every command: each command of the server has one, and no command of Redis
//! is missing silently.

use crate::client::Client;
use crate::reply::Reply;
use crate::script::{Action, Script};
use crate::server::{Kind, Server};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The tests of this file.
pub(crate) fn trials(scripts: &Arc<Vec<Script>>) -> Vec<Trial> {
    let of_scripts = Arc::clone(scripts);
    let mut trials = vec![Trial::test("tarn::every_command_has_a_script", move || {
        every_command_has_a_script(&of_scripts)
    })];
    if Kind::Redis.is_installed() {
        trials.push(Trial::test("tarn::every_command_of_redis_is_served_or_listed_as_later", || {
            every_command_of_redis_is_served_or_listed_as_later()
        }));
        trials.push(Trial::test("tarn::info_has_every_field_of_redis", info_has_every_field_of_redis));
    }
    trials
}

fn every_command_has_a_script(scripts: &[Script]) -> Result<(), Failed> {
    let served = commands(Kind::Tarn)?;
    let scripted = scripted_commands(scripts);
    let bare: Vec<&String> = served.difference(&scripted).collect();
    if bare.is_empty() {
        return Ok(());
    }
    Err(format!("no script in testscripts/ uses these commands, write one for each: {bare:?}").into())
}

fn every_command_of_redis_is_served_or_listed_as_later() -> Result<(), Failed> {
    let served = commands(Kind::Tarn)?;
    let path = crate::folder().join("later.md");
    let text = std::fs::read_to_string(&path)?;
    let later: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("- "))
        .flat_map(|line| line.split_whitespace().map(str::to_ascii_lowercase))
        .collect();
    let missing: Vec<String> = commands(Kind::Redis)?
        .into_iter()
        .filter(|name| !served.contains(name) && !later.contains(name))
        .collect();
    let stale: Vec<&String> = later.intersection(&served).collect();
    if missing.is_empty() && stale.is_empty() {
        return Ok(());
    }
    Err(format!(
        "not served and not in testscripts/later.md: {missing:?}; served by now, strike them there: {stale:?}"
    )
    .into())
}

/// Commands of Tarn alone, and of later versions of Redis.
const NOT_IN_REDIS_7_0: [&str; 40] = [
    "\"backup\"",
    "\"client|capa\"",
    "\"client|durability\"",
    "\"client|no-touch\"",
    "\"client|setinfo\"",
    "\"commandlog\"",
    "\"commandlog|get\"",
    "\"commandlog|help\"",
    "\"commandlog|len\"",
    "\"commandlog|reset\"",
    "\"delex\"",
    "\"delifeq\"",
    "\"digest\"",
    "\"hexpire\"",
    "\"hexpireat\"",
    "\"hexpiretime\"",
    "\"hgetdel\"",
    "\"hgetex\"",
    "\"hotkeys\"",
    "\"hotkeys|get\"",
    "\"hotkeys|help\"",
    "\"hotkeys|reset\"",
    "\"hotkeys|start\"",
    "\"hotkeys|stop\"",
    "\"hpersist\"",
    "\"hpexpire\"",
    "\"hpexpireat\"",
    "\"hpexpiretime\"",
    "\"hpttl\"",
    "\"hsetex\"",
    "\"httl\"",
    "\"increx\"",
    "\"latency|ledger\"",
    "\"msetex\"",
    "\"script|show\"",
    "\"sql\"",
    "\"waitaof\"",
    "\"xackdel\"",
    "\"xcfgset\"",
    "\"xdelex\"",
];

/// Whether Redis 7.0 lacks a command.
pub(crate) fn is_not_in_redis(name: &str) -> bool {
    NOT_IN_REDIS_7_0.iter().any(|quoted| quoted.trim_matches('"') == name)
}

/// The fields that programs which watch servers read by name are there.
fn info_has_every_field_of_redis() -> Result<(), Failed> {
    let (of_tarn, of_redis) = (info_fields(Kind::Tarn)?, info_fields(Kind::Redis)?);
    let missing: Vec<&String> = of_redis.difference(&of_tarn).collect();
    // So many it has without those of single commands, of errors and of databases.
    if of_redis.len() >= 150 && missing.is_empty() {
        return Ok(());
    }
    Err(format!("of {} fields of redis-server Tarn lacks {missing:?}", of_redis.len()).into())
}

/// The names of the fields of `INFO everything`, of a server that has had something to do.
fn info_fields(kind: Kind) -> Result<BTreeSet<String>, String> {
    let server = Server::start(kind)?;
    let mut client = Client::connect(server.address()).map_err(|error| error.to_string())?;
    // The same requests have the same fields of their own.
    for request in
        [&["SET", "k", "v", "EX", "1000"][..], &["GET", "k"], &["NOSUCH"], &["EVAL", "return 1", "0"]]
    {
        client.ask(request).map_err(|error| error.to_string())?;
    }
    let mut info = || client.ask(&["INFO", "everything"]).map_err(|error| error.to_string());
    // The second one knows of the first.
    info()?;
    let reply = info()?;
    let Reply::Bulk(text) = &reply else {
        return Err(format!("INFO of {} answers {}", kind.name(), reply.line()));
    };
    let text = String::from_utf8_lossy(text);
    Ok(text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned()).collect())
}

/// The commands that `COMMAND LIST` names, without subcommands.
fn commands(kind: Kind) -> Result<BTreeSet<String>, String> {
    let server = Server::start(kind)?;
    let mut client = Client::connect(server.address()).map_err(|error| error.to_string())?;
    match client.ask(&["COMMAND", "LIST"]).map_err(|error| error.to_string())? {
        Reply::Array(names) => Ok(names
            .iter()
            .filter_map(|name| match name {
                Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).to_ascii_lowercase()),
                Reply::Simple(text) => Some(text.to_ascii_lowercase()),
                _ => None,
            })
            .filter(|name| !name.contains('|'))
            .collect()),
        other => Err(format!("COMMAND LIST of {} answers {}", kind.name(), other.line())),
    }
}

/// The first words of all commands in the scripts.
fn scripted_commands(scripts: &[Script]) -> BTreeSet<String> {
    let steps = scripts.iter().flat_map(|script| &script.paragraphs).flat_map(|paragraph| &paragraph.steps);
    steps
        .filter_map(|step| match &step.action {
            Action::Command(line) | Action::Async(line) => line.split_whitespace().next(),
            _ => None,
        })
        .map(str::to_ascii_lowercase)
        .collect()
}
