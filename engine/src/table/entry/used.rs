//! Notes of the use of an entry, which eviction and `OBJECT` go by: `value/usage.rs`.

use super::Entry;
use crate::record::Change;
use crate::value::usage::{self, Use};

impl Entry {
    /// When it was used last, or how often; `None`: its key is so long that there is no room for a note.
    pub fn used(&self) -> Option<Use> {
        self.body.block().used()
    }

    /// Notes that a client has looked at it. Others may look at it, and do the same.
    #[inline]
    pub(crate) fn note_look(&self) {
        self.body.block().note_use(usage::after_look);
    }

    /// Notes a change of it, before which it had been used like that. The change may have put it into another
    /// allocation, which knows nothing of that. A rewrite of a value for the log is no use: of records that
    /// clients write too it is `Latched::commit_again` that puts the note back.
    pub(in crate::table) fn note_change(&self, before: Option<Use>, change: &Change<'_>) {
        use Change::{RenewalBegins, RenewalEnds, RenewalPart};
        let Some(before) = before else { return };
        let is_rewrite = matches!(change, RenewalBegins { .. } | RenewalPart { .. } | RenewalEnds { .. });
        let used = if is_rewrite { before } else { usage::after_change(before) };
        self.body.block().note_use(|_| used);
    }

    /// Puts a note in the place of the one that it has.
    pub(crate) fn set_used(&self, used: Use) {
        self.body.block().note_use(|_| used);
    }

    /// Writes the note so that it can be understood for some hours more.
    pub(crate) fn settle_use(&self) {
        if let Some(settled) = self.used().and_then(usage::settled) {
            self.body.block().note_use(|_| settled);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::record::{Change, Lsn};
    use crate::table::{Entry, Retired};

    #[test]
    fn a_change_keeps_the_note_of_another_allocation() {
        let put = |value: &'static [u8]| Change::Put { value: value.into(), expiry: None };
        let mut entry = Entry::create(b"key", &put(b"value"), Lsn(1)).expect("a put makes an entry");
        let before = entry.used();
        assert!(before.is_some(), "there is room for a note");
        let rewrite = Change::RenewalEnds { kind: entry.kind(), begun: Lsn(1) };
        entry.apply(&put(&[7; 20_000]), Lsn(2), &mut Retired::default()).expect("it fits");
        entry.note_change(before, &rewrite);
        assert!(entry.is_large() && entry.used() == before);
        let long = Entry::create(&[7; 40_000], &put(b"value"), Lsn(1)).expect("a put makes an entry");
        long.note_look();
        assert_eq!(long.used(), None);
    }
}
