//! Counts of the requests for each key: the least and the most that a server can have done.

/// Counts by key. For every key, acknowledged ≤ sent.
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
