//! The fuzzer's bytes, taken from the front; when they are used up, zeros.

pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// At most so many bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A place below `end`, 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let place = usize::from(self.byte()) << 8 | usize::from(self.byte());
        place.checked_rem(end).unwrap_or(0)
    }

    /// A number as a field may have it: small, beside a power of two, or any.
    pub fn number(&mut self) -> u64 {
        match self.byte() % 4 {
            0 => u64::from(self.byte()),
            1 => 1_u64.rotate_left(u32::from(self.byte())),
            2 => 1_u64.rotate_left(u32::from(self.byte())).wrapping_sub(1 + u64::from(self.byte())),
            _ => {
                let mut bytes = [0; 8];
                let taken = self.take(8);
                bytes[..taken.len()].copy_from_slice(taken);
                u64::from_le_bytes(bytes)
            }
        }
    }
}
