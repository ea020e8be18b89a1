//! The state of an interpreter that the functions of the server share.

use std::cell::{Cell, RefCell};

use tarn_resp::Protocol;

use crate::interpreter::random::Random;
use crate::program::Registered;

/// The state that they keep between calls.
pub(crate) struct State {
    /// The protocol in which `redis.call` gets replies.
    pub(crate) protocol: Cell<Protocol>,
    /// The host has ended the script.
    pub(crate) is_aborted: Cell<bool>,
    /// The numbers of `math.random`.
    pub(crate) random: Random,
    /// The reply to a command.
    pub(crate) reply: RefCell<Vec<u8>>,
    /// A library is being loaded.
    pub(crate) is_loading: Cell<bool>,
    /// The functions that the library which is being loaded has registered.
    pub(crate) registered: RefCell<Vec<Registered>>,
}
