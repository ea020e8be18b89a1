//! Requests, encoded once and patched in place: the parts that change have a fixed width.
//!
//! ```text
//! *3\r\n$3\r\nSET\r\n$16\r\nkey:000000004711\r\n$64\r\n....64 random letters....\r\n
//!                          key ^^^^^^^^^^^^        value ^^^^^^
//! ```
//!
//! So appending a request is one copy and a few digits, far less than the work of a server to read it.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::time::{ClockId, clock_gettime};
use tarn_resp::encode_command;

use super::keys::{KeyChoice, Keys, below, scatter};

/// Values are windows into a pool of this many random letters. It is large enough that a compressed log of a
/// server finds few of them twice, and small enough to stay in the processor's cache.
const POOL_BYTES: usize = 256 << 10;

/// One argument of a request.
#[derive(Debug, Clone, Copy)]
pub enum Arg {
    /// The same in every request.
    Text(&'static str),
    /// A key: the prefix, then the key's number in this many digits.
    Key {
        /// The text before the digits.
        prefix: &'static str,
        /// The number of digits.
        digits: usize,
        /// True if the number is scattered first, as YCSB does (19 digits hold any scattered number).
        scattered: bool,
    },
    /// This many random letters.
    Value(usize),
    /// A number of a second, uniform choice: the member of a set, the field of a hash, a score.
    Number {
        /// The text before the digits.
        prefix: &'static str,
        /// The number of digits.
        digits: usize,
        /// The numbers are below this.
        below: u64,
    },
    /// A number that follows from that of the key.
    Derived {
        /// The text before the digits.
        prefix: &'static str,
        /// The number of digits.
        digits: usize,
        /// The number, of the key's.
        of: fn(u64) -> u64,
    },
    /// A whole number that follows from that of the key, in eleven characters.
    Signed(fn(u64) -> i32),
    /// The number of the connection that sends the request, from 0 on in each group.
    Connection {
        /// The text before the digits.
        prefix: &'static str,
        /// The number of digits.
        digits: usize,
    },
    /// A number of 19 digits, one more in each request of a group, and greater than in all requests of loads
    /// before. Parts of a joined request have the same.
    Turn,
    /// The same whole number in every request.
    Same(u64),
}

/// Characters of a whole number of 32 bits: its sign, or a zero, and ten digits.
const SIGNED_WIDTH: usize = 11;
/// Digits of [`Arg::Turn`].
const TURN_WIDTH: usize = 19;
/// No turn is less, so that all have these digits.
const TURN_MIN: u64 = 1_000_000_000_000_000_000;

/// The numbers with which a request is filled, but for those that are drawn.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    key: u64,
    connection: u64,
    turn: u64,
}

/// A request with its places to patch.
#[derive(Debug, Clone)]
pub struct Request {
    template: Vec<u8>,
    /// Where arguments that change begin and end.
    slots: Vec<(usize, usize, Arg)>,
    /// Replies that it gets.
    replies: u32,
    is_tallied: bool,
}

/// A key as the requests of this generator write it.
pub fn key_text(prefix: &str, digits: usize, scattered: bool, number: u64) -> String {
    let number = if scattered { scatter(number) } else { number };
    format!("{prefix}{number:0digits$}")
}

