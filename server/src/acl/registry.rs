//! All users, as one snapshot that changes at once, and a version that rises with it.
//!
//! **Invariant:** there is always a user `default`, and it keeps its [`UserId`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tarn_engine::lock::Mutex;

use crate::acl::catalog::Catalog;
use crate::acl::log::AclLog;
use crate::acl::rules::{RuleError, has_spaces};
use crate::acl::user::{User, UserId};

/// The name of the user that clients are before they say who they are.
pub const DEFAULT: &[u8] = b"default";

/// All users by name.
pub type Users = BTreeMap<Arc<[u8]>, Arc<User>>;

/// A user before and after a change of its rules.
#[derive(Debug)]
pub struct Changed {
    /// As it was; `None`: it is new.
    pub before: Option<Arc<User>>,
    /// As it is.
    pub after: Arc<User>,
}

/// A rule that was refused. Nothing has changed.
#[derive(Debug, PartialEq, Eq)]
pub struct RuleRefused {
    /// The rule.
    pub rule: Vec<u8>,
    /// The reason.
    pub error: RuleError,
}

/// The way into a port whose clients can show that they know a password without sending it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// No password is asked for.
    Open,
    /// The client shows that it knows the password of `requirepass`.
    Challenge,
    /// The client sends a password: the server has no more than hashes to compare it with.
    Password,
}

/// On a cache line of its own: each request reads it, and each refusal writes into the log beside it.
#[repr(align(128))]
#[derive(Debug)]
struct Version(AtomicU64);

/// The users of a server.
#[derive(Debug)]
pub struct Acl {
    catalog: Arc<Catalog>,
    users: Arc<ArcSwap<Users>>,
    /// Rises when users have changed; never 0.
    version: Version,
    /// The last id that was given; held by who changes users.
    last_id: Mutex<u64>,
    /// The log of what was refused.
    pub log: AclLog,
}

impl Acl {
    /// The user `default` alone, who may do everything and needs no password.
    pub fn new(catalog: Catalog) -> Acl {
        let default = default_user(&catalog);
        let users = BTreeMap::from([(default.name.clone(), Arc::new(default))]);
        Acl {
            catalog: Arc::new(catalog),
            users: Arc::new(ArcSwap::from_pointee(users)),
            version: Version(AtomicU64::new(1)),
            last_id: Mutex::new(0),
            log: AclLog::default(),
        }
    }

    /// The commands that rules name.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The same, for another thread.
    pub fn shared_catalog(&self) -> Arc<Catalog> {
        self.catalog.clone()
    }

    /// A number that rises when users change; who has looked at users since it did has seen the change.
    #[inline]
    pub fn version(&self) -> u64 {
        // Pairs with the release in `publish`.
        self.version.0.load(Ordering::Acquire)
    }

    /// All users now.
    pub fn all(&self) -> Arc<Users> {
        self.users.load_full()
    }

    /// Tells the rules of all users, a line for each, as they are when it is called; for another thread.
    pub fn lines(&self) -> impl Fn() -> Vec<Vec<u8>> + Send + use<> {
        let (users, catalog) = (self.users.clone(), self.catalog.clone());
        move || users.load().values().map(|user| user.line(&catalog)).collect()
    }

