//! Tries all orders in which the masks of virtual lightweight snapshots may be published and read, by loom.
//! The model of the whole store is that of all stores (`records/model.rs`).

use loom::sync::Arc;
use loom::thread;

use super::view::{Published, View};
use super::{Mask, Wide};

/// A published view is read as a whole, also with wide masks.
fn check_view<M: Mask>() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let published = Arc::new(Published::<M>::new());
        let all = |mask: M| View { active: mask, stable: mask, index_active: mask };
        published.write(all(M::ZEROS));
        let of_writer = published.clone();
        let writer = thread::spawn(move || {
            of_writer.write(all(M::ONES));
        });
        let View { active, stable, index_active } = published.read();
        assert!(active == M::ZEROS || active == M::ONES, "{active:?}");
        assert_eq!((active, active), (stable, index_active));
        writer.join().unwrap();
    });
}

#[test]
fn masks_are_read_as_one() {
    check_view::<u64>();
    // More words are the same code, in more orders than can be tried.
    check_view::<Wide<2>>();
}
