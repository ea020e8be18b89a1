//! Compares what Tarn and redis-server tell of their commands: the table of `COMMAND`, and `COMMAND DOCS`.

use crate::client::Client;
use crate::coverage::is_not_in_redis;
use crate::reply::{Order, Reply};
use crate::server::{Kind, Server};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeMap;

/// Commands of Redis 7.0 that take more here: arguments of later versions.
const TAKE_MORE: [&str; 13] = [
    "bitop",
    "client|kill",
    "client|list",
    "geosearch",
    "geosearchstore",
    "hscan",
    "set",
    "xadd",
    "xreadgroup",
    "xtrim",
    "zrank",
    "zrevrank",
    "zscan",
];

/// Of these, those of a fixed number of arguments there: their arity is another here.
const LONGER: [&str; 2] = ["zrank", "zrevrank"];

/// Fields of `COMMAND`. The subcommands are taken apart.
const FIELDS: [&str; 9] =
    ["name", "arity", "flags", "first key", "last key", "step", "categories", "hints", "key specifications"];

/// Fields of `COMMAND DOCS`. The sentences of a summary and a complexity are each server's own.
const DOCS: [&str; 7] =
    ["since", "group", "doc_flags", "deprecated_since", "replaced_by", "history", "arguments"];

/// The tests of this file, where redis-server is installed.
pub(crate) fn trials() -> Vec<Trial> {
    if !Kind::Redis.is_installed() {
        return Vec::new();
    }
    vec![
        Trial::test("tarn::command_info_agrees_with_redis", command_info_agrees_with_redis),
        Trial::test("tarn::command_docs_agree_with_redis", command_docs_agree_with_redis),
    ]
}

/// Commands that Redis 7.0 has rows for. DEBUG takes its subcommands apart by itself in Redis, and no client
/// asks for them. JSON and FT commands are those of modules.
fn is_compared(name: &str) -> bool {
    let others = ["debug|", "json.", "ft."];
    !others.iter().any(|begin| name.starts_with(begin)) && !is_not_in_redis(name)
}

fn command_info_agrees_with_redis() -> Result<(), Failed> {
    let (of_tarn, of_redis) = (command_info(Kind::Tarn)?, command_info(Kind::Redis)?);
    let mut problems = Vec::new();
    for (name, tarn) in of_tarn.iter().filter(|(name, _)| is_compared(name)) {
        let Some(redis) = of_redis.get(name) else {
            problems.push(format!("{name}: not a command of Redis 7.0"));
            continue;
        };
        let is_longer = LONGER.contains(&name.as_str());
        let compares = |field: &str| !is_longer || field != "arity";
        for (index, field) in FIELDS.iter().enumerate().filter(|(_, field)| compares(field)) {
            // The innermost arrays are sets here.
            let (tarn, redis) =
                (tarn[index].clone().ordered(Order::Sorted), redis[index].clone().ordered(Order::Sorted));
            note_difference(&mut problems, name, field, Some(&tarn), Some(&redis));
        }
    }
    verdict(&problems)
}

fn command_docs_agree_with_redis() -> Result<(), Failed> {
    let (of_tarn, of_redis) = (command_docs(Kind::Tarn)?, command_docs(Kind::Redis)?);
    let mut problems = Vec::new();
    let compared: Vec<&String> = of_tarn.keys().filter(|name| is_compared(name)).collect();
    for name in &compared {
        let (tarn, Some(redis)) = (&of_tarn[*name], of_redis.get(*name)) else {
            problems.push(format!("{name}: not a command of Redis 7.0"));
            continue;
        };
        let takes_more = TAKE_MORE.contains(&name.as_str());
        let fields = DOCS.iter().filter(|field| !takes_more || !["history", "arguments"].contains(*field));
        for field in fields {
            note_difference(&mut problems, name, field, tarn.get(*field), redis.get(*field));
        }
        if !["summary", "complexity"].iter().all(|field| tarn.contains_key(*field)) {
            problems.push(format!("{name} says too little: {:?}", tarn.keys()));
        }
    }
    if compared.len() < 250 {
        problems.push(format!("only {} commands are described", compared.len()));
    }
    verdict(&problems)
}

fn note_difference(
    problems: &mut Vec<String>,
    name: &str,
    field: &str,
    tarn: Option<&Reply>,
    redis: Option<&Reply>,
) {
    let line = |reply: Option<&Reply>| reply.map_or_else(|| "nothing".to_owned(), Reply::line);
    if tarn != redis {
        problems.push(format!("{name}: {field}\n  of tarn:  {}\n  of redis: {}", line(tarn), line(redis)));
    }
}

fn verdict(problems: &[String]) -> Result<(), Failed> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// The entries of `COMMAND` and of their subcommands, by name. The subcommands are no field of them.
fn command_info(kind: Kind) -> Result<BTreeMap<String, Vec<Reply>>, String> {
    let mut open = vec![ask(kind, &["COMMAND"])?];
    let mut entries = BTreeMap::new();
    while let Some(reply) = open.pop() {
        let Reply::Array(commands) = reply else {
            return Err(format!("COMMAND of {} answers {}", kind.name(), reply.line()));
        };
        for command in commands {
            match command {
                Reply::Array(mut fields) if fields.len() == FIELDS.len() + 1 => {
                    open.extend(fields.pop());
                    entries.insert(text(&fields[0])?, fields);
                }
                other => return Err(format!("COMMAND of {} describes {}", kind.name(), other.line())),
            }
        }
    }
    Ok(entries)
}

/// The fields of `COMMAND DOCS` of all commands and their subcommands, by the command's name and the field's.
fn command_docs(kind: Kind) -> Result<BTreeMap<String, BTreeMap<String, Reply>>, String> {
    let mut open = vec![ask(kind, &["COMMAND", "DOCS"])?];
    let mut entries = BTreeMap::new();
    while let Some(reply) = open.pop() {
        for (name, fields) in pairs(reply)? {
            let mut fields = pairs(fields)?;
            open.extend(fields.remove("subcommands"));
            if entries.insert(name.clone(), fields).is_some() {
                return Err(format!("COMMAND DOCS of {} has {name} twice", kind.name()));
            }
        }
    }
    Ok(entries)
}

/// The pairs of a map as RESP2 sends it.
fn pairs(reply: Reply) -> Result<BTreeMap<String, Reply>, String> {
    let Reply::Array(parts) = reply else { return Err(format!("{} is no map", reply.line())) };
    if !parts.len().is_multiple_of(2) {
        return Err(format!("a map has {} names and values", parts.len()));
    }
    parts.chunks(2).map(|pair| Ok((text(&pair[0])?, pair[1].clone()))).collect()
}

fn text(reply: &Reply) -> Result<String, String> {
    match reply {
        Reply::Bulk(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        other => Err(format!("{} is no name", other.line())),
    }
}

/// The reply of a new server to one request.
fn ask(kind: Kind, request: &[&str]) -> Result<Reply, String> {
    let server = Server::start(kind)?;
    let mut client = Client::connect(server.address()).map_err(|error| error.to_string())?;
    client.ask(request).map_err(|error| error.to_string())
}
