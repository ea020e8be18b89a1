//! The program around the interpreter, as scripts see it: the commands that they may call.

use tarn_resp::{Args, OwnedArgs, Protocol};

/// Ends a script at once. A script cannot catch it; the host knows the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort;

/// The program that runs a script.
pub trait Host {
    /// Runs a command and appends its reply, in `protocol`, to `out`. A command that fails replies an error.
    fn call(&mut self, args: OwnedArgs, protocol: Protocol, out: &mut Vec<u8>) -> Result<(), Abort>;

    /// Writes a line of `redis.log`. Levels are 0, debug, to 3, warning.
    fn log(&mut self, level: u8, message: &[u8]);

    /// Says whether the user of the script may run a command; `None` if there is no such command.
    fn allows(&mut self, args: Args<'_>) -> Option<bool>;

    /// Is called after some ten thousand instructions, and says whether the script goes on.
    fn look(&mut self) -> Result<(), Abort>;
}

#[cfg(feature = "lua")]
scoped_tls_hkt::scoped_thread_local!(
    /// The host of the script that runs in this thread.
    pub(crate) static mut HOST: for<'a> &'a mut (dyn Host + 'a)
);
