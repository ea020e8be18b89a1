//! Tries all orders in which a writer and scans of version chains may act, by the model of all stores.

use super::{Every, Keep, Seen, Store};
use crate::Shape;
use crate::records::model::{
    By, GOES_AND_COMES, INDEX_THEN_TABLE, MOVES, SINGLES, SWAP, TRANSFERS, TWO_BY_TABLE, check,
};

fn new<K: Keep>(shape: Shape) -> Store<K> {
    Store::new(shape, Some(1)).expect("a small store")
}

#[test]
fn batches_are_seen_whole_or_not_at_all() {
    check(new::<Every>, TRANSFERS, TWO_BY_TABLE, None);
    check(new::<Seen>, TRANSFERS, TWO_BY_TABLE, None);
    check(new::<Seen>, SWAP, INDEX_THEN_TABLE, None);
}

#[test]
fn single_writes_are_seen_in_their_order() {
    check(new::<Every>, SINGLES, TWO_BY_TABLE, None);
    check(new::<Seen>, SINGLES, TWO_BY_TABLE, None);
}

#[test]
fn records_that_move_in_the_index_are_seen_at_one_place() {
    check(new::<Seen>, MOVES, INDEX_THEN_TABLE, None);
    check(new::<Every>, MOVES, &[By::Index(0)], None);
    check(new::<Seen>, GOES_AND_COMES, INDEX_THEN_TABLE, None);
}

#[test]
fn scans_that_break_off_leave_nothing_behind() {
    check(new::<Every>, &SINGLES[..1], &[By::Table], Some(1));
}
