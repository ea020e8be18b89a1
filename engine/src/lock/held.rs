//! The locks that a thread holds, in debug builds. Other builds record nothing, nor does a checker, which
//! runs several threads in one.

#[cfg(any(not(debug_assertions), shuttle, loom))]
pub(super) use unchecked::{Held, Place};

#[cfg(all(debug_assertions, not(any(shuttle, loom))))]
pub(super) use checked::{Held, Place};

#[cfg(any(not(debug_assertions), shuttle, loom))]
mod unchecked {
    use crate::lock::{Number, Rank};
    use std::marker::PhantomData;

    /// Which lock it is.
    pub(crate) struct Place;

    impl Place {
        #[inline(always)]
        pub(crate) fn of<T>(_: *const impl Sized, _: Option<Number>) -> Place {
            Place
        }
    }

    /// The note that this thread holds a lock.
    pub(crate) struct Held<R>(PhantomData<fn() -> R>);

    impl<R: Rank> Held<R> {
        #[inline(always)]
        pub(crate) fn in_order(_: Place) -> Held<R> {
            Held(PhantomData)
        }

        #[inline(always)]
        pub(crate) fn at_once(_: Place) -> Held<R> {
            Held(PhantomData)
        }

        #[inline(always)]
        #[cfg(not(shuttle))]
        pub(crate) fn may_wait(&self) {}
    }
}

#[cfg(all(debug_assertions, not(any(shuttle, loom))))]
mod checked {
    use crate::lock::{Number, Rank};
    use std::cell::RefCell;
    use std::fmt;
    use std::marker::PhantomData;
    use std::panic::Location;

    thread_local! {
        /// The locks that this thread holds, in the order in which it took them.
        static HELD: RefCell<Vec<Lock>> = const { RefCell::new(Vec::new()) };
    }

    /// Which lock it is.
    #[derive(Clone, Copy)]
    pub(crate) struct Place {
        address: usize,
        number: Option<Number>,
        protects: &'static str,
        taken_at: &'static Location<'static>,
    }

    impl Place {
        #[track_caller]
        pub(crate) fn of<T>(raw: *const impl Sized, number: Option<Number>) -> Place {
            let protects = std::any::type_name::<T>();
            Place { address: raw.addr(), number, protects, taken_at: Location::caller() }
        }
    }

    /// A lock, with its rank.
    #[derive(Clone, Copy)]
    struct Lock {
        rank: usize,
        name: &'static str,
        place: Place,
    }

    impl Lock {
        fn new<R: Rank>(place: Place) -> Lock {
            Lock { rank: R::PLACE, name: R::NAME, place }
        }

        /// Whether who holds this one may wait for `next`.
        fn comes_before<R: Rank>(&self, next: &Lock) -> bool {
            if self.rank != next.rank {
                return self.rank < next.rank;
            }
            R::SEVERAL
                && match (self.place.number, next.place.number) {
                    (Some(held), Some(next)) if held.of == next.of => held.number < next.number,
                    _ => self.place.address != next.place.address,
                }
        }
    }

    impl fmt::Display for Lock {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "\"{}\" ({})", self.name, self.place.protects)?;
            match self.place.number {
                Some(number) => write!(f, ", number {}", number.number),
                None => Ok(()),
            }
        }
    }

    /// The note that this thread holds a lock, or waits for it.
    pub(crate) struct Held<R> {
        address: usize,
        rank: PhantomData<fn() -> R>,
    }

    impl<R: Rank> Held<R> {
        /// Panics if the thread holds a lock that does not come before this one: it might wait for ever.
        #[track_caller]
        pub(crate) fn in_order(place: Place) -> Held<R> {
            assert_order::<R>(&Lock::new::<R>(place), None);
            Held::at_once(place)
        }

        /// A thread that does not wait for a lock may take it in any order.
        pub(crate) fn at_once(place: Place) -> Held<R> {
            // What runs at the end of a thread, when this is gone, is not looked at.
            let _ = HELD.try_with(|held| held.borrow_mut().push(Lock::new::<R>(place)));
            Held { address: place.address, rank: PhantomData }
        }

        /// As `in_order`, for a lock that is given back and taken again behind a wait.
        #[track_caller]
        pub(crate) fn may_wait(&self) {
            let this = |lock: &&Lock| lock.place.address == self.address;
            let lock = HELD.try_with(|held| held.borrow().iter().rev().find(this).copied());
            if let Ok(Some(lock)) = lock {
                assert_order::<R>(&lock, Some(self.address));
            }
        }
    }

    /// Panics unless all that the thread holds, but for one lock, comes before `next`.
    #[track_caller]
    fn assert_order<R: Rank>(next: &Lock, but_for: Option<usize>) {
        // A panic that is under way is told of, whatever is held.
        if std::thread::panicking() {
            return;
        }
        let is_wrong = |held: &&Lock| Some(held.place.address) != but_for && !held.comes_before::<R>(next);
        let held = HELD.try_with(|held| held.borrow().iter().find(is_wrong).copied());
        if let Ok(Some(held)) = held {
            panic!(
                "a lock is taken out of order (docs/threads-and-locks.md): {next} by a thread that holds \
                 {held}, since {}",
                held.place.taken_at
            );
        }
    }

    impl<R> Drop for Held<R> {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|lock| lock.place.address == self.address) {
                    held.remove(at);
                }
            });
        }
    }
}
