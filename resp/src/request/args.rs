//! The arguments of one command: ranges of one buffer, borrowed or owned.
//!
//! ```text
//! text    S E T k e y v a l u e        (or the whole request with its lengths in between)
//! ranges  (0,3) (3,3) (6,5)            start and length, 32 bits each
//! ```
//!
//! Invariant: `start + len <= text.len()` for every range.

use std::fmt;
use std::ops::Index;

/// Where one argument lies in its text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArgRange {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl ArgRange {
    #[inline]
    fn of(self, text: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &text[start..start + self.len as usize]
    }
}

/// The arguments of one command, the command's name first. Copied as cheaply as two slices.
///
/// Arguments are any bytes. Those that the decoder hands out are never empty as a list.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    text: &'a [u8],
    ranges: &'a [ArgRange],
}

impl<'a> Args<'a> {
    #[inline]
    pub(super) fn new(text: &'a [u8], ranges: &'a [ArgRange]) -> Self {
        Self { text, ranges }
    }

    /// The number of arguments, with the command's name.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True if there is no argument at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The argument at `index`, the command's name being at 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|range| range.of(self.text))
    }

    /// The argument at `index`, which outlives this copy of the list. Panics past the end: check the arity
    /// first.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.ranges[index].of(self.text)
    }

    /// The arguments from `index` on; none if there are not as many.
    #[inline]
    pub fn tail(&self, index: usize) -> Args<'a> {
        Args { text: self.text, ranges: self.ranges.get(index..).unwrap_or_default() }
    }

    /// The arguments in order.
    #[inline]
    pub fn iter(&self) -> ArgsIter<'a> {
        ArgsIter { text: self.text, ranges: self.ranges.iter() }
    }

    /// The sum of the arguments' lengths, in bytes.
    pub fn total_bytes(&self) -> usize {
        self.ranges.iter().map(|range| range.len as usize).sum()
    }

    /// A copy that outlives the read buffer.
    pub fn to_owned(&self) -> OwnedArgs {
        let mut owned = OwnedArgs {
            text: Vec::with_capacity(self.total_bytes()),
            ranges: Vec::with_capacity(self.len()),
        };
        owned.extend(self.iter());
        owned
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// The argument at `index`. Panics past the end, as slices do: check the arity first.
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        self.ranges[index].of(self.text)
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Args<'_> {}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|arg| arg.escape_ascii().to_string())).finish()
    }
}

/// The arguments of one command in order: see [`Args::iter`].
#[derive(Clone)]
pub struct ArgsIter<'a> {
    text: &'a [u8],
    ranges: std::slice::Iter<'a, ArgRange>,
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.ranges.next().map(|range| range.of(self.text))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranges.size_hint()
    }
}

impl DoubleEndedIterator for ArgsIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.ranges.next_back().map(|range| range.of(self.text))
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}

/// Arguments that own their bytes, all of them in one allocation: for commands that are queued, or that block
/// and run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedArgs {
    text: Vec<u8>,
    ranges: Vec<ArgRange>,
}

impl OwnedArgs {
    /// No arguments yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one argument. All together must stay below 4 GiB, as every decoded request does.
    pub fn push(&mut self, arg: &[u8]) {
        let start = u32::try_from(self.text.len()).expect("the arguments of one command stay below 4 GiB");
        let len = u32::try_from(arg.len()).expect("one argument stays below 4 GiB");
        self.text.extend_from_slice(arg);
        self.ranges.push(ArgRange { start, len });
    }

    /// Forgets the arguments and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ranges.clear();
    }

    /// The arguments as a command takes them.
    #[inline]
    pub fn as_args(&self) -> Args<'_> {
        Args { text: &self.text, ranges: &self.ranges }
    }

    /// Bytes of memory held, for limits on queued commands.
    pub fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.ranges.capacity() * size_of::<ArgRange>()
    }
}

impl<A: AsRef<[u8]>> Extend<A> for OwnedArgs {
    fn extend<I: IntoIterator<Item = A>>(&mut self, args: I) {
        for arg in args {
            self.push(arg.as_ref());
        }
    }
}

impl<A: AsRef<[u8]>> FromIterator<A> for OwnedArgs {
    fn from_iter<I: IntoIterator<Item = A>>(args: I) -> Self {
        let mut owned = Self::new();
        owned.extend(args);
        owned
    }
}

impl From<Args<'_>> for OwnedArgs {
    fn from(args: Args<'_>) -> Self {
        args.to_owned()
    }
}
