//! The number of keys, as `INFO` and the metrics may show it at once: without what a loss of power could
//! take back, and without waiting for the disk, as operators ask while it stands still.
//!
//! ```text
//!   ten times a second, and when somebody asks:   count ── the newest Lsn ─┬─ durable: this is settled
//!                                                                          └─ not yet: pending until it is
//! ```
//!
//! While everything is durable the count of this very moment is told. While writes are under way it may be a
//! moment old, and it stays as it is while the disk stands still.

use tarn_engine::KeyCounts;
use tarn_engine::lock::Mutex;
use tarn_engine::record::Lsn;

/// Keys of each database by number.
pub(crate) type Counts = Vec<KeyCounts>;

/// The newest counts that may be told, and those that may be told soon.
#[derive(Debug, Default)]
pub struct Keyspace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    settled: Counts,
    /// Counts that were taken, and the newest change that they may have.
    pending: Option<(Lsn, Counts)>,
}

impl Keyspace {
    /// Takes counts that have no newer change than `newest`, where everything up to `durable` is. Returns
    /// whether they may be told; else what is settled may.
    pub fn note(&self, counts: &[KeyCounts], newest: Lsn, durable: Lsn) -> bool {
        let mut state = self.0.lock();
        if newest <= durable {
            *state = State { settled: counts.to_vec(), pending: None };
            return true;
        }
        match state.pending.take() {
            Some((lsn, counts)) if lsn > durable => state.pending = Some((lsn, counts)),
            older => {
                if let Some((_, counts)) = older {
                    state.settled = counts;
                }
                state.pending = Some((newest, counts.to_vec()));
            }
        }
        false
    }

    /// The newest counts that are durable for sure.
    pub fn settled(&self) -> Counts {
        self.0.lock().settled.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_settled_when_their_newest_change_is_durable() {
        let keyspace = Keyspace::default();
        let of = |keys| vec![KeyCounts { keys, ..KeyCounts::default() }];
        assert!(keyspace.note(&of(1), Lsn(5), Lsn(5)), "all is durable");
        assert!(!keyspace.note(&of(2), Lsn(7), Lsn(5)));
        assert!(!keyspace.note(&of(3), Lsn(9), Lsn(6)), "the first pending one stays");
        assert_eq!(keyspace.settled(), of(1));
        assert!(!keyspace.note(&of(4), Lsn(11), Lsn(7)));
        assert_eq!(keyspace.settled(), of(2));
        assert!(keyspace.note(&of(4), Lsn(11), Lsn(11)));
        assert_eq!(keyspace.settled(), of(4));
    }
}