impl Request {
    /// Encodes a request.
    pub fn new(arguments: &[Arg]) -> Request {
        let texts: Vec<String> = arguments
            .iter()
            .map(|argument| match argument {
                Arg::Text(text) => (*text).to_owned(),
                Arg::Key { prefix, digits, .. }
                | Arg::Number { prefix, digits, .. }
                | Arg::Derived { prefix, digits, .. }
                | Arg::Connection { prefix, digits } => {
                    format!("{prefix}{:0>digits$}", "")
                }
                Arg::Value(length) => "x".repeat(*length),
                Arg::Signed(_) => "x".repeat(SIGNED_WIDTH),
                Arg::Turn => "x".repeat(TURN_WIDTH),
                Arg::Same(number) => number.to_string(),
            })
            .collect();
        let mut template = Vec::new();
        encode_command(&mut template, &texts);
        // An argument ends two bytes (its line end) before the next begins with `$`, its length and a line
        // end.
        let mut slots = Vec::new();
        let mut end = format!("*{}\r\n", arguments.len()).len();
        for (argument, text) in arguments.iter().zip(&texts) {
            end += format!("${}\r\n", text.len()).len() + text.len();
            let width = match *argument {
                Arg::Text(_) | Arg::Same(_) => 0,
                Arg::Value(length) => length,
                Arg::Signed(_) => SIGNED_WIDTH,
                Arg::Turn => TURN_WIDTH,
                Arg::Key { digits, .. }
                | Arg::Number { digits, .. }
                | Arg::Derived { digits, .. }
                | Arg::Connection { digits, .. } => digits,
            };
            slots.extend((width > 0).then_some((end - width, end, *argument)));
            end += 2;
        }
        debug_assert_eq!(end, template.len(), "the walk over the arguments covers the template");
        Request { template, slots, replies: 1, is_tallied: false }
    }

    /// Several requests that are sent together, and count as one when all of their replies are there.
    pub fn joined(parts: &[Request]) -> Request {
        let mut whole = Request { template: Vec::new(), slots: Vec::new(), replies: 0, is_tallied: false };
        for part in parts {
            let start = whole.template.len();
            whole.template.extend_from_slice(&part.template);
            whole.slots.extend(part.slots.iter().map(|&(from, to, own)| (start + from, start + to, own)));
            whole.replies += part.replies;
        }
        whole
    }

    /// The same request, counted by key in the tally of a load that keeps one.
    pub fn tallied(self) -> Request {
        Request { is_tallied: true, ..self }
    }

    #[inline]
    fn append(&self, out: &mut Vec<u8>, numbers: Numbers, pool: &[u8], rng: &mut SmallRng) {
        let Numbers { key, connection, turn } = numbers;
        let start = out.len();
        out.extend_from_slice(&self.template);
        let request = &mut out[start..];
        for &(from, to, argument) in &self.slots {
            let place = &mut request[from..to];
            match argument {
                Arg::Text(_) | Arg::Same(_) => {}
                Arg::Key { scattered, .. } => write_digits(place, if scattered { scatter(key) } else { key }),
                Arg::Value(length) => {
                    let at = below(rng, (pool.len() - length) as u64) as usize;
                    place.copy_from_slice(&pool[at..at + length]);
                }
                Arg::Number { below: limit, .. } => write_digits(place, below(rng, limit)),
                Arg::Derived { of, .. } => write_digits(place, of(key)),
                Arg::Signed(of) => {
                    let number = of(key);
                    write_digits(place, u64::from(number.unsigned_abs()));
                    if number < 0 {
                        place[0] = b'-';
                    }
                }
                Arg::Connection { .. } => write_digits(place, connection),
                Arg::Turn => write_digits(place, turn),
            }
        }
    }
}

/// Fills `place` with the lowest decimal digits of `number`, two at a time.
#[inline]
fn write_digits(place: &mut [u8], mut number: u64) {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut number = 0;
        while number < 100 {
            pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            number += 1;
        }
        pairs
    };
    let mut pairs = place.rchunks_exact_mut(2);
    for pair in &mut pairs {
        pair.copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if let [digit] = pairs.into_remainder() {
        *digit = b'0' + (number % 10) as u8;
    }
}

/// Requests with their shares and the choice of their keys.
#[derive(Debug, Clone)]
pub struct Mix {
    requests: Vec<(u64, Request)>,
    keys: Keys,
}

impl Mix {
    /// One request only.
    pub fn of(request: Request, keys: Keys) -> Mix {
        Mix { requests: vec![(1, request)], keys }
    }

    /// One request for each of so many keys, one after the other.
    pub fn in_order(request: Request, keys: u64) -> Mix {
        Mix::of(request, Keys::new(KeyChoice::Sequential, keys))
    }

