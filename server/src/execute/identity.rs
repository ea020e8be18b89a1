//! The user that a client is, as its connection remembers it between requests.

use std::sync::Arc;

use crate::acl::User;

/// The user that a client is, as of some version of all users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rights {
    /// `None`: it was not looked up yet, or is gone.
    user: Option<Arc<User>>,
    /// The version; 0: none.
    seen: u64,
    /// The same, if the user may do everything; 0 otherwise.
    unrestricted_at: u64,
}

impl Rights {
    /// Those of a user that was looked up at this version, or later.
    pub(crate) fn of(user: Option<Arc<User>>, version: u64) -> Rights {
        let is_unrestricted = user.as_ref().is_some_and(|user| user.is_unrestricted());
        Rights { user, seen: version, unrestricted_at: if is_unrestricted { version } else { 0 } }
    }

    /// Whether the user was looked up at this version.
    pub(crate) fn is_as_of(&self, version: u64) -> bool {
        self.seen == version
    }

    /// Whether the user may do everything, at this version of all users.
    #[inline]
    pub(crate) fn is_unrestricted(&self, version: u64) -> bool {
        self.unrestricted_at == version
    }

    /// The user, once it is looked up.
    pub(crate) fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }
}
