//! Error replies, counted by their texts: what the first one says need not hold for the others.

/// The longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 200;
/// Texts that are told apart. Those that come later are counted together, and as none of these.
const TEXTS_MAX: usize = 16;
/// The text of these.
const OTHERS: &str = "replies with more different texts than are told apart";

/// Error replies by their texts, in the order in which these came first.
///
/// Invariants: the number of texts ≤ `TEXTS_MAX`, and `OTHERS`; each came at least once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    texts: Vec<(String, u64)>,
}

impl Errors {
    /// The number of all.
    pub fn count(&self) -> u64 {
        self.texts().map(|(_, count)| count).sum()
    }

    /// The text of the first one.
    pub fn first(&self) -> Option<&str> {
        self.texts().map(|(text, _)| text).next()
    }

    /// Each text, and how often it came.
    pub fn texts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.texts.iter().map(|(text, count)| (text.as_str(), *count))
    }

    /// Counts replies with the same text.
    pub(crate) fn add(&mut self, reply: &[u8], count: u64) {
        let text = String::from_utf8_lossy(reply[..reply.len().min(TEXT_BYTES_MAX)].trim_ascii());
        let place_of = |text: &str| self.texts.iter().position(|(own, _)| own == text);
        let is_full = self.texts.len() >= TEXTS_MAX;
        let known = place_of(&text).or_else(|| is_full.then(|| place_of(OTHERS)).flatten());
        match known {
            Some(place) => self.texts[place].1 += count,
            None if is_full => self.texts.push((OTHERS.to_owned(), count)),
            None => self.texts.push((text.into_owned(), count)),
        }
    }

    /// Adds the replies of another connection.
    pub(super) fn join(mut self, other: &Errors) -> Errors {
        other.texts().for_each(|(text, count)| self.add(text.as_bytes(), count));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_counted_apart_and_too_many_together() {
        let mut errors = Errors::default();
        assert_eq!((errors.count(), errors.first()), (0, None));
        for reply in ["-OOM no\r\n", "-ERR no\r\n", "-OOM no\r\n"] {
            errors.add(reply.as_bytes(), 1);
        }
        let mut all = errors.clone().join(&errors);
        assert_eq!(all.texts().collect::<Vec<_>>(), [("-OOM no", 4), ("-ERR no", 2)]);
        assert_eq!((all.count(), all.first()), (6, Some("-OOM no")));
        // Also those that are no text, or are cut off within a character.
        (0..2).for_each(|_| all.add(b"-ERR \xff", 1));
        assert_eq!((all.texts().count(), all.count()), (3, 8));
        (0..20).for_each(|number| errors.add(format!("-ERR {number}").as_bytes(), 1));
        assert_eq!((errors.texts().count(), errors.count()), (TEXTS_MAX + 1, 23));
        assert_eq!(errors.texts().last(), Some((OTHERS, 6)));
        let both = errors.clone().join(&errors);
        assert_eq!((both.texts().last(), both.count()), (Some((OTHERS, 12)), 46));
        errors.add(&[b'x'; 2 * TEXT_BYTES_MAX], 1);
        errors.add(b"-OOM no", 1);
        assert_eq!(errors.texts().next(), Some(("-OOM no", 3)));
    }
}
