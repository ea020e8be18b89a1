//! A user: a name, flags, passwords, and selectors, of which the first is the root.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::acl::catalog::Catalog;
use crate::acl::rules::{RuleError, apply_to_selector, is};
use crate::acl::selector::{Access, Denied, Selector};
use crate::config::split_args;

/// Tells a user from one of the same name that was made later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserId(pub u64);

/// The SHA-256 of a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Password([u8; 32]);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    /// That of a password.
    pub(super) fn of(password: &[u8]) -> Password {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(Sha256::digest(password).as_slice());
        Password(bytes)
    }

    /// That of 64 hexadecimal digits in lower case.
    pub(super) fn from_hex(text: &[u8]) -> Option<Password> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        if text.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Password(bytes))
    }

    /// In hexadecimal.
    pub(super) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compares without telling by the time it takes where the difference is.
    fn is_same(self, other: Password) -> bool {
        self.0.iter().zip(other.0).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }
}

/// A user. It never changes once it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Without white space.
    pub name: Arc<[u8]>,
    /// Stays the same when its rules change.
    pub id: UserId,
    pub(super) enabled: bool,
    pub(super) no_password: bool,
    /// `sanitize-payload` or `skip-sanitize-payload`, if one was said. It is only remembered: Tarn checks
    /// every payload.
    pub(super) sanitizes: Option<bool>,
    pub(super) passwords: Vec<Password>,
    pub(super) root: Selector,
    pub(super) others: Vec<Selector>,
}

impl User {
    /// A user that may nothing, and cannot log in. `all_channels`: but read and write all channels.
    pub fn new(name: &[u8], id: UserId, catalog: &Catalog, all_channels: bool) -> User {
        User {
            name: name.into(),
            id,
            enabled: false,
            no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            root: Selector::new(catalog, all_channels),
            others: Vec::new(),
        }
    }

    /// Makes it as new, with `sanitize-payload`, as Redis does.
    pub(super) fn reset(&mut self, catalog: &Catalog, all_channels: bool) {
        let new = User::new(b"", self.id, catalog, all_channels);
        *self = User { name: self.name.clone(), sanitizes: Some(true), ..new };
    }

    /// Applies a rule. On an error it may have changed in part.
    pub fn apply(&mut self, rule: &[u8], catalog: &Catalog, all_channels: bool) -> Result<(), RuleError> {
        let selects = rule.len() > 1 && rule.first() == Some(&b'(') && rule.last() == Some(&b')');
        match rule {
            [] => {}
            _ if is(rule, "on") => self.enabled = true,
            _ if is(rule, "off") => self.enabled = false,
            _ if is(rule, "sanitize-payload") => self.sanitizes = Some(true),
            _ if is(rule, "skip-sanitize-payload") => self.sanitizes = Some(false),
            _ if is(rule, "nopass") => (self.no_password, self.passwords) = (true, Vec::new()),
            _ if is(rule, "resetpass") => (self.no_password, self.passwords) = (false, Vec::new()),
            [b'>', password @ ..] => self.add_password(Password::of(password)),
            [b'#', hash @ ..] => self.add_password(Password::from_hex(hash).ok_or(RuleError::NoHash)?),
            [b'<', password @ ..] => self.remove_password(Password::of(password))?,
            [b'!', hash @ ..] => self.remove_password(Password::from_hex(hash).ok_or(RuleError::NoHash)?)?,
            _ if selects => self.others.push(selector_of(&rule[1..rule.len() - 1], catalog, all_channels)?),
            _ if is(rule, "clearselectors") => self.others.clear(),
            _ if is(rule, "reset") => self.reset(catalog, all_channels),
            _ => apply_to_selector(&mut self.root, rule, catalog)?,
        }
        Ok(())
    }

    fn add_password(&mut self, password: Password) {
        if !self.passwords.contains(&password) {
            self.passwords.push(password);
        }
        self.no_password = false;
    }

