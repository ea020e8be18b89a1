//! The visitor of values: a reader hands each value to it, element by element.

use crate::format::Kind;
use crate::stream::{Consumer, Fields, Group, Idempotence, Message, Pending, StreamHead, StreamId};

/// Takes a value element by element; borrowed bytes last for the call.
///
/// Members of sets and sorted sets, fields of hashes, groups, consumers of a group and what is pending in it,
/// producers and messages of each come once each, scores are numbers. When reading ends
/// with an error, the elements so far are not the value.
pub trait Visitor {
    /// A value of this kind follows. Called first, once for each value.
    fn begin(&mut self, kind: Kind) {
        let _ = kind;
    }

    /// A string, or the text of a document, whole. It is not checked that the text is JSON.
    fn string(&mut self, string: &[u8]) {
        let _ = string;
    }

    /// The next element of a list, or another member of a set.
    fn element(&mut self, element: &[u8]) {
        let _ = element;
    }

    /// Another field of a hash.
    fn field(&mut self, field: &[u8], value: &[u8]) {
        let _ = (field, value);
    }

    /// Another field of a hash, which is gone from this time on, in milliseconds since the Unix epoch. Who
    /// does not care for times gets it as another field.
    fn timed_field(&mut self, field: &[u8], value: &[u8], time: u64) {
        let _ = time;
        self.field(field, value);
    }

    /// Another member of a sorted set, in no order.
    fn scored(&mut self, member: &[u8], score: f64) {
        let _ = (member, score);
    }

    /// The next entry of a stream; IDs ascend from `0-1`.
    fn entry(&mut self, id: StreamId, fields: Fields<'_>) {
        let _ = (id, fields);
    }

    /// A stream as a whole: called once for each, behind its entries.
    fn stream(&mut self, head: &StreamHead) {
        let _ = head;
    }

    /// Another group of a stream.
    fn group(&mut self, group: &Group<'_>) {
        let _ = group;
    }

    /// Another consumer of the group that came last.
    fn consumer(&mut self, group: &[u8], consumer: &Consumer<'_>) {
        let _ = (group, consumer);
    }

    /// Another entry that is pending in the group that came last, for the consumer that came last.
    fn pending(&mut self, group: &[u8], pending: &Pending<'_>) {
        let _ = (group, pending);
    }

    /// Another message of a producer of a stream, behind all groups; of each producer the oldest first.
    fn message(&mut self, producer: &[u8], message: &Message<'_>) {
        let _ = (producer, message);
    }

    /// Says how the stream remembers messages of producers; behind all of them.
    fn idempotence(&mut self, how: &Idempotence) {
        let _ = how;
    }
}

/// Takes nothing: values are read for their sense alone.
impl Visitor for () {}
