//! The ways to keep old versions: the algorithm's, and three that it is compared with.

/// The way in which old versions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In one remset for all scans; the last scan that needs a version frees it. This is the algorithm.
    Shared,
    /// In one remset for all scans; a version is freed when the scans that needed it have ended.
    SharedToTheEnd,
    /// In a remset for each scan, each with copies of its own.
    PerScan,
    /// None: scans show each record as it is when they meet it, some twice, some not at all. The others are
    /// measured against this.
    Nothing,
}
