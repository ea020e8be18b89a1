//! The shapes a directive's value can have: what each accepts, refuses (in Redis's words) and prints.

use super::args::split_args;
use super::error::ValueError;

/// A value that fits its directive's shape, on the way between text and the typed field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `yes` or `no`.
    Bool(bool),
    /// A number, or bytes of memory.
    Int(i64),
    /// The index of a name in the shape's list.
    Choice(usize),
    /// Any bytes.
    Text(Vec<u8>),
    /// Several words.
    List(Vec<Vec<u8>>),
}

/// The texts that a directive takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `yes` or `no`, in any case.
    Bool,
    /// A decimal integer from `min` to `max`.
    Int {
        /// The smallest value allowed.
        min: i64,
        /// The largest value allowed.
        max: i64,
    },
    /// File permissions, as an octal number up to 777.
    Octal,
    /// Bytes, with an optional unit: `b k kb m mb g gb` (`k` is 1000, `kb` 1024), from `min` to `max`.
    Memory {
        /// The smallest value allowed.
        min: i64,
        /// The largest value allowed.
        max: i64,
    },
    /// Bytes as in `Memory`, or `0%` to `100%`.
    MemoryOrPercent,
    /// One of these names, in any case.
    Choice(&'static [&'static str]),
    /// One of these names, in any case, or a former name of one.
    RenamedChoice {
        /// The names, in order.
        names: &'static [&'static str],
        /// Former names, each with the name that has taken its place.
        former: &'static [(&'static str, &'static str)],
    },
    /// One or more of these names.
    Flags(&'static [&'static str]),
    /// One word of any bytes.
    Text,
    /// Several words; what they mean is up to the field. One quoted word may hold them all, parted at spaces.
    List,
    /// Several paths, which may have spaces in them.
    Paths,
}

impl Shape {
    /// Whether a line of this directive may have more than one value.
    pub fn takes_many(&self) -> bool {
        matches!(self, Self::List | Self::Paths | Self::Flags(_))
    }

    /// Reads the words that follow the directive's name.
    pub fn read(&self, words: &[Vec<u8>]) -> Result<Value, ValueError> {
        match (self, words) {
            // One empty word, as in `save ""`, stands for no words.
            (Self::List | Self::Paths, [word]) if word.is_empty() => Ok(Value::List(Vec::new())),
            (Self::List | Self::Flags(_), [word]) if word.contains(&b' ') => self.read_text(word),
            (Self::List | Self::Paths, words) => Ok(Value::List(words.to_vec())),
            (Self::Flags(names), words) => read_flags(words, names),
            (shape, [word]) => shape.read_word(word),
            _ => Err(ValueError::ArgumentCount),
        }
    }

    /// Reads a value of one word.
    fn read_word(&self, word: &[u8]) -> Result<Value, ValueError> {
        match self {
            Self::Bool => read_bool(word).map(Value::Bool),
            Self::Int { min, max } => {
                within(parse_integer(word).ok_or(ValueError::NotInteger)?, *min, *max).map(Value::Int)
            }
            Self::Octal => read_octal(word).map(Value::Int),
            Self::Memory { min, max } => {
                let bytes = parse_memory(word).ok_or(ValueError::NotMemory)?;
                // What no i64 holds is beyond any range.
                i64::try_from(bytes)
                    .map_err(|_| ValueError::OutOfRange { min: *min, max: *max })
                    .and_then(|bytes| within(bytes, *min, *max))
                    .map(Value::Int)
            }
            Self::MemoryOrPercent => read_memory_or_percent(word),
            Self::Choice(names) => position(names, word).map(Value::Choice),
            Self::RenamedChoice { names, former } => {
                let renamed = former.iter().find(|(old, _)| old.as_bytes().eq_ignore_ascii_case(word));
                position(names, renamed.map_or(word, |(_, name)| name.as_bytes())).map(Value::Choice)
            }
            Self::Text => Ok(Value::Text(word.to_vec())),
            Self::List | Self::Paths | Self::Flags(_) => self.read(&[word.to_vec()]),
        }
    }

