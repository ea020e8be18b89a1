//! Rows that a scan has copied under a latch and shows without it.

#[derive(Default)]
pub(crate) struct Buffer {
    keys: Vec<u64>,
    words: Vec<u64>,
    /// The number of rows that have been shown.
    shown: usize,
}

impl Buffer {
    pub(crate) fn push(&mut self, key: u64, row: &[u64]) {
        self.keys.push(key);
        self.words.extend_from_slice(row);
    }

    /// All have been shown.
    pub(crate) fn is_empty(&self) -> bool {
        self.shown == self.keys.len()
    }

    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.words.clear();
        self.shown = 0;
    }

    /// The next row. REQUIRES: it is not empty, and rows have `fields` fields.
    pub(crate) fn show(&mut self, fields: usize) -> (u64, &[u64]) {
        let at = self.shown;
        self.shown += 1;
        (self.keys[at], &self.words[at * fields..][..fields])
    }
}
