//! Compiled scripts and functions, and the interpreters that run them.

/// The use of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It runs scripts, with `KEYS` and `ARGV`.
    Scripts,
    /// It loads libraries and runs their functions, which get keys and arguments.
    Functions,
}

/// The limits of an interpreter.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of memory at most.
    pub memory_bytes: usize,
}

/// A compiled script or function, which the interpreter that compiled it can run.
#[derive(Clone, Debug)]
pub struct Program(#[cfg(feature = "lua")] pub(crate) mlua::Function);

/// A promise that a function makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionFlag {
    /// It changes nothing.
    NoWrites,
    /// It may run when memory is short.
    AllowOom,
    /// It may run on a replica whose data is stale.
    AllowStale,
    /// It does not run in a cluster.
    NoCluster,
    /// It may use keys of several slots.
    AllowCrossSlotKeys,
}

impl FunctionFlag {
    /// All of them.
    pub const ALL: [FunctionFlag; 5] = [
        FunctionFlag::NoWrites,
        FunctionFlag::AllowOom,
        FunctionFlag::AllowStale,
        FunctionFlag::NoCluster,
        FunctionFlag::AllowCrossSlotKeys,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            FunctionFlag::NoWrites => "no-writes",
            FunctionFlag::AllowOom => "allow-oom",
            FunctionFlag::AllowStale => "allow-stale",
            FunctionFlag::NoCluster => "no-cluster",
            FunctionFlag::AllowCrossSlotKeys => "allow-cross-slot-keys",
        }
    }
}

/// A function that a library has registered.
#[derive(Debug)]
pub struct Registered {
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// Says for what it is.
    pub description: Option<Vec<u8>>,
    /// Its promises.
    pub flags: Vec<FunctionFlag>,
    /// Runs it.
    pub program: Program,
}

/// A name of a function or library, if it may be one.
pub fn valid_name(name: &[u8]) -> Option<String> {
    let is_valid = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    String::from_utf8(name.to_vec()).ok().filter(|_| is_valid)
}
