//! A command: one row of the table, which is its description and its function.

use std::ops::Deref;

use tarn_resp::Args;

use crate::error::CommandError;
use crate::execute::context::Context;
use crate::execute::spec::{AloneIf, Flags, KeySpec, MoreKeys, Spec};

/// The function of a command. It sees arguments, latched keys and a reply; never a socket, a thread or a
/// file.
pub type Run = for<'c, 'a> fn(&mut Context<'c, 'a>, Args<'a>) -> Result<(), CommandError>;

/// One row of the table. It dereferences to its description.
pub struct Command {
    /// The description.
    pub spec: Spec,
    /// Its function. A container of subcommands answers for those that it does not know.
    pub run: Run,
    /// Its subcommands.
    pub subcommands: &'static [Command],
}

impl Deref for Command {
    type Target = Spec;

    #[inline]
    fn deref(&self) -> &Spec {
        &self.spec
    }
}

/// A command without keys; `O(1)` until `complexity` says otherwise.
pub const fn row(
    name: &'static str,
    arity: i32,
    flags: Flags,
    since: &'static str,
    summary: &'static str,
    run: Run,
) -> Command {
    let spec = Spec {
        name,
        arity,
        flags,
        categories: &[],
        keys: &[],
        channels: &[],
        more_keys: None,
        alone_if: None,
        since,
        summary,
        complexity: "O(1)",
    };
    Command { spec, run, subcommands: &[] }
}

impl Command {
    /// With these groups of keys.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Command {
        self.spec.keys = keys;
        self
    }

    /// With these groups of channels of shards.
    pub const fn channels(mut self, channels: &'static [KeySpec]) -> Command {
        self.spec.channels = channels;
        self
    }

    /// With keys that specs cannot say.
    pub const fn more_keys(mut self, more_keys: MoreKeys) -> Command {
        self.spec.more_keys = Some(more_keys);
        self
    }

    /// Needing the store for itself where the function says so.
    pub const fn alone_if(mut self, alone_if: AloneIf) -> Command {
        self.spec.alone_if = Some(alone_if);
        self
    }

    /// With ACL categories beyond those that follow from flags and group.
    pub const fn categories(mut self, categories: &'static [&'static str]) -> Command {
        self.spec.categories = categories;
        self
    }

    /// With this complexity.
    pub const fn complexity(mut self, complexity: &'static str) -> Command {
        self.spec.complexity = complexity;
        self
    }

    /// With these subcommands; its own function answers when none is named.
    pub const fn subcommands(mut self, subcommands: &'static [Command]) -> Command {
        self.subcommands = subcommands;
        self
    }

    /// The subcommand of this name.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        self.subcommands.iter().find(|sub| sub.name.as_bytes().eq_ignore_ascii_case(name))
    }
}
