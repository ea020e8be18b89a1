//! `LCS`: the longest common subsequence of two strings.
//!
//! ```text
//!   table[i][j] = length for the first i bytes of a and the first j of b
//!       b: x a b          walked back from the last corner: a match goes one corner back
//!   a: 0 0 0 0            neighbour, to the left where both are equal
//!   a  0 0 1 1
//!   b  0 0 1 2
//! ```

use tarn_engine::Entry;
use tarn_engine::record::Kind;
use tarn_engine::value::StringRef;
use tarn_resp::{Args, Writer};

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::execute::parse;
use crate::execute::spec::{Flags, KeySpec};
use crate::execute::steps::{Steps, at_once};

/// Cells of the table that take as long as an element of a collection.
const CELLS: usize = 16;
/// Their bytes.
const CELLS_BYTES: usize = CELLS * size_of::<u32>();
/// Cells between two looks at the time of a step.
const CELLS_AT_ONCE: usize = 4096;

/// The rows of this family.
pub(super) const COMMANDS: &[Command] =
    &[row("lcs", -3, Flags::READONLY, "7.0.0", "Finds the longest common subsequence of two strings.", lcs)
        .keys(&[KeySpec::range(1, 1, 1, &["RO", "access"])])
        .complexity("O(N*M) for strings of N and M bytes")];

#[derive(Default)]
struct Options {
    only_len: bool,
    ranges: bool,
    with_match_len: bool,
    match_len_min: u64,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"len") {
                options.only_len = true;
            } else if word.eq_ignore_ascii_case(b"idx") {
                options.ranges = true;
            } else if word.eq_ignore_ascii_case(b"withmatchlen") {
                options.with_match_len = true;
            } else if word.eq_ignore_ascii_case(b"minmatchlen") {
                let len = parse::integer(words.next().ok_or(CommandError::Syntax)?)?;
                options.match_len_min = len.max(0) as u64;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if options.only_len && options.ranges {
            const AMBIGUOUS: &str = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(CommandError::text(AMBIGUOUS));
        }
        Ok(options)
    }
}

fn lcs<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>) -> Result<(), CommandError> {
    const NO_STRINGS: CommandError = CommandError::text("ERR The specified keys must contain string values");
    const TOO_LARGE: &str = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
    let entry = |key| cx.entry_of(key, Kind::String).map_err(|_| NO_STRINGS);
    let (a, b) = (entry(args.at(1))?, entry(args.at(2))?);
    let entries = [a, b];
    let [a, b] = entries.map(string_of);
    let options = Options::parse(args.tail(3))?;
    let table_bytes = (a.len() as u64 + 1) * (b.len() as u64 + 1) * 4;
    if table_bytes > cx.server.live.proto_max_bulk_len() {
        return Err(CommandError::text(TOO_LARGE));
    }
    if cx.is_long(table_bytes as usize / CELLS_BYTES, 0) {
        let copies = entries.map(|entry| entry.map(|entry| cx.keys.copy(entry)));
        cx.run_in_steps(usize::MAX, async move |steps| {
            let [a, b] = [&copies[0], &copies[1]].map(|copy| string_of(copy.as_deref()).to_bytes());
            let found = Found::find(&steps, &a, &b, &options).await;
            steps.reply(|reply| found.write(reply, &options));
            Ok(())
        });
        return Ok(());
    }
    let (a, b) = (&a.to_bytes()[..], &b.to_bytes()[..]);
    at_once(async |steps| Found::find(steps, a, b, &options).await).write(&mut cx.reply, &options);
    Ok(())
}

/// The string of an entry; the empty one if there is none.
fn string_of(entry: Option<&Entry>) -> StringRef<'_> {
    entry.and_then(|entry| entry.value().bytes()).unwrap_or_default()
}

/// The answer to a request.
enum Found {
    /// The length.
    Len(u32),
    /// The bytes.
    Common(Vec<u8>),
    /// The ranges, the last one first, and the length of all.
    Ranges(Vec<Run>, u32),
}

impl Found {
    async fn find(steps: &Steps, a: &[u8], b: &[u8], options: &Options) -> Found {
        if options.only_len {
            return Found::Len(len(steps, a, b).await);
        }
        let table = Table::new(steps, a, b).await;
        let runs = table.runs(steps).await;
        if options.ranges {
            return Found::Ranges(runs, table.at(a.len(), b.len()));
        }
        Found::Common(runs.iter().rev().flat_map(|run| &a[run.a..run.a + run.len]).copied().collect())
    }

    fn write(&self, reply: &mut Writer<'_>, options: &Options) {
        match self {
            Found::Len(len) => reply.integer(i64::from(*len)),
            Found::Common(bytes) => reply.bulk(bytes),
            Found::Ranges(runs, len) => reply_ranges(reply, options, runs, *len),
        }
    }
}