    /// Several requests, each with its weight. REQUIRES: all get the same number of replies.
    pub fn weighted(parts: &[(u64, Request)], keys: Keys) -> Mix {
        assert!(parts.iter().map(|part| part.0).sum::<u64>() > 0, "a mix has a part with a weight");
        let same = parts.iter().all(|(_, own)| own.replies == parts[0].1.replies);
        assert!(same, "requests of a mix are counted by their replies");
        Mix { requests: parts.to_vec(), keys }
    }

    /// Replies that each of its requests gets.
    pub(super) fn replies(&self) -> u32 {
        self.requests[0].1.replies
    }

    /// True if it keeps a tally.
    pub(super) fn is_tallied(&self) -> bool {
        self.requests.iter().any(|(_, own)| own.is_tallied)
    }
}

/// A mix at work: it has its random numbers and its pool of values.
#[derive(Debug)]
pub(super) struct Source {
    mix: Mix,
    total_weight: u64,
    pool: Vec<u8>,
    rng: SmallRng,
    /// That of the next request.
    turn: u64,
}

impl Source {
    /// Sets a mix to work. The same seed gives the same requests, but for their turns.
    pub(super) fn new(mix: Mix, seed: u64) -> Source {
        let mut rng = SmallRng::seed_from_u64(seed);
        let pool = (0..POOL_BYTES).map(|_| b'a' + (rng.random::<u8>() % 26)).collect();
        let total_weight = mix.requests.iter().map(|part| part.0).sum();
        // A generator makes far less than a request in a nanosecond, and this clock never goes back: later
        // loads begin with greater numbers.
        let now = clock_gettime(ClockId::Monotonic);
        let turn = TURN_MIN + now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs();
        Source { mix, total_weight, pool, rng, turn }
    }

