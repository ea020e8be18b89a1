//! The rules that decide whether keys survive. The thesis states some of them and lacks others.

/// The rules of a store. Each is on unless a form turns it off; what is lost without it is said in
/// `docs/algorithms/vtc.md`, and the judge rejects every form without one of them.
pub trait Form: std::fmt::Debug + Send + Sync + 'static {
    /// The name in messages.
    const NAME: &'static str;
    /// Stated: a record of the file under compaction that is replaced gets its bit when the walk comes to its
    /// entry, not at once.
    const DEFERS: bool = true;
    /// Lacking: it gets its bit at once if the walk has been there already.
    const KNOWS_WALKED: bool = true;
    /// Stated: the walk corrects every entry.
    const REMAPS_ALL: bool = true;
    /// Lacking: a file takes the place of the old one after the records that replaced what it lacks are
    /// durable.
    const WAITS_UNTIL_DURABLE: bool = true;
    /// Stated in the text, not in algorithm 1: a delete record of the very block at which a compaction began
    /// is kept.
    const KEEPS_DELETES_OF_THAT_BLOCK: bool = true;
    /// Stated: a delete record is kept until *every* file has been compacted after it.
    const REGARDS_ALL_FILES: bool = true;
    /// Of positions that never move: only the bits of records that were dropped are cleared, not all.
    const KEEPS_BITS: bool = true;
}

/// All rules.
#[derive(Debug)]
pub struct Repaired;

impl Form for Repaired {
    const NAME: &'static str = "repaired";
}

/// Those that the thesis states; where its text and its algorithms differ, as the algorithms.
#[derive(Debug)]
pub struct Published;

impl Form for Published {
    const NAME: &'static str = "published";
    const KNOWS_WALKED: bool = false;
    const WAITS_UNTIL_DURABLE: bool = false;
    const KEEPS_DELETES_OF_THAT_BLOCK: bool = false;
}
