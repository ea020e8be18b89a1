//! The limit of memory, and where it need not be looked at.

use mlua::{Lua, Result};

/// Bytes of a request or a reply that become values without a look at the limit, at most.
const SMALL_BYTES: usize = 64 << 10;
/// Memory that values of so many bytes may take, at most: an empty array has four bytes and takes eighty.
const SMALL_TAKES: usize = 4 << 20;

/// Runs `make`, which makes values of `bytes`. Under a limit, mlua guards each value by a call that catches
/// errors, which costs more than the value; so the limit is lifted while there is room for few bytes.
pub(crate) fn make<T>(lua: &Lua, bytes: usize, make: impl FnOnce() -> Result<T>) -> Result<T> {
    if bytes > SMALL_BYTES {
        return make();
    }
    let _lifted = Lifted::new(lua)?;
    make()
}

/// The limit is lifted until this is dropped, if there is room.
struct Lifted<'l> {
    lua: &'l Lua,
    limit: usize,
}

impl<'l> Lifted<'l> {
    fn new(lua: &'l Lua) -> Result<Lifted<'l>> {
        let limit = lua.set_memory_limit(0)?;
        let lifted = Lifted { lua, limit };
        if lua.used_memory() + SMALL_TAKES > limit {
            lua.set_memory_limit(limit)?;
        }
        Ok(lifted)
    }
}

impl Drop for Lifted<'_> {
    fn drop(&mut self) {
        // It fails only for a state with another allocator than mlua's.
        let _ = self.lua.set_memory_limit(self.limit);
    }
}
