//! A barrier for all replayers.

use crate::lock::{Condvar, Mutex};

/// A barrier for all replayers, except that the others no longer wait for one that leaves, be it by a panic.
pub(super) struct Meeting {
    state: Mutex<Attendance>,
    changed: Condvar,
}

struct Attendance {
    members: usize,
    arrived: usize,
    /// Rises when all have arrived.
    round: u64,
}

/// Leaves the meeting when it is dropped.
pub(super) struct Member<'m>(pub(super) &'m Meeting);

impl Meeting {
    pub(super) fn of(members: usize) -> Meeting {
        let state = Mutex::new(Attendance { members, arrived: 0, round: 0 });
        Meeting { state, changed: Condvar::new() }
    }

    /// Waits until all members are here; `true` for the one who came last.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        state.arrived += 1;
        let round = state.round;
        if self.begin_if_complete(&mut state) {
            return true;
        }
        self.changed.wait_while(&mut state, |state| state.round == round);
        false
    }

    fn begin_if_complete(&self, state: &mut Attendance) -> bool {
        let complete = state.arrived == state.members;
        if complete {
            state.arrived = 0;
            state.round += 1;
            self.changed.notify_all();
        }
        complete
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.members -= 1;
        self.0.begin_if_complete(&mut state);
    }
}
