//! A server on trial: started, filled, asked for checkpoints, started again.

use tempfile::TempDir;

use super::cell::{Data, Kind, Pace, Variant};
use super::requests;
use crate::checkpoint::{Ask, Subject, Taken};
use crate::device;
use crate::error::Result;
use crate::restart;
use crate::server::{Persistence, Product, Server};
use crate::setting::{Setting, fill_silently};
use tarn_resp::client::{self, Client};

/// A server with its data.
#[derive(Debug)]
pub(super) struct Trial {
    /// Whose checkpoints.
    pub variant: Variant,
    /// The content of the store.
    pub data: Data,
    /// Its version.
    pub version: String,
    /// The server. Declared before the directory, because it must end before its files are removed.
    pub server: Server,
    dir: TempDir,
}

/// Checks that the variant exists: an older Tarn may refuse an algorithm. Returns its words if it does.
pub(super) fn refusal(setting: &Setting, variant: Variant) -> Result<Option<String>> {
    if variant.product() == Product::RedisServer {
        return Ok(None);
    }
    let (plan, _dir) = setting.plan(Product::Tarn, Persistence::None)?;
    let server = plan.start()?;
    let reply = server.client()?.ask(&["CONFIG", "SET", "snapshot-algorithm", variant.name()])?;
    Ok(reply.is_error().then(|| reply.to_string()))
}

impl Trial {
    /// Starts a server and fills it.
    pub(super) fn start(setting: &Setting, variant: Variant, data: Data) -> Result<Trial> {
        let (mut plan, dir) = setting.plan(variant.product(), Persistence::None)?;
        plan.directives = match variant.product() {
            Product::Tarn => vec![("snapshot-algorithm", variant.name().to_owned())],
            // Ours does not compress either: the same bytes for all.
            Product::RedisServer => vec![("rdbcompression", "no".to_owned())],
        };
        setting.keep_off_the_generator(&mut plan);
        let server = plan.start()?;
        let version = server.version()?;
        let trial = Trial { variant, data, version, server, dir };
        trial.fill(setting)?;
        Ok(trial)
    }

    fn fill(&self, setting: &Setting) -> Result<()> {
        if self.data.kind == Kind::String {
            return requests::fill_string(&mut self.server.client()?, self.data.count);
        }
        let (mix, count) = requests::fill(self.data);
        fill_silently(&self.server, count, mix, setting.seed)
    }

    /// Sets how hard checkpoints work.
    pub(super) fn set_pace(&self, pace: Pace) -> Result<()> {
        if self.variant.product() == Product::Tarn {
            self.server.client()?.call(&["CONFIG", "SET", "checkpoint-pace", pace.name()])?;
        }
        Ok(())
    }

    /// Kills the server and starts it again from its last checkpoint. Returns the seconds until it answers.
    pub(super) fn recover(&mut self) -> Result<f64> {
        restart::after_kill(&mut self.server, &[self.dir.path()], |_| Ok(()))
    }
}

impl Subject for Trial {
    fn server(&self) -> &Server {
        &self.server
    }

    fn ask(&self) -> Ask {
        Ask::Save
    }

    fn forks(&self) -> bool {
        self.variant.forks()
    }

    fn tell(&self, client: &mut Client) -> Result<Taken> {
        let (section, name) = match self.variant.product() {
            Product::Tarn if !self.variant.forks() => ("persistence", "checkpoint_last_cut_usec:"),
            Product::Tarn | Product::RedisServer => ("stats", "latest_fork_usec:"),
        };
        let info = client::text(&client.call(&["INFO", section])?)?;
        let cut = info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        // Files may go away while they are counted: a merge tidies up.
        let file_bytes = device::files_below(self.dir.path()).map(|(_, bytes)| bytes).unwrap_or_default();
        Ok(Taken { cut_us: cut, file_bytes, ..Taken::default() })
    }
}
