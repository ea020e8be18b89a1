//! Texts that are nearly right.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

/// Words that are wrong, or large, or rare, almost anywhere.
const ODD: &[&str] = &[
    "NULL",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999999999999999999999999",
    "1e308",
    "1e-400",
    "'NaN'",
    "''",
    "'\u{1f980}'",
    "0",
    "-1",
    "*",
    "$1",
    "$99999",
    "DISTINCT",
    "OVER ()",
    "FILTER (WHERE p IS TRUE)",
    "ORDER BY 1",
    "GROUP BY ROLLUP (1)",
    "INTERVAL '1 year'",
    "DATE '2020-02-30'",
    "::text",
    "::numeric(38,10)",
    "::int[]",
    "IS TRUE",
    "NOT",
    "LIKE '%'",
    "BETWEEN",
    "LATERAL",
    "ARRAY[1, NULL]",
    "(VALUES (1), (NULL))",
    "COLLATE \"C\"",
    "\"",
    "'",
    "--",
    "/*",
    ";",
    "\u{0}",
    "E'\\x00'",
    "U&'\\0000'",
    "$$",
];

/// A text in words, strings and signs, each with the blanks after it.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut within = None;
    for c in text.chars() {
        let joins = match (within, tokens.last().and_then(|token: &String| token.chars().next_back())) {
            (Some(_), _) => true,
            (None, Some(last)) => {
                c.is_whitespace()
                    || (c.is_alphanumeric() || c == '_') && (last.is_alphanumeric() || last == '_')
            }
            (None, None) => false,
        };
        match within {
            Some(quote) if quote == c => within = None,
            None if c == '\'' || c == '"' => within = Some(c),
            _ => {}
        }
        match tokens.last_mut() {
            Some(last) if joins => last.push(c),
            _ => tokens.push(c.to_string()),
        }
    }
    tokens
}

/// A text of the corpus with some changes, each small.
pub(crate) fn mutated(rng: &mut SmallRng, text: &str, corpus: &[String]) -> String {
    let mut tokens = tokens(text);
    for _ in 0..rng.random_range(0..4) {
        change(rng, &mut tokens, corpus);
    }
    tokens.concat()
}

fn change(rng: &mut SmallRng, words: &mut Vec<String>, corpus: &[String]) {
    if words.is_empty() {
        return;
    }
    let (at, other) = (rng.random_range(0..words.len()), rng.random_range(0..words.len()));
    match rng.random_range(0..12) {
        0 => words.swap(at, other),
        1 => drop(words.remove(at)),
        2 => words.insert(at, words[other].clone()),
        3 | 4 => words[at] = format!("{} ", ODD.choose(rng).unwrap()),
        5 => words.insert(at, format!("{} ", ODD.choose(rng).unwrap())),
        6 => words[at] = one_of(rng, corpus),
        7 => words.insert(at, one_of(rng, corpus)),
        8 => {
            let (first, last) = (at.min(other), at.max(other));
            let depth = if rng.random_ratio(1, 10) { 2_000 } else { rng.random_range(1..4) };
            words.insert(last + 1, ") ".repeat(depth));
            words.insert(first, "(".repeat(depth));
        }
        9 => {
            let (first, last) = (at.min(other), at.max(other));
            let part = words[first..=last].to_vec();
            words.splice(at..at, part);
        }
        10 => words.truncate(at),
        _ => {
            let noise: String = (0..rng.random_range(1..8)).map(|_| char::from(rng.random::<u8>())).collect();
            words.insert(at, noise);
        }
    }
}

/// A word of any text.
fn one_of(rng: &mut SmallRng, corpus: &[String]) -> String {
    let other = tokens(corpus.choose(rng).unwrap());
    other.choose(rng).cloned().unwrap_or_default()
}
