//! `FT.*`: RediSearch's commands over the live keyspace, each answered as of one instant.

use tarn_resp::Args;
use tarn_resp::Protocol;
use tarn_resp::Writer;

use crate::analytics::search::Tree;
use crate::error::CommandError;
use crate::execute::client::After;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::executor::stops_writes;
use crate::execute::spec::Flags;

const READS: Flags = Flags::READONLY.with(Flags::NO_MULTI).with(Flags::NOSCRIPT).with(Flags::READS_ALL);
const DECLARES: Flags = Flags::NO_MULTI.with(Flags::NOSCRIPT).with(Flags::READS_ALL);
const ALL_KEYS: &str = "O(N) where N is the number of keys that are read; other clients do not wait";
const TERMS: &str = "O(N) where N is the number of terms that are declared";
const SMALL: &str = "O(N) where N is the number of indexes";
/// Those of who declares an index, which may cost much or delete keys.
const OF_INDEXES: &[&str] = &["@write", "@dangerous"];
/// Those of who changes no more than names and words.
const OF_WORDS: &[&str] = &["@write"];

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row("ft.create", -5, DECLARES, "1.0.0", "Declares an index over hashes or JSON documents.", ft)
        .complexity(SMALL)
        .categories(OF_INDEXES),
    row("ft.alter", -6, DECLARES, "1.0.0", "Adds fields to an index.", ft)
        .complexity(SMALL)
        .categories(OF_INDEXES),
    row("ft.dropindex", -2, DECLARES, "2.0.0", "Drops an index; with DD, its keys, too.", ft)
        .complexity(SMALL)
        .categories(OF_INDEXES),
    row("ft._list", 1, READS, "2.0.0", "Returns the names of all indexes.", ft).complexity(SMALL),
    row("ft.info", 2, READS, "1.0.0", "Describes an index and counts its keys.", ft).complexity(ALL_KEYS),
    row("ft.search", -3, READS, "1.0.0", "Counts the keys that a query asks for, and shows some.", ft)
        .complexity(ALL_KEYS),
    row("ft.aggregate", -3, READS, "1.1.0", "Groups and reduces what a query asks for.", ft)
        .complexity(ALL_KEYS),
    row("ft.cursor", -4, READS, "1.1.0", "Reads on from a cursor, or ends it.", ft)
        .complexity("O(N) where N is the number of rows that are read"),
    row("ft.aliasadd", 3, DECLARES, "1.0.0", "Gives an index another name.", ft)
        .complexity(SMALL)
        .categories(OF_WORDS),
    row("ft.aliasupdate", 3, DECLARES, "1.0.0", "Gives an index a name that another may have.", ft)
        .complexity(SMALL)
        .categories(OF_WORDS),
    row("ft.aliasdel", 2, DECLARES, "1.0.0", "Takes away another name of an index.", ft)
        .complexity(SMALL)
        .categories(OF_WORDS),
    row("ft.tagvals", 3, READS, "1.0.0", "Returns all tags of a field.", ft).complexity(ALL_KEYS),
    row("ft.profile", -5, READS, "2.2.0", "Runs a search or an aggregate, and says what it took.", ft)
        .complexity(ALL_KEYS),
    row("ft.config", -2, READS, "1.0.0", "Shows the limits of search.", ft).complexity("O(1)"),
    row("ft.dictadd", -3, DECLARES, "1.4.0", "Adds terms to a dictionary.", ft)
        .complexity(TERMS)
        .categories(OF_WORDS),
    row("ft.dictdel", -3, DECLARES, "1.4.0", "Removes terms of a dictionary.", ft)
        .complexity(TERMS)
        .categories(OF_WORDS),
    row("ft.dictdump", 2, READS, "1.4.0", "Returns the terms of a dictionary.", ft).complexity(TERMS),
    row("ft.synupdate", -4, DECLARES, "1.2.0", "Adds words to a group of synonyms.", ft)
        .complexity(TERMS)
        .categories(OF_WORDS),
    row("ft.syndump", 2, READS, "1.2.0", "Returns the synonyms of an index.", ft).complexity(TERMS),
    row("ft.spellcheck", -3, READS, "1.4.0", "Not there: corrects the words of a query.", ft)
        .complexity("O(1)"),
    row("ft.sugadd", -4, READS, "1.0.0", "Not there: adds a suggestion.", ft).complexity("O(1)"),
    row("ft.sugget", -3, READS, "1.0.0", "Not there: completes a word.", ft).complexity("O(1)"),
    row("ft.sugdel", 3, READS, "1.0.0", "Not there: removes a suggestion.", ft).complexity("O(1)"),
    row("ft.suglen", 2, READS, "1.0.0", "Not there: counts suggestions.", ft).complexity("O(1)"),
    row("ft.explaincli", -3, READS, "1.0.0", "Shows how a query is read, in lines.", ft).complexity("O(1)"),
    row("ft.explain", -3, READS, "1.0.0", "Shows how a query is read.", ft).complexity("O(1)"),
];

fn ft<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    let mut searching = match cx.client.searching.take() {
        Some(searching) => searching,
        None => {
            // It may have been called by another name.
            let name = super::table().find(args.at(0)).map_or("", |found| found.command.name);
            let deletes = name == "ft.dropindex" && args.len() > 2;
            if deletes && stops_writes(cx.server) {
                return Err(CommandError::CheckpointsFail);
            }
            let is_resp3 = cx.reply.protocol() == Protocol::Resp3;
            let words = std::iter::once(name.as_bytes()).chain(args.tail(1).iter());
            let words = words.map(<[u8]>::to_vec).collect();
            cx.server.search().ok_or_else(|| not_there(name))?.ask(words, cx.db, is_resp3)
        }
    };
    let answer = searching.answer();
    if answer.is_some() {
        cx.see_if_strict();
    }
    match answer {
        Some(Ok(answer)) => reply(&mut cx.reply, &answer),
        Some(Err(why)) => return Err(CommandError::owned(why)),
        None => {
            cx.client.searching = Some(searching);
            cx.client.after = After::Postpone;
        }
    }
    Ok(())
}

fn not_there(name: &str) -> CommandError {
    let name = name.to_uppercase();
    CommandError::owned(format!("ERR {name} is not there: this server was built without search"))
}

fn reply(out: &mut Writer<'_>, tree: &Tree) {
    match tree {
        Tree::Null => out.null(),
        Tree::Simple(text) => out.simple(text),
        Tree::Integer(number) => out.integer(*number),
        Tree::Double(number) => out.double(*number),
        Tree::Bulk(bytes) => out.bulk(bytes),
        Tree::Array(parts) => {
            out.array(parts.len());
            parts.iter().for_each(|part| reply(out, part));
        }
        Tree::Set(parts) => {
            out.set(parts.len());
            parts.iter().for_each(|part| reply(out, part));
        }
        Tree::Map(pairs) => {
            out.map(pairs.len());
            for (name, value) in pairs {
                reply(out, name);
                reply(out, value);
            }
        }
    }
}
