//! The errors that a script has replied to its client.

use std::collections::BTreeMap;

/// The errors that a script has replied, itself or within a table.
#[derive(Debug, Default)]
pub struct Errors {
    /// How many there are.
    pub replied: u64,
    /// How many of a code there are that the host does not know: those that a command replied to the script
    /// are not among them.
    pub own: BTreeMap<Vec<u8>, u64>,
}

#[cfg(feature = "lua")]
impl Errors {
    /// Codes that are told apart, at most, and bytes of one.
    const CODES_MAX: usize = 128;
    const CODE_BYTES_MAX: usize = 64;

    /// Adds one. `is_known`: the host has replied it to the script.
    pub(crate) fn note(&mut self, text: &[u8], is_known: bool) {
        self.replied += 1;
        let code = text.split(|byte| matches!(byte, b' ' | b'\r' | b'\n')).next().unwrap_or_default();
        let code = &code[..code.len().min(Errors::CODE_BYTES_MAX)];
        if is_known {
            return;
        }
        if let Some(count) = self.own.get_mut(code) {
            *count += 1;
        } else if self.own.len() < Errors::CODES_MAX {
            self.own.insert(code.to_vec(), 1);
        }
    }
}

#[cfg(all(test, feature = "lua"))]
mod tests {
    use super::*;

    #[test]
    fn codes_are_bounded() {
        let mut errors = Errors::default();
        for number in 0..1000 {
            errors.note(format!("E{number} text").as_bytes(), false);
        }
        errors.note(&[b'x'; 1000], false);
        errors.note(b"E0 again", false);
        errors.note(b"KNOWN text", true);
        assert_eq!((errors.replied, errors.own.len()), (1003, Errors::CODES_MAX));
        assert_eq!(errors.own.get(&b"E0"[..]), Some(&2));
    }
}
