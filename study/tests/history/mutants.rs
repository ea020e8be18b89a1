//! Algorithms with a mistake: the published rules, and ones that lack half of the cure.

use std::ops::ControlFlow;

use tarn_study::transaction::{
    Calc, Cpr, Locks, Meeting, Newest, PartialCalc, Period, Periods, Version, VirtualAlgorithm,
    VirtualHourglass, VirtualPiggyback,
};
use tarn_study::{Shape, SnapshotError, Visit};

/// A type that does as the algorithm within, but for its rule of restarts, the period that it takes for that
/// of the commit, and, where that is said, for when it ends a snapshot.
macro_rules! mutant {
    ($(#[$doc:meta])* $name:ident($inner:ty), restarts: $restarts:expr, committed: $committed:expr) => {
        mutant! {
            $(#[$doc])* $name($inner), restarts: $restarts, committed: $committed, ends_before_it_shows: false
        }
    };
    (
        $(#[$doc:meta])* $name:ident($inner:ty),
        restarts: $restarts:expr,
        committed: $committed:expr,
        ends_before_it_shows: $ends:expr
    ) => {
        $(#[$doc])*
        pub(crate) struct $name($inner);

        impl VirtualAlgorithm for $name {
            const NAME: &'static str = stringify!($name);
            const FULL: bool = <$inner as VirtualAlgorithm>::FULL;
            const COPIES: usize = <$inner as VirtualAlgorithm>::COPIES;

            fn new(shape: Shape) -> Result<Self, SnapshotError> {
                Ok($name(<$inner>::new(shape)?))
            }

            fn version(began: Period, committed: Period) -> Version {
                let rule: fn(Period, Period) -> Period = $committed;
                <$inner as VirtualAlgorithm>::version(began, rule(began, committed))
            }

            fn must_restart(meeting: Meeting) -> bool {
                let rule: fn(Meeting) -> bool = $restarts;
                rule(meeting)
            }

            fn fetch(&self, row: usize) {
                self.0.fetch(row);
            }

            fn read(&self, row: usize, newest: Newest, fields: &mut [u64]) {
                self.0.read(row, newest, fields);
            }

            fn before_write(&self, began: Period, row: usize) {
                self.0.before_write(began, row);
            }

            fn install(
                &self,
                began: Period,
                committed: Period,
                row: usize,
                newest: Newest,
                fields: &[u64],
            ) -> usize {
                let rule: fn(Period, Period) -> Period = $committed;
                self.0.install(began, rule(began, committed), row, newest, fields)
            }

            fn take(&self, periods: &Periods) {
                self.0.take(periods);
            }

            fn settle(&self, periods: &Periods) {
                self.0.settle(periods);
            }

            fn traverse(&self, periods: &Periods, locks: &Locks, visit: Visit<'_>) -> ControlFlow<()> {
                if $ends {
                    self.0.finish(periods, locks);
                }
                self.0.traverse(periods, locks, visit)
            }

            fn finish(&self, periods: &Periods, locks: &Locks) {
                self.0.finish(periods, locks);
            }

            fn abandon(&self, periods: &Periods, locks: &Locks) {
                self.0.abandon(periods, locks);
            }
        }
    };
}

mutant! {
    /// vHG as published: an older transaction writes to its copy whatever it meets.
    PublishedHourglass(VirtualHourglass), restarts: |_| false, committed: |_, committed| committed
}

mutant! {
    /// vPB as published: as vHG.
    PublishedPiggyback(VirtualPiggyback), restarts: |_| false, committed: |_, committed| committed
}

mutant! {
    /// An older transaction is restarted where a newer one has written, but not where one has read.
    WrittenOnly(VirtualHourglass), restarts: |meeting| meeting.written, committed: |_, committed| committed
}

mutant! {
    /// An older transaction may read the writes of a newer one.
    WritersOnly(VirtualPiggyback),
    restarts: |meeting| meeting.to_write && (meeting.written || meeting.read),
    committed: |_, committed| committed
}

mutant! {
    /// CPR without restarts.
    CprWithoutRestarts(Cpr), restarts: |_| false, committed: |_, committed| committed
}

mutant! {
    /// As `CalcByWrite`, with partial snapshots.
    PartialCalcByWrite(PartialCalc), restarts: <PartialCalc>::must_restart, committed: |began, _| began
}

mutant! {
    /// A write that was made in the phase prepare counts as before the cut, wherever its transaction commits.
    CalcByWrite(Calc), restarts: <Calc>::must_restart, committed: |began, _| began
}

mutant! {
    /// vHG that counts a snapshot as over before it has shown it: rows that it needs are written over.
    EndedHourglass(VirtualHourglass),
    restarts: <VirtualHourglass>::must_restart,
    committed: |_, committed| committed,
    ends_before_it_shows: true
}

mutant! {
    /// vPB that does the same.
    EndedPiggyback(VirtualPiggyback),
    restarts: <VirtualPiggyback>::must_restart,
    committed: |_, committed| committed,
    ends_before_it_shows: true
}
