//! Multi-version stores with one difference each. The judges must reject them.

use super::keep::{Keep, Readers, Seen};

macro_rules! mutant {
    ($(#[$doc:meta])* $name:ident: $($difference:item)+) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl Keep for $name {
            $($difference)+
        }
    };
}

#[cfg(not(loom))]
mod rules {
    use super::*;
    use crate::mvcc::Store;
    use crate::records::steps;

    mutant! {
        /// Forgets the version of the write just before the newest scan.
        KeepsOneLess:
        fn keeps(begin: u64, readers: Readers) -> bool {
            Seen::keeps(begin + 2, readers)
        }
    }

    mutant! {
        /// Sees the write that follows the beginning of the scan.
        SeesTheNext:
        fn keeps(begin: u64, readers: Readers) -> bool {
            Seen::keeps(begin, readers)
        }

        fn sees(scan: u64, begin: u64, end: u64) -> bool {
            begin <= scan + 1 && scan < end
        }
    }

    mutant! {
        /// Goes by the beginnings of versions only, as one does that forgets removals.
        ForgetsEnds:
        fn keeps(begin: u64, readers: Readers) -> bool {
            Seen::keeps(begin, readers)
        }

        fn sees(scan: u64, begin: u64, _: u64) -> bool {
            begin <= scan
        }
    }

    mutant! {
        /// Frees a version that the oldest scan has still to read.
        FreesOneMore:
        fn keeps(begin: u64, readers: Readers) -> bool {
            Seen::keeps(begin, readers)
        }

        fn is_garbage(end: u64, horizon: u64) -> bool {
            end <= horizon + 1
        }
    }

    fn rejects<K: Keep>() {
        let new = |shape| Store::<K>::new(shape, Some(steps::INDEXED)).expect("a small store");
        let check = || (0..20).for_each(|seed| _ = steps::check(new, None, seed));
        let complaint = std::panic::catch_unwind(check).expect_err(std::any::type_name::<K>());
        let complaint = complaint.downcast::<String>().expect("the complaint is a text");
        assert!(complaint.contains("seed "), "another complaint: {complaint}");
    }

    #[test]
    fn stores_that_keep_or_show_other_versions_are_rejected() {
        rejects::<KeepsOneLess>();
        rejects::<SeesTheNext>();
        rejects::<ForgetsEnds>();
        rejects::<FreesOneMore>();
    }
}

#[cfg(loom)]
mod model {
    use super::*;
    use crate::mvcc::Store;
    use crate::records::model::{By, MOVES, SINGLES, TWO_BY_TABLE, check};

    mutant! {
        /// Scans draw their timestamps before writers can know of them.
        RegistersLate:
        const REGISTERS_FIRST: bool = false;

        fn keeps(begin: u64, readers: Readers) -> bool {
            Seen::keeps(begin, readers)
        }
    }

    mutant! {
        /// Writers draw their timestamps before they have their latches.
        LatchesLate:
        const LATCHES_FIRST: bool = false;

        fn keeps(begin: u64, readers: Readers) -> bool {
            Seen::keeps(begin, readers)
        }
    }

    fn new<K: Keep>(shape: crate::Shape) -> Store<K> {
        Store::new(shape, Some(1)).expect("a small store")
    }

    #[test]
    #[should_panic(expected = "steps before is none of")]
    fn scans_that_register_late_are_rejected() {
        check(new::<RegistersLate>, SINGLES, TWO_BY_TABLE, None);
    }

    #[test]
    #[should_panic(expected = "steps before is none of")]
    fn writers_that_latch_late_are_rejected() {
        check(new::<LatchesLate>, MOVES, &[By::Index(0)], None);
    }
}