    fn remove_password(&mut self, password: Password) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|own| *own == password);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// Whether it may log in.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether any password will do.
    pub fn needs_no_password(&self) -> bool {
        self.no_password
    }

    /// The SHA-256 of its passwords in hexadecimal.
    pub fn hashes(&self) -> impl Iterator<Item = String> + '_ {
        self.passwords.iter().map(|password| password.to_hex())
    }

    /// Whether it may log in with this password.
    pub fn admits(&self, password: &[u8]) -> bool {
        if !self.enabled || self.no_password {
            return self.enabled;
        }
        let given = Password::of(password);
        // All of them, so that the time does not tell which one it was.
        self.passwords.iter().fold(false, |found, own| found | own.is_same(given))
    }

    /// Its selectors, the root first.
    pub fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.others)
    }

    /// Its selectors beside the root.
    pub fn others(&self) -> &[Selector] {
        &self.others
    }

    /// The selector of the rules that stand in no parentheses.
    pub fn root(&self) -> &Selector {
        &self.root
    }

    /// Whether it may do everything.
    pub fn is_unrestricted(&self) -> bool {
        self.selectors().any(Selector::is_unrestricted)
    }

    /// Whether a selector allows what `check` says of it; if none does, the gravest reason.
    #[inline]
    pub fn check(&self, mut check: impl FnMut(&Selector) -> Result<(), Denied>) -> Result<(), Denied> {
        let mut gravest = Denied::Command;
        for selector in self.selectors() {
            match check(selector) {
                Ok(()) => return Ok(()),
                Err(denied) => gravest = gravest.max(denied),
            }
        }
        Err(gravest)
    }

    /// Whether it may use a key so, by whatever command.
    pub fn allows_key(&self, key: &[u8], access: Access) -> bool {
        self.selectors().any(|selector| selector.allows_key(key, access))
    }

    /// Whether it may read or write a channel; a pattern as it stands.
    pub fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors().any(|selector| selector.allows_channel(channel, is_pattern))
    }
}

/// The selector that rules make, which stood in parentheses.
fn selector_of(rules: &[u8], catalog: &Catalog, all_channels: bool) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(catalog, all_channels);
    for rule in split_args(rules).ok_or(RuleError::Syntax)? {
        // Within parentheses it could not be read back.
        if rule.ends_with(b")") || rule.iter().any(|byte| b"\"'".contains(byte)) {
            return Err(RuleError::Syntax);
        }
        apply_to_selector(&mut selector, &rule, catalog)?;
    }
    Ok(selector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::catalog::sample;

    fn user(rules: &[&str]) -> User {
        let catalog = sample();
        let mut user = User::new(b"alice", UserId(1), &catalog, false);
        for rule in rules {
            user.apply(rule.as_bytes(), &catalog, false).expect("a rule");
        }
        user
    }

    #[test]
    fn a_password_is_its_sha_256() {
        let hex = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(Password::of(b"secret").to_hex(), hex);
        assert_eq!(Password::from_hex(hex.as_bytes()), Some(Password::of(b"secret")));
        for text in ["", "ab", &hex.to_uppercase(), &hex[1..]] {
            assert_eq!(Password::from_hex(text.as_bytes()), None);
        }
    }

    #[test]
    fn one_comes_in_with_one_of_the_passwords_while_the_user_is_on() {
        let alice = user(&["on", ">one", ">two"]);
        assert!(
            alice.admits(b"one") && alice.admits(b"two") && !alice.admits(b"three") && !alice.admits(b"")
        );
        assert!(!user(&[">one"]).admits(b"one"), "it is off");
        assert!(user(&["on", ">one", "nopass"]).admits(b"anything"));
        assert!(!user(&["on", "nopass", "resetpass"]).admits(b""));
    }

    #[test]
    fn a_selector_has_to_allow_all_of_a_request() {
        let alice = user(&["on", "+get", "~a*", "(+set ~b*)"]);
        let catalog = sample();
        let check = |number, key: &[u8]| {
            alice.check(|selector| match () {
                () if !selector.allows_command(&catalog, number, Some(key)) => Err(Denied::Command),
                () if !selector.allows_key(key, Access::READ) => Err(Denied::Key(1)),
                () => Ok(()),
            })
        };
        assert_eq!((check(0, b"a1"), check(1, b"b1")), (Ok(()), Ok(())));
        assert_eq!((check(0, b"b1"), check(1, b"a1")), (Err(Denied::Key(1)), Err(Denied::Key(1))));
        assert_eq!(check(2, b"a1"), Err(Denied::Command));
    }

    #[test]
    fn no_password_is_shown_by_debug() {
        assert!(!format!("{:?}", user(&["on", ">secret"])).contains("2bb80d"));
    }
}
