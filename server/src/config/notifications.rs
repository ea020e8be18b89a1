//! The classes of keyspace events that are published: `notify-keyspace-events`.

use std::fmt;

use super::error::ValueError;
use super::kinds::{Phase, Stored};
use super::shape::Value;

/// Classes of keyspace events, and the channels that they come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventClasses(pub u32);

impl EventClasses {
    /// `K`: each key has a channel, whose messages are events.
    pub const KEYSPACE: EventClasses = EventClasses(1);
    /// `E`: each event has a channel, whose messages are keys.
    pub const KEYEVENT: EventClasses = EventClasses(1 << 1);
    /// `g`: commands of all types of values.
    pub const GENERIC: EventClasses = EventClasses(1 << 2);
    /// `$`: strings.
    pub const STRING: EventClasses = EventClasses(1 << 3);
    /// `l`: lists.
    pub const LIST: EventClasses = EventClasses(1 << 4);
    /// `s`: sets.
    pub const SET: EventClasses = EventClasses(1 << 5);
    /// `h`: hashes.
    pub const HASH: EventClasses = EventClasses(1 << 6);
    /// `z`: sorted sets.
    pub const ZSET: EventClasses = EventClasses(1 << 7);
    /// `x`: keys that expire.
    pub const EXPIRED: EventClasses = EventClasses(1 << 8);
    /// `e`: keys that are evicted.
    pub const EVICTED: EventClasses = EventClasses(1 << 9);
    /// `t`: streams.
    pub const STREAM: EventClasses = EventClasses(1 << 10);
    /// `m`: reads of keys that are missing.
    pub const KEY_MISS: EventClasses = EventClasses(1 << 11);
    /// `d`: types of modules, such as JSON documents.
    pub const MODULE: EventClasses = EventClasses(1 << 12);
    /// `n`: keys that are new.
    pub const NEW: EventClasses = EventClasses(1 << 13);

    /// The classes that `A` stands for.
    const ALL: EventClasses = EventClasses(0b1_0111_1111_1100);
    /// The letters, in the order in which `CONFIG GET` has them.
    const LETTERS: [(u8, EventClasses); 14] = [
        (b'g', Self::GENERIC),
        (b'$', Self::STRING),
        (b'l', Self::LIST),
        (b's', Self::SET),
        (b'h', Self::HASH),
        (b'z', Self::ZSET),
        (b'x', Self::EXPIRED),
        (b'e', Self::EVICTED),
        (b't', Self::STREAM),
        (b'd', Self::MODULE),
        (b'n', Self::NEW),
        (b'K', Self::KEYSPACE),
        (b'E', Self::KEYEVENT),
        (b'm', Self::KEY_MISS),
    ];

    /// Whether a class of `other` is among them.
    #[inline]
    pub const fn has(self, other: EventClasses) -> bool {
        self.0 & other.0 != 0
    }

    fn parse(text: &[u8]) -> Option<EventClasses> {
        text.iter().try_fold(EventClasses(0), |classes, letter| {
            let named = Self::LETTERS.iter().find(|(known, _)| known == letter).map(|(_, class)| *class);
            let class = if *letter == b'A' { Some(Self::ALL) } else { named };
            class.map(|class| EventClasses(classes.0 | class.0))
        })
    }
}

impl fmt::Display for EventClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_all = self.0 & Self::ALL.0 == Self::ALL.0;
        if has_all {
            f.write_str("A")?;
        }
        // Redis hides the class of new keys behind `A`, too, and forgets it when the file is rewritten.
        let hidden = if has_all { Self::ALL } else { EventClasses(0) };
        for (letter, class) in Self::LETTERS {
            if self.has(class) && !hidden.has(class) {
                write!(f, "{}", char::from(letter))?;
            }
        }
        Ok(())
    }
}

impl Stored for EventClasses {
    fn to_value(&self) -> Value {
        Value::Text(self.to_string().into_bytes())
    }

    fn store(&mut self, value: Value, _: Phase) -> Result<(), ValueError> {
        let Value::Text(text) = value else { return Err(ValueError::ArgumentCount) };
        *self = Self::parse(&text).ok_or(ValueError::EventClass)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_are_shown_in_one_order_and_a_stands_for_most() {
        for (text, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("g$lshzxetdKE", "AKE"),
            ("mKExA", "AKEm"),
            ("KEn", "nKE"),
            ("nA", "An"),
        ] {
            let classes = EventClasses::parse(text.as_bytes()).map(|classes| classes.to_string());
            assert_eq!(classes.as_deref(), Some(shown), "{text}");
        }
        assert_eq!(EventClasses::parse(b"KQ"), None);
    }
}