    /// The user of this name.
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.load().get(name).cloned()
    }

    /// The user of this name, if it is the one that had this id.
    pub fn current(&self, name: &[u8], id: UserId) -> Option<Arc<User>> {
        self.user(name).filter(|user| user.id == id)
    }

    /// The user of this name, if it may log in with this password.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        self.user(name).filter(|user| user.admits(password))
    }

    /// Whether clients have to say who they are before they may do anything. It is asked of the users
    /// themselves, as two changes at once could leave a copy that is true of neither.
    pub fn needs_password(&self) -> bool {
        self.users.load().get(DEFAULT).is_none_or(|user| !user.is_enabled() || !user.needs_no_password())
    }

    /// The user that a client is at a port where each has to have a name. A name that no user has is one of
    /// `default`, while that one needs no password: it is who has not said a name elsewhere.
    fn called(&self, name: &[u8]) -> Option<Arc<User>> {
        let is_open = |user: &Arc<User>| user.is_enabled() && user.needs_no_password();
        self.user(name).or_else(|| self.user(DEFAULT).filter(is_open))
    }

    /// The way in for a client of this name at such a port; `requirepass`: that password. Whether there is
    /// such a user shows only if it needs no password.
    pub fn door(&self, name: &[u8], requirepass: &[u8]) -> Door {
        match self.called(name).filter(|user| user.is_enabled()) {
            Some(user) if user.needs_no_password() => Door::Open,
            Some(user) if name == DEFAULT && !requirepass.is_empty() && user.admits(requirepass) => {
                Door::Challenge
            }
            _ => Door::Password,
        }
    }

    /// The user that a client of this name is there, if it may come in with this password.
    pub fn enter(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        self.called(name).filter(|user| user.admits(password))
    }

    /// Applies rules to a user, which is made if it is not there: all of them or none. `all_channels`: what
    /// `acl-pubsub-default` says.
    pub fn change<R: AsRef<[u8]>>(
        &self,
        name: &[u8],
        rules: &[R],
        all_channels: bool,
    ) -> Result<Changed, RuleRefused> {
        let mut last_id = self.last_id.lock();
        let before = self.user(name);
        let mut after = match &before {
            Some(user) => User::clone(user),
            None => User::new(name, UserId(*last_id + 1), &self.catalog, all_channels),
        };
        for rule in rules {
            let rule = rule.as_ref();
            after
                .apply(rule, &self.catalog, all_channels)
                .map_err(|error| RuleRefused { rule: rule.to_vec(), error })?;
        }
        if before.is_none() {
            *last_id += 1;
        }
        let after = Arc::new(after);
        let mut users = Users::clone(&self.users.load());
        users.insert(after.name.clone(), after.clone());
        self.publish(users);
        Ok(Changed { before, after })
    }

    /// Adds users at once; one of a name that is there takes the place of that one, and its id.
    pub fn add(&self, new: Vec<User>) {
        let mut last_id = self.last_id.lock();
        let mut users = Users::clone(&self.users.load());
        for mut user in new {
            user.id = match users.get(&*user.name) {
                Some(old) => old.id,
                None => {
                    *last_id += 1;
                    UserId(*last_id)
                }
            };
            users.insert(user.name.clone(), Arc::new(user));
        }
        self.publish(users);
    }

    /// Deletes users, but never `default`; returns those that were there.
    pub fn delete<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Vec<Arc<User>> {
        let _alone = self.last_id.lock();
        let mut users = Users::clone(&self.users.load());
        let names = names.filter(|name| *name != DEFAULT);
        let deleted: Vec<Arc<User>> = names.filter_map(|name| users.remove(name)).collect();
        if !deleted.is_empty() {
            self.publish(users);
        }
        deleted
    }

    /// Puts other users in the place of all. The user `default` is as it is among them, or as new; returns
    /// those that are gone, among them those of whom others have the names now.
    pub fn replace(&self, new: Vec<User>) -> Vec<Arc<User>> {
        let mut last_id = self.last_id.lock();
        let default = default_user(&self.catalog);
        let mut users = BTreeMap::from([(default.name.clone(), Arc::new(default))]);
        for mut user in new {
            let is_default = *user.name == *DEFAULT;
            if !is_default {
                *last_id += 1;
            }
            user.id = if is_default { UserId::default() } else { UserId(*last_id) };
            users.insert(user.name.clone(), Arc::new(user));
        }
        let old = self.users.load_full();
        self.publish(users);
        old.values().filter(|user| *user.name != *DEFAULT).cloned().collect()
    }

    /// Makes a password the only one of the user `default`; the empty one: it needs none.
    pub fn set_default_password(&self, password: &[u8]) {
        let rule = if password.is_empty() { b"nopass".to_vec() } else { [&b">"[..], password].concat() };
        let changed = self.change(DEFAULT, &[b"resetpass".to_vec(), rule], false);
        debug_assert!(changed.is_ok(), "rules about passwords are right");
    }

    /// REQUIRES: `last_id` is held.
    fn publish(&self, users: Users) {
        self.users.store(Arc::new(users));
        // Pairs with the acquire in `version`.
        self.version.0.fetch_add(1, Ordering::Release);
    }
}

/// The user `default` as it is at first.
fn default_user(catalog: &Catalog) -> User {
    let mut user = User::new(DEFAULT, UserId::default(), catalog, true);
    for rule in ["on", "nopass", "allkeys", "allchannels", "allcommands"] {
        let applied = user.apply(rule.as_bytes(), catalog, true);
        debug_assert!(applied.is_ok(), "the rules of the default user are right");
    }
    user
}