    /// Reads the one text that `CONFIG SET` gives: lists are parted at single spaces, the rest is taken
    /// whole.
    pub fn read_text(&self, text: &[u8]) -> Result<Value, ValueError> {
        if !self.takes_many() {
            return self.read(&[text.to_vec()]);
        }
        let words = match text {
            b"" => vec![Vec::new()],
            _ => text.split(|&b| b == b' ').map(<[u8]>::to_vec).collect(),
        };
        self.read(&words)
    }

    /// Reads a default, which the tables give in the syntax of a file.
    pub(super) fn read_default(&self, text: &str) -> Result<Value, ValueError> {
        if self.takes_many() {
            return self.read(&split_args(text.as_bytes()).unwrap_or_default());
        }
        self.read(&[text.as_bytes().to_vec()])
    }

    /// The text that `CONFIG GET` answers with.
    pub fn print(&self, value: &Value) -> Vec<u8> {
        match (self, value) {
            (Self::Octal, Value::Int(n)) => format!("{n:o}").into_bytes(),
            (Self::Choice(names) | Self::RenamedChoice { names, .. }, Value::Choice(i)) => {
                names.get(*i).unwrap_or(&"").as_bytes().to_vec()
            }
            (_, Value::Bool(b)) => {
                if *b {
                    b"yes".to_vec()
                } else {
                    b"no".to_vec()
                }
            }
            (_, Value::Int(n)) => n.to_string().into_bytes(),
            (_, Value::Choice(i)) => i.to_string().into_bytes(),
            (_, Value::Text(text)) => text.clone(),
            (_, Value::List(words)) => words.join(&b' '),
        }
    }
}

/// Reads a decimal integer the strict way: no plus sign, no leading zeros, no space.
pub(super) fn parse_integer(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let well_formed = digits.bytes().all(|b| b.is_ascii_digit()) && (!digits.starts_with('0') || text == "0");
    if well_formed { text.parse().ok() } else { None }
}

/// Reads a number of bytes with an optional unit; what does not fit is `u64::MAX`.
pub(crate) fn parse_memory(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    if digits.is_empty() {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX).saturating_mul(factor))
}

fn within(n: i64, min: i64, max: i64) -> Result<i64, ValueError> {
    if (min..=max).contains(&n) { Ok(n) } else { Err(ValueError::OutOfRange { min, max }) }
}

fn read_bool(word: &[u8]) -> Result<bool, ValueError> {
    match word.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(ValueError::NotBool),
    }
}

fn read_octal(word: &[u8]) -> Result<i64, ValueError> {
    let text = std::str::from_utf8(word).map_err(|_| ValueError::NotOctal)?;
    let n = i64::from_str_radix(text, 8).map_err(|_| ValueError::NotOctal)?;
    within(n, 0, 0o777)
}

fn read_memory_or_percent(word: &[u8]) -> Result<Value, ValueError> {
    let Some(number) = word.strip_suffix(b"%") else {
        let bytes = parse_memory(word).ok_or(ValueError::NotMemoryOrPercent)?;
        // As in Redis, which has percents below 0, where such a number comes to be, too.
        let bytes = i64::try_from(bytes).map_err(|_| ValueError::PercentTooLarge)?;
        return Ok(Value::Text(bytes.to_string().into_bytes()));
    };
    match parse_integer(number) {
        Some(0..=100) => Ok(Value::Text(word.to_vec())),
        Some(101..) => Err(ValueError::PercentTooLarge),
        _ => Err(ValueError::NotMemoryOrPercent),
    }
}

fn position(names: &'static [&'static str], word: &[u8]) -> Result<usize, ValueError> {
    let same = |name: &&str| name.as_bytes().eq_ignore_ascii_case(word);
    names.iter().position(same).ok_or(ValueError::NotChoice { names })
}

/// The flags in the order of their names, each once.
fn read_flags(words: &[Vec<u8>], names: &'static [&'static str]) -> Result<Value, ValueError> {
    if words.is_empty() {
        return Err(ValueError::ArgumentCount);
    }
    let mut given = words.iter().map(|word| position(names, word)).collect::<Result<Vec<_>, _>>()?;
    given.sort_unstable();
    given.dedup();
    Ok(Value::List(given.into_iter().map(|i| names[i].as_bytes().to_vec()).collect()))
}
