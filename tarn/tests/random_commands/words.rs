//! Random requests: a command of the table, or no command at all, with words that may or may not fit it.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use tarn_resp::encode_command;

/// A request, word by word.
pub(crate) type Words = Vec<Vec<u8>>;

/// The options that a command may take somewhere.
const OPTIONS: &str = "NX XX GT LT CH INCR GET SET EX PX EXAT PXAT KEEPTTL PERSIST LIMIT WITHSCORES \
    WITHVALUES WITHSCORE BY ASC DESC ALPHA STORE COUNT MATCH TYPE REV BYSCORE BYLEX \
    WEIGHTS AGGREGATE SUM MIN MAX LEFT RIGHT BEFORE AFTER RANK MAXLEN IDX LEN \
    MINMATCHLEN WITHMATCHLEN AND OR XOR NOT BIT BYTE OVERFLOW WRAP SAT FAIL INCRBY u8 \
    i16 REPLACE ABSTTL IDLETIME FREQ DB ASYNC SYNC HELP ENCODING REFCOUNT USAGE SAMPLES \
    - + [a (b (1 +inf -inf inf nan FIELDS FNX FXX PATH";

/// Numbers at the limits of valid ones.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "5",
    "10",
    "100",
    "0.5",
    "-1.5",
    "1e3",
    "3.0",
    " 1",
    "01",
    "1 ",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "4294967296",
    "1e400",
    "0x10",
    "",
];

const KEYS: &[&str] = &["s", "n", "h", "l", "t", "z", "j", "none", "other", "k{1}", "k{2}"];
const ELEMENTS: &[&str] =
    &["a", "b", "c", "d", "*", "a*", "[ab]", "field", "value", "$", "$.a", "{\"a\":1}", "\u{0}"];

/// Requests that make the state that random ones find.
pub(crate) const BEGINNING: &[&[&str]] = &[
    &["SET", "s", "hello"],
    &["SET", "n", "42"],
    &["HSET", "h", "a", "1", "b", "two", "c", "3.5"],
    &["RPUSH", "l", "a", "b", "c", "a"],
    &["SADD", "t", "a", "b", "3"],
    &["ZADD", "z", "1", "a", "2", "b", "3", "c"],
    &["SET", "k{1}", "x"],
];

/// A word that fits anywhere or nowhere.
fn word(rng: &mut SmallRng) -> Vec<u8> {
    let one_of = |rng: &mut SmallRng, pool: &[&str]| pool.choose(rng).unwrap().as_bytes().to_vec();
    let word = match rng.random_range(0..100) {
        0..40 => one_of(rng, KEYS),
        40..60 => one_of(rng, NUMBERS),
        60..80 => one_of(rng, ELEMENTS),
        80..98 => one_of(rng, &OPTIONS.split(' ').collect::<Vec<_>>()),
        _ => return (0..rng.random_range(0..40)).map(|_| rng.random()).collect(),
    };
    if rng.random_ratio(1, 20) { word.to_ascii_lowercase() } else { word }
}

/// The server's description of a command.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub name: String,
    /// The number of words, negative for a minimum.
    pub arity: i64,
    /// The place of the first key, 0 if there is none that has a place.
    pub first_key: i64,
}

/// A request for one of these commands, or for none.
pub(crate) fn request(rng: &mut SmallRng, commands: &[Known]) -> Words {
    if rng.random_ratio(1, 50) {
        return (0..rng.random_range(1..4)).map(|_| word(rng)).map(printable).collect();
    }
    let command = commands.choose(rng).unwrap();
    let least = command.arity.unsigned_abs() as usize;
    let count = match rng.random_range(0..20) {
        0 => rng.random_range(1..least + 3),
        _ if command.arity > 0 => least,
        _ => least + [0, 0, 1, 1, 2, 2, 3, 4, 6].choose(rng).unwrap(),
    };
    let mut words: Words = command.name.split('|').map(|part| part.as_bytes().to_vec()).collect();
    while words.len() < count {
        let is_key = words.len() as i64 == command.first_key && rng.random_ratio(9, 10);
        words.push(if is_key { KEYS.choose(rng).unwrap().as_bytes().to_vec() } else { word(rng) });
    }
    words
}

/// The error quotes a name that is no command; unprintable bytes in it are another matter.
fn printable(word: Vec<u8>) -> Vec<u8> {
    let mut word: Vec<u8> =
        word.into_iter().map(|byte| if byte.is_ascii_graphic() { byte } else { b'_' }).collect();
    if word.is_empty() {
        word.push(b'x');
    }
    word
}

/// A request on the wire.
pub(crate) fn encode(words: &Words, out: &mut Vec<u8>) {
    encode_command(out, words);
}

/// A request as a person would type it.
pub(crate) fn show(words: &Words) -> String {
    words.iter().map(|word| format!("\"{}\"", word.escape_ascii())).collect::<Vec<_>>().join(" ")
}