    /// Appends the next request, which a connection with this number sends. Returns the number of its key if
    /// the request is to be tallied.
    #[inline]
    pub(super) fn append(&mut self, out: &mut Vec<u8>, connection: usize) -> Option<u64> {
        let key = self.mix.keys.next(&mut self.rng);
        let numbers = Numbers { key, connection: connection as u64, turn: self.turn };
        self.turn += 1;
        let request = if let [(_, only)] = &self.mix.requests[..] {
            only
        } else {
            let mut draw = below(&mut self.rng, self.total_weight);
            let chosen = self.mix.requests.iter().find(|(weight, _)| match draw.checked_sub(*weight) {
                Some(rest) => {
                    draw = rest;
                    false
                }
                None => true,
            });
            &chosen.expect("the draw is below the sum of the weights").1
        };
        request.append(out, numbers, &self.pool, &mut self.rng);
        request.is_tallied.then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_a_plain_encoder_would_write() {
        let request = Request::new(&[
            Arg::Text("HSET"),
            Arg::Key { prefix: "user", digits: 5, scattered: false },
            Arg::Number { prefix: "field", digits: 1, below: 1 },
            Arg::Value(3),
        ]);
        let mut source = Source::new(Mix::in_order(request, 100), 1);
        let mut out = Vec::new();
        (0..12).for_each(|_| {
            out.clear();
            source.append(&mut out, 0);
        });
        let value = out[out.len() - 5..out.len() - 2].to_vec();
        assert!(value.iter().all(u8::is_ascii_lowercase));
        let mut expected = Vec::new();
        encode_command(&mut expected, &[&b"HSET"[..], b"user00011", b"field0", &value]);
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
    }

    #[test]
    fn joined_requests_are_one_after_the_other() {
        let set = Request::new(&[Arg::Text("SET"), Arg::Key { prefix: "k", digits: 2, scattered: false }]);
        let parts = [Request::new(&[Arg::Text("MULTI")]), set.clone(), set];
        let mix = Mix::in_order(Request::joined(&parts), 10);
        assert_eq!(mix.replies(), 3);
        let mut source = Source::new(mix, 1);
        let mut out = Vec::new();
        (0..2).for_each(|_| _ = source.append(&mut out, 0));
        let of =
            |key| format!("*1\r\n$5\r\nMULTI\r\n{0}{0}", format!("*2\r\n$3\r\nSET\r\n$3\r\nk0{key}\r\n"));
        assert_eq!(String::from_utf8_lossy(&out), of(0) + &of(1));
    }

    #[test]
    fn digits_of_any_width_are_padded_and_cut() {
        for (width, number, text) in
            [(1, 7, "7"), (2, 7, "07"), (3, 1234, "234"), (19, u64::MAX >> 1, "9223372036854775807")]
        {
            let mut place = vec![0; width];
            write_digits(&mut place, number);
            assert_eq!(place, text.as_bytes());
        }
    }

    #[test]
    fn scattered_keys_are_those_that_key_text_names() {
        let request = Request::new(&[Arg::Key { prefix: "user", digits: 19, scattered: true }]);
        let mut source = Source::new(Mix::in_order(request, 2), 1);
        let mut out = Vec::new();
        source.append(&mut out, 0);
        source.append(&mut out, 0);
        let text = String::from_utf8_lossy(&out);
        assert!(
            text.contains(&key_text("user", 19, true, 0)) && text.contains(&key_text("user", 19, true, 1))
        );
    }

    #[test]
    fn derived_numbers_follow_from_the_key() {
        let part = |of: fn(u64) -> u64| Arg::Derived { prefix: "f", digits: 2, of };
        let request = Request::new(&[part(|number| number / 10), part(|number| number % 10)]);
        let mut source = Source::new(Mix::in_order(request, 100), 1);
        let mut out = Vec::new();
        (0..25).for_each(|_| {
            out.clear();
            source.append(&mut out, 0);
        });
        assert_eq!(String::from_utf8_lossy(&out), "*2\r\n$3\r\nf02\r\n$3\r\nf04\r\n");
    }

    #[test]
    fn signed_numbers_have_one_width() {
        let numbers = |key: u64| [0, -7, i32::MAX, i32::MIN][key as usize];
        let mut source = Source::new(Mix::in_order(Request::new(&[Arg::Signed(numbers)]), 4), 1);
        let mut out = Vec::new();
        (0..4).for_each(|_| _ = source.append(&mut out, 0));
        let text = String::from_utf8_lossy(&out);
        let texts: Vec<_> = text.split("\r\n").filter(|line| line.len() == SIGNED_WIDTH).collect();
        assert_eq!(texts, ["00000000000", "-0000000007", "02147483647", "-2147483648"]);
    }

    #[test]
    fn turns_grow_from_request_to_request_and_from_load_to_load() {
        let parts =
            [&[Arg::Connection { prefix: "c", digits: 2 }, Arg::Turn][..], &[Arg::Turn, Arg::Same(70)]];
        let mix = Mix::in_order(Request::joined(&parts.map(Request::new)), 10);
        let mut turns = Vec::new();
        // To make a source takes longer than a nanosecond for each request of the one before.
        for load in 0..2 {
            let mut source = Source::new(mix.clone(), 1);
            for connection in [0, 41] {
                let mut out = Vec::new();
                source.append(&mut out, connection);
                let text = String::from_utf8_lossy(&out);
                let words: Vec<_> = text.split("\r\n").collect();
                let turn = words[4];
                let expected = format!(
                    "*2\r\n$3\r\nc{connection:02}\r\n$19\r\n{turn}\r\n*2\r\n$19\r\n{turn}\r\n$2\r\n70\r\n"
                );
                assert_eq!(text, expected, "load {load}");
                turns.push(turn.parse::<u64>().unwrap_or_default());
            }
        }
        assert!(turns.is_sorted_by(|a, b| a < b), "{turns:?}");
    }

    #[test]
    fn a_mix_keeps_its_shares() {
        let part = |name| Request::new(&[Arg::Text(name)]);
        let mix = Mix::weighted(&[(3, part("GET")), (1, part("SET"))], Keys::new(KeyChoice::Uniform, 1));
        let mut source = Source::new(mix, 5);
        let mut out = Vec::new();
        for _ in 0..10_000 {
            source.append(&mut out, 0);
        }
        let gets = String::from_utf8_lossy(&out).matches("GET").count();
        assert!((7200..7800).contains(&gets), "seed 5: {gets}");
    }
}
