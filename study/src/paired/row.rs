//! A value with two copies: the group of the study's arrays that it calls `snap_row`.

/// A value and what its snapshots need. Copies have the numbers 0 and 1. The *upper* one takes the writes of
/// this period, and a cut makes the other one the upper one; the caller says which it is.
///
/// REQUIRES, of the caller: in each period that a cut has begun, `dumped` is called once for each row that
/// was there at the cut, after `bring_across`, before the next cut.
pub trait SnapRow: Send + Sized + 'static {
    /// The name of the algorithm.
    const NAME: &'static str;
    /// True if `bring_across` does something, so that it needs a pass over all rows.
    const BRINGS_ACROSS: bool;

    /// A row that was not there before.
    fn new(upper: usize, value: Box<[u8]>) -> Self;

    /// The newest value.
    fn read(&self) -> &[u8];

    /// Writes a value.
    fn write(&mut self, upper: usize, value: Box<[u8]>);

    /// Brings the newest value of the last period to the upper copy, unless there is a newer one.
    fn bring_across(&mut self, upper: usize);

    /// The value at the cut, until it was dumped; `None` if the row was not there.
    fn at_cut(&self, upper: usize) -> Option<&[u8]>;

    /// The value at the cut was dumped: frees it if it is not the newest one.
    fn dumped(&mut self, upper: usize);

    /// Copies that are there, for memory to be judged.
    fn copies(&self) -> usize;
}
