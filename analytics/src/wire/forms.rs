//! Checks that the body of a message has all its parts. The library that reads messages assumes that it has:
//! it panics if one ends too early, and takes the missing part from the next message.
//!
//! ```text
//!   Bind:  | text 0 | text 0 | count: 2 | 2 each | count: 2 | length: 4, bytes, each | count: 2 | 2 each |
//! ```
//!
//! A body is checked as it arrives, in pieces of any size, and nothing of it is stored.

use std::slice::Iter;

/// A part of a body.
#[derive(Clone, Copy, Debug)]
enum Part {
    Byte,
    /// Four bytes.
    Number,
    /// Up to a NUL.
    Text,
    /// Two texts each, until the first of them is empty.
    Pairs,
    /// A count, and two bytes each.
    Words,
    /// A count, and four bytes each.
    Numbers,
    /// A count, and a value each.
    Values,
    /// A length, and as many bytes; -1 for none.
    Value,
    /// Whatever it is.
    Rest,
}

/// Where a body is.
#[derive(Clone, Copy, Debug)]
enum State {
    /// A part begins.
    Between,
    Text,
    /// The first of two texts; whether it is empty so far.
    Key(bool),
    /// The second.
    Paired,
    /// This many bytes are to come, with any contents.
    Skip(usize),
    /// A count, and the parts that it counts: how many of its bytes have come, and its value so far.
    Count(Part, usize, usize),
    /// The length of a value, as a count.
    Length(usize, u32),
    Rest,
}

/// A body that is being looked at.
#[derive(Debug)]
pub(super) struct Form {
    parts: Iter<'static, Part>,
    state: State,
    /// Values that are still to come.
    values: usize,
}

/// The kind of a message, by its head.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// The start of a connection, by its version.
    Start(u32),
    /// A wish that another connection's statement ends.
    Cancel,
    /// The first answer to a question for a password, which names a way to prove it.
    Proof,
    /// The same, if the password itself is wanted.
    Password,
    /// Any other message, by its type.
    Of(u8),
}

