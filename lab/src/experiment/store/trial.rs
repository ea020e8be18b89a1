//! A server on trial, with its data.

use super::cell::{Data, Kind, Pace, Variant, Who};
use super::requests;
use crate::checkpoint::{Ask, Trial};
use crate::error::{IoContext, Result};
use crate::published::Algorithm;
use crate::server::{Persistence, Product, Server, Subject};
use crate::setting::{Setting, fill_silently};

/// A server with its data.
#[derive(Debug)]
pub(super) struct Filled {
    /// Whose checkpoints.
    pub who: Who,
    /// The content of the store.
    pub data: Data,
    /// The server.
    pub trial: Trial,
}

/// Checks that the variant exists: an older Tarn may refuse a mode. Returns its words if it does.
pub(super) fn refusal(setting: &Setting, variant: Variant) -> Result<Option<String>> {
    let Some(mode) = variant.checkpoint_mode() else { return Ok(None) };
    let (plan, _dir) = setting.plan(Product::Tarn, Persistence::None)?;
    let server = plan.start()?;
    let reply = server.client()?.ask(&["CONFIG", "SET", "checkpoint-mode", mode])?;
    Ok(reply.is_error().then(|| reply.to_string()))
}

impl Filled {
    /// Starts a server and fills it.
    pub(super) fn start(setting: &Setting, who: Who, data: Data) -> Result<Filled> {
        let (variant, peer) = who;
        let (mut plan, dir) = match variant.algorithm() {
            Some(algorithm) => setting.plan_of(&published(variant, algorithm)?, Persistence::None)?,
            None => setting.plan_for(variant.product(), peer, Persistence::None)?,
        };
        plan.directives = match variant.checkpoint_mode() {
            Some(mode) => vec![("checkpoint-mode", mode.to_owned())],
            // Ours does not compress either: the same bytes for all.
            None => vec![("rdbcompression", "no".to_owned())],
        };
        setting.keep_off_the_generator(&mut plan);
        let forks = variant.forks() && (peer.is_none() || plan.subject.forks);
        let mut trial = Trial::start(&plan, vec![dir], Some(Ask::Save), forks)?;
        trial.cut = Some(match variant.forks() {
            true => ("stats", "latest_fork_usec"),
            false => ("persistence", "checkpoint_last_cut_usec"),
        });
        fill(&trial.server, data, setting.seed)?;
        Ok(Filled { who, data, trial })
    }

    /// Sets how hard checkpoints work.
    pub(super) fn set_pace(&self, pace: Pace) -> Result<()> {
        if self.who.0.product() == Product::Tarn {
            self.trial.server.client()?.call(&["CONFIG", "SET", "checkpoint-pace", pace.name()])?;
        }
        Ok(())
    }
}

/// The published store, which is a command of this program.
fn published(variant: Variant, algorithm: Algorithm) -> Result<Subject> {
    let binary = std::env::current_exe().doing(|| "find this program".to_owned())?;
    let arguments = ["published-store", "--algorithm", algorithm.name()].map(str::to_owned).to_vec();
    let name = variant.name().to_owned();
    Ok(Subject { name, forks: false, arguments, ..Subject::new(variant.product(), &binary) })
}

fn fill(server: &Server, data: Data, seed: u64) -> Result<()> {
    if data.kind == Kind::String {
        return requests::fill_string(&mut server.client()?, data.count);
    }
    let (mix, count) = requests::fill(data);
    fill_silently(server, count, mix, seed)
}
