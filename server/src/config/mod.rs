//! Configuration: one table of directives, the file and the command line that set them, and the store that
//! `CONFIG GET|SET|REWRITE` work on.
//!
//! `live` has the settings that each request reads; `rewriter` writes the file on a thread of its own. The
//! ground of the package: may import `glob` alone. `apply` brings a changed configuration into force.

mod args;
mod cli;
mod cores;
mod directive;
mod directives;
mod error;
mod file;
mod foreign;
mod kinds;
mod later;
pub(crate) mod live;
mod networks;
mod notifications;
mod rewrite;
pub(crate) mod rewriter;
mod secrets;
mod settings;
mod shape;
mod store;
mod table;
mod tls;

pub use args::{join_args, quote_arg, split_args};
pub use cli::{Invocation, Loaded, Secrets, help_text, parse_serve_args, parse_with_secrets, take_secrets};
pub use directive::Directive;
pub use directives::{directives, find_directive, nearest_name};
pub use error::{LoadError, RewriteError, SetError, Source, ValueError};
pub use file::read_config;
pub use kinds::{
    AclPubsubDefault, AppendFsync, AuthClients, CertificateUser, CheckpointFormat, CheckpointMode,
    CheckpointPace, ClientClass, DebugAccess, Encryption, FileName, LogCompaction, LogCompression, LogLevel,
    MaxmemoryPolicy, MemoryShare, MetricsAuth, OutputBufferLimit, OutputBufferLimits, RdbVersion, SaveRule,
    SaveRules, SqlTls, Supervised, by_words,
};
pub use networks::Networks;
pub use notifications::EventClasses;
pub use rewrite::rewrite_text;
pub use settings::{AclSettings, Config, MemorySettings};
pub(crate) use shape::parse_memory;
pub use shape::{Shape, Value};
pub use store::{ChangedDirective, ConfigReader, ConfigStore};
pub use tls::TlsSettings;
