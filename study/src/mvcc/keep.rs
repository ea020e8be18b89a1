//! The rules of a multi-version store: the versions that writers keep, and those that are garbage.

/// The scans that a writer has to keep versions for.
#[derive(Clone, Copy, Debug)]
pub struct Readers {
    /// True if any runs.
    pub(crate) any: bool,
    /// The timestamp of the newest, or a later one.
    pub(crate) newest: u64,
}

/// A rule for the versions that are kept. The methods that [`Every`] and [`Seen`] do not define are the same
/// for both; mutants define them otherwise.
pub trait Keep: Send + Sync + 'static {
    /// True if scans register before they draw their timestamps.
    #[doc(hidden)]
    const REGISTERS_FIRST: bool = true;
    /// True if writers draw their timestamps when they hold all latches.
    #[doc(hidden)]
    const LATCHES_FIRST: bool = true;

    /// True if a writer keeps a version that began then, for the scans that run.
    #[doc(hidden)]
    fn keeps(begin: u64, readers: Readers) -> bool;

    /// True if a scan of this timestamp sees the version.
    #[doc(hidden)]
    fn sees(scan: u64, begin: u64, end: u64) -> bool {
        begin <= scan && scan < end
    }

    /// True if a version that ended then is garbage for scans from this timestamp on.
    #[doc(hidden)]
    fn is_garbage(end: u64, horizon: u64) -> bool {
        end <= horizon
    }
}

/// Keeps every version that is replaced while a scan runs, as the published stores do.
#[derive(Debug)]
pub struct Every;

impl Keep for Every {
    fn keeps(_: u64, readers: Readers) -> bool {
        readers.any
    }
}

/// Keeps a version only if it began before the newest scan: no scan sees one that began later.
#[derive(Debug)]
pub struct Seen;

impl Keep for Seen {
    fn keeps(begin: u64, readers: Readers) -> bool {
        readers.any && begin <= readers.newest
    }
}
