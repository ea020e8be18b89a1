//! The results of a load.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::errors::Errors;
use super::watch::Watched;
use crate::error::{LabError, Result};

/// The results of one group.
#[derive(Debug, Clone)]
pub struct GroupResult {
    /// The group's name.
    pub name: &'static str,
    /// Requests answered within the measured time.
    pub requests: u64,
    /// Error replies, in the warm-up too.
    pub errors: Errors,
    /// Latencies in nanoseconds: of batches in a closed loop, of requests in an open one.
    pub latency_ns: Histogram<u64>,
    /// Requests a second over the measured time.
    pub rate: f64,
}

impl GroupResult {
    /// A quantile of the latency, in microseconds.
    pub fn latency_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// The results of a load.
#[derive(Debug, Clone)]
pub struct LoadResult {
    /// The measured time.
    pub elapsed: Duration,
    /// By group, in the order of the load.
    pub groups: Vec<GroupResult>,
    /// The processor time that the generator used, over the measured time: near 1 means that it was the
    /// limit.
    pub generator_busy: f64,
    /// The processor time that the watched process and its children used, over the measured time; 0 if none
    /// was watched.
    pub server_busy: f64,
    /// The processor time of all others, over the measured time: much above 0 means that somebody disturbed
    /// the measurement. It has the error of the kernel's ticks, and may be below 0.
    pub others_busy: f64,
    /// The counts of the tallied requests, if there were any, in the warm-up too.
    pub tally: Tally,
    /// The measurements phase by phase, if the load had a cue.
    pub watched: Watched,
}

impl LoadResult {
    /// Fails if any reply was an error.
    pub fn check(self) -> Result<LoadResult> {
        let first = self.groups.iter().find_map(|group| Some((group, group.errors.first()?)));
        match first {
            Some((group, text)) => {
                let (count, name) = (group.errors.count(), group.name);
                Err(LabError::Reply(format!("{count} error replies to {name}, such as: {text}")))
            }
            None => Ok(self),
        }
    }

    /// Requests a second over all groups.
    pub fn rate(&self) -> f64 {
        self.groups.iter().map(|group| group.rate).sum()
    }
}

/// Counts of the requests for each key: the least and the most that a server can have done. For every key,
/// acknowledged ≤ sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that were sent.
    pub sent: Vec<u32>,
    /// Of these, those whose replies came.
    pub acknowledged: Vec<u32>,
}

impl Tally {
    /// No requests yet, for keys with numbers below `keys`.
    pub fn new(keys: u64) -> Tally {
        Tally { sent: vec![0; keys as usize], acknowledged: vec![0; keys as usize] }
    }

    /// True if no counts were asked for.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Adds the counts of another load.
    pub fn add(&mut self, other: &Tally) {
        let pairs = [(&mut self.sent, &other.sent), (&mut self.acknowledged, &other.acknowledged)];
        for (own, other) in pairs {
            own.resize(own.len().max(other.len()), 0);
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
    }
}