fn reply_ranges(reply: &mut Writer<'_>, options: &Options, runs: &[Run], len: u32) {
    let is_long_enough = |run: &&Run| run.len as u64 >= options.match_len_min;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(runs.iter().filter(is_long_enough).count());
    for run in runs.iter().filter(is_long_enough) {
        reply.array(2 + usize::from(options.with_match_len));
        for start in [run.a, run.b] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + run.len - 1) as i64);
        }
        if options.with_match_len {
            reply.integer(run.len as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(len));
}

/// The length of the longest common subsequence, in memory for one string.
async fn len(steps: &Steps, a: &[u8], b: &[u8]) -> u32 {
    let mut row = vec![0u32; b.len() + 1];
    for &byte in a {
        let mut corner = 0;
        for from in (1..row.len()).step_by(CELLS_AT_ONCE) {
            steps.pass(CELLS_AT_ONCE.min(row.len()) / CELLS).await;
            for j in from..row.len().min(from + CELLS_AT_ONCE) {
                let above = row[j];
                row[j] = if byte == b[j - 1] { corner + 1 } else { above.max(row[j - 1]) };
                corner = above;
            }
        }
    }
    row[b.len()]
}

/// Bytes that follow each other in both strings and are part of the common subsequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Where it begins in the first string.
    a: usize,
    /// Where it begins in the second string.
    b: usize,
    len: usize,
}

struct Table<'s> {
    a: &'s [u8],
    b: &'s [u8],
    cells: Vec<u32>,
}

impl<'s> Table<'s> {
    async fn new(steps: &Steps, a: &'s [u8], b: &'s [u8]) -> Table<'s> {
        let width = b.len() + 1;
        let mut cells = vec![0u32; (a.len() + 1) * width];
        for (i, &byte) in a.iter().enumerate() {
            let (above, row) = cells[i * width..(i + 2) * width].split_at_mut(width);
            for from in (1..width).step_by(CELLS_AT_ONCE) {
                steps.pass(CELLS_AT_ONCE.min(width) / CELLS).await;
                for j in from..width.min(from + CELLS_AT_ONCE) {
                    row[j] = if byte == b[j - 1] { above[j - 1] + 1 } else { above[j].max(row[j - 1]) };
                }
            }
        }
        Table { a, b, cells }
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * (self.b.len() + 1) + j]
    }

    /// The runs of one longest common subsequence, the last one first.
    async fn runs(&self, steps: &Steps) -> Vec<Run> {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        let mut runs: Vec<Run> = Vec::new();
        while i > 0 && j > 0 {
            steps.pass(1).await;
            if self.a[i - 1] == self.b[j - 1] {
                (i, j) = (i - 1, j - 1);
                match runs.last_mut() {
                    Some(run) if (run.a, run.b) == (i + 1, j + 1) => {
                        *run = Run { a: i, b: j, len: run.len + 1 }
                    }
                    _ => runs.push(Run { a: i, b: j, len: 1 }),
                }
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(a: &[u8], b: &[u8]) -> Vec<Run> {
        at_once(async |steps| Table::new(steps, a, b).await.runs(steps).await)
    }

    fn common(a: &[u8], b: &[u8]) -> Vec<u8> {
        let runs = runs(a, b);
        runs.iter().rev().flat_map(|run| a[run.a..run.a + run.len].to_vec()).collect()
    }

    fn is_subsequence(short: &[u8], long: &[u8]) -> bool {
        let mut rest = long.iter();
        short.iter().all(|byte| rest.any(|other| other == byte))
    }

    #[test]
    fn runs_of_the_documented_example_come_last_first() {
        let runs = runs(b"ohmytext", b"mynewtext");
        assert_eq!(runs, [Run { a: 4, b: 5, len: 4 }, Run { a: 2, b: 0, len: 2 }]);
        assert_eq!(common(b"ohmytext", b"mynewtext"), b"mytext");
        assert_eq!(common(b"", b"x"), b"");
    }

    proptest! {
        #[test]
        fn the_common_subsequence_is_in_both_and_as_long_as_the_table_says(
            a in "[abc]{0,30}",
            b in "[abc]{0,30}",
        ) {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let found = common(a, b);
            prop_assert!(is_subsequence(&found, a) && is_subsequence(&found, b));
            let len = at_once(async |steps| len(steps, a, b).await);
            prop_assert_eq!(found.len() as u32, len);
            prop_assert_eq!(at_once(async |steps| Table::new(steps, a, b).await).at(a.len(), b.len()), len);
        }
    }
}