/// Whether a user may be called so.
pub fn is_name(name: &[u8]) -> bool {
    !has_spaces(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::catalog::sample;

    #[test]
    fn a_change_is_seen_as_a_whole_and_a_refused_one_not_at_all() {
        let acl = Acl::new(sample());
        let version = acl.version();
        let refused = acl.change(b"alice", &["on", "+nothing"], false).expect_err("no command");
        assert_eq!(refused, RuleRefused { rule: b"+nothing".to_vec(), error: RuleError::Unknown });
        assert!(acl.user(b"alice").is_none() && acl.version() == version);
        let made = acl.change(b"alice", &["on", "+get"], false).expect("rules");
        assert!(made.before.is_none() && acl.version() > version);
        let changed = acl.change(b"alice", &["+set"], false).expect("rules");
        assert_eq!(changed.before.expect("it was there").id, changed.after.id);
    }

    #[test]
    fn a_user_that_is_made_again_is_another_one() {
        let acl = Acl::new(sample());
        let first = acl.change(b"alice", &["on"], false).expect("rules").after;
        assert_eq!(acl.delete([&b"alice"[..], DEFAULT].into_iter()).len(), 1);
        let second = acl.change(b"alice", &["on"], false).expect("rules").after;
        assert!(acl.current(b"alice", first.id).is_none() && acl.current(b"alice", second.id).is_some());
        assert!(acl.user(DEFAULT).is_some());
    }

    #[test]
    fn users_that_are_added_have_ids_of_their_own_and_lines_are_those_of_now() {
        let acl = Acl::new(sample());
        let lines = acl.lines();
        let user = |name: &[u8]| User::new(name, UserId(77), acl.catalog(), false);
        acl.add(vec![user(b"alice"), user(DEFAULT), user(b"bob")]);
        let id = |name: &[u8]| acl.user(name).expect("a user").id;
        assert_eq!([id(DEFAULT), id(b"alice"), id(b"bob")], [UserId(0), UserId(1), UserId(2)]);
        assert_eq!(lines().len(), 3);
        acl.delete([&b"alice"[..]].into_iter());
        assert!(!lines().iter().any(|line| line.starts_with(b"user alice")));
        assert_eq!(acl.change(b"carol", &["on"], false).expect("rules").after.id, UserId(3));
    }

    #[test]
    fn the_default_user_keeps_its_id_when_all_are_replaced() {
        let acl = Acl::new(sample());
        acl.change(b"alice", &["on"], false).expect("rules");
        let bob = User::new(b"bob", UserId(77), acl.catalog(), false);
        let gone = acl.replace(vec![bob]);
        assert_eq!(gone.iter().map(|user| &*user.name).collect::<Vec<_>>(), [b"alice"]);
        assert!(acl.current(DEFAULT, UserId::default()).is_some() && acl.user(b"bob").is_some());
    }

    #[test]
    fn a_password_is_needed_unless_the_default_user_is_on_and_has_none() {
        let acl = Acl::new(sample());
        assert!(!acl.needs_password());
        acl.set_default_password(b"secret");
        assert!(acl.needs_password() && acl.authenticate(DEFAULT, b"secret").is_some());
        acl.set_default_password(b"");
        assert!(!acl.needs_password());
        acl.change(DEFAULT, &["off"], false).expect("rules");
        assert!(acl.needs_password());
    }

    #[test]
    fn a_password_is_sent_where_its_hash_is_all_that_is_known() {
        let acl = Acl::new(sample());
        acl.change(b"alice", &["on", ">secret"], false).expect("rules");
        acl.change(b"open", &["on", "nopass"], false).expect("rules");
        let door = |name: &str, rules: &[&str], requirepass: &[u8]| {
            acl.change(DEFAULT, rules, false).expect("rules");
            let entered = acl.enter(name.as_bytes(), b"secret").map(|user| user.name.to_vec());
            (
                acl.door(name.as_bytes(), requirepass),
                entered.map(|name| String::from_utf8_lossy(&name).into_owned()),
            )
        };
        let is = |name: &str| Some(name.to_owned());
        assert_eq!(door("default", &[], b""), (Door::Open, is("default")));
        assert_eq!(door("nobody", &[], b""), (Door::Open, is("default")));
        assert_eq!(door("alice", &[], b""), (Door::Password, is("alice")));
        assert_eq!(door("open", &[], b""), (Door::Open, is("open")));
        assert_eq!(door("default", &[">secret"], b"secret"), (Door::Challenge, is("default")));
        assert_eq!(door("nobody", &[], b"secret"), (Door::Password, None));
        // It has the password of alice as well, which does not make it known.
        assert_eq!(door("alice", &[], b"secret"), (Door::Password, is("alice")));
        // The password is not that of requirepass any more.
        assert_eq!(door("default", &["resetpass", ">other"], b"secret"), (Door::Password, None));
        assert_eq!(door("default", &["nopass", "off"], b""), (Door::Password, None));
        assert_eq!(door("nobody", &[], b""), (Door::Password, None));
    }
}