impl Form {
    /// The form of a message; `None`: there is no such message.
    pub(super) fn of(kind: Kind) -> Option<Form> {
        use Part::{Byte, Number, Numbers, Pairs, Rest, Text, Value, Values, Words};
        let parts: &'static [Part] = match kind {
            // Other versions are refused by their numbers.
            Kind::Start(version) if version >> 16 != 3 => &[Rest],
            Kind::Start(_) => &[Pairs],
            // Secrets may be longer in newer versions.
            Kind::Cancel => &[Number, Number, Rest],
            Kind::Proof => &[Text, Value],
            Kind::Password | Kind::Of(b'Q' | b'f') => &[Text],
            Kind::Of(b'P') => &[Text, Text, Numbers],
            Kind::Of(b'B') => &[Text, Text, Words, Values, Words],
            Kind::Of(b'C' | b'D') => &[Byte, Text],
            Kind::Of(b'E') => &[Text, Number],
            Kind::Of(b'H' | b'S' | b'X' | b'c') => &[],
            Kind::Of(b'd' | b'p') => &[Rest],
            Kind::Of(_) => return None,
        };
        Some(Form { parts: parts.iter(), state: State::Between, values: 0 })
    }

    /// Looks at the next bytes of the body; `false` if they do not fit.
    pub(super) fn look(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let (state, used) = match (self.state, bytes.first()) {
                (State::Between, _) => match self.next() {
                    Some(state) => (state, 0),
                    None => return bytes.is_empty(),
                },
                (State::Skip(0), _) => (State::Between, 0),
                (State::Rest, _) | (_, None) => return true,
                (State::Skip(left), _) => {
                    let used = left.min(bytes.len());
                    (State::Skip(left - used), used)
                }
                (State::Key(true), Some(0)) => (State::Between, 1),
                (State::Text | State::Key(_) | State::Paired, _) => self.text(bytes),
                (State::Count(of, have, value), Some(byte)) => {
                    let value = value << 8 | usize::from(*byte);
                    (if have == 1 { self.counted(of, value) } else { State::Count(of, 1, value) }, 1)
                }
                (State::Length(have, value), Some(byte)) => {
                    let value = value << 8 | u32::from(*byte);
                    let state = match (have, value as i32) {
                        (..3, _) => State::Length(have + 1, value),
                        (_, -1) => State::Between,
                        (_, ..-1) => return false,
                        (_, length) => State::Skip(length as usize),
                    };
                    (state, 1)
                }
            };
            self.state = state;
            bytes = &bytes[used..];
        }
    }

    /// Whether all parts have come.
    pub(super) fn is_whole(&mut self) -> bool {
        self.look(&[]) && matches!(self.state, State::Between | State::Rest)
    }

    /// The part that begins after a part; `None` if none does.
    fn next(&mut self) -> Option<State> {
        if self.values > 0 {
            self.values -= 1;
            return Some(State::Length(0, 0));
        }
        Some(match self.parts.next()? {
            Part::Byte => State::Skip(1),
            Part::Number => State::Skip(4),
            Part::Text => State::Text,
            Part::Pairs => State::Key(true),
            Part::Value => State::Length(0, 0),
            Part::Rest => State::Rest,
            counted => State::Count(*counted, 0, 0),
        })
    }

    /// Goes to the end of a text, if it is here.
    fn text(&self, bytes: &[u8]) -> (State, usize) {
        let Some(end) = bytes.iter().position(|byte| *byte == 0) else {
            let state = if let State::Key(_) = self.state { State::Key(false) } else { self.state };
            return (state, bytes.len());
        };
        let state = match self.state {
            State::Key(_) => State::Paired,
            State::Paired => State::Key(true),
            _ => State::Between,
        };
        (state, end + 1)
    }

    fn counted(&mut self, of: Part, count: usize) -> State {
        match of {
            Part::Words => State::Skip(2 * count),
            Part::Numbers => State::Skip(4 * count),
            _ => {
                self.values = count;
                State::Between
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a body is one of this kind, however it is cut.
    fn fits(kind: Kind, body: &[u8]) -> bool {
        let verdicts: Vec<bool> = (1..=body.len().max(1))
            .map(|pieces| {
                let mut form = Form::of(kind).expect("it is a kind");
                body.chunks(pieces).all(|piece| form.look(piece)) && form.is_whole()
            })
            .collect();
        assert!(verdicts.iter().all(|fits| *fits == verdicts[0]), "{}", body.escape_ascii());
        verdicts[0]
    }

    fn bind(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = b"portal\0statement\0\0\x02\0\x01\0\0".to_vec();
        body.extend((values.len() as u16).to_be_bytes());
        for value in values {
            body.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
            body.extend(value.unwrap_or_default());
        }
        body.extend(b"\0\x01\0\0");
        body
    }

    #[test]
    fn a_body_fits_whole_and_neither_longer_nor_shorter() {
        let wholes: [(Kind, Vec<u8>); 13] = [
            (Kind::Start(196_608), b"user\0default\0database\0\0\0".to_vec()),
            (Kind::Start(196_610), b"\0".to_vec()),
            (Kind::Proof, b"SCRAM-SHA-256\0\0\0\0\x05n,,n=".to_vec()),
            (Kind::Proof, b"SCRAM-SHA-256\0\xff\xff\xff\xff".to_vec()),
            (Kind::Password, b"secret\0".to_vec()),
            (Kind::Of(b'Q'), b"SELECT 1\0".to_vec()),
            (Kind::Of(b'P'), b"\0SELECT $1\0\0\x01\0\0\0\x17".to_vec()),
            (Kind::Of(b'B'), bind(&[Some(b"7"), None, Some(b"")])),
            (Kind::Of(b'B'), bind(&[])),
            (Kind::Of(b'D'), b"Sname\0".to_vec()),
            (Kind::Of(b'E'), b"\0\0\0\0\x02".to_vec()),
            (Kind::Of(b'S'), Vec::new()),
            (Kind::Of(b'f'), b"no\0".to_vec()),
        ];
        for (kind, body) in wholes {
            assert!(fits(kind, &body), "{kind:?}");
            assert!(!fits(kind, &[&body[..], b"\0"].concat()), "{kind:?}");
            (0..body.len()).for_each(|end| assert!(!fits(kind, &body[..end]), "{kind:?} {end}"));
        }
    }

    #[test]
    fn what_has_no_form_fits_in_any() {
        for kind in [Kind::Of(b'd'), Kind::Of(b'p'), Kind::Start(131_072)] {
            assert!(fits(kind, b"") && fits(kind, b"\0\x01anything"), "{kind:?}");
        }
        assert!(fits(Kind::Cancel, &[1; 8]) && fits(Kind::Cancel, &[1; 40]) && !fits(Kind::Cancel, &[1; 7]));
        assert!(Form::of(Kind::Of(b'!')).is_none());
    }

    #[test]
    fn counts_and_lengths_that_the_body_does_not_have_do_not_fit() {
        let mut body = bind(&[Some(b"7")]);
        let length = body.len() - 9;
        for wrong in [i32::MAX, i32::MIN, -2, 2, 0, 65_537] {
            body[length..length + 4].copy_from_slice(&wrong.to_be_bytes());
            assert!(!fits(Kind::Of(b'B'), &body), "{wrong}");
        }
        assert!(!fits(Kind::Of(b'P'), b"\0SELECT 1\0\xff\xff"));
    }
}
