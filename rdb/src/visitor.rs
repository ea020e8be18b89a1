//! The visitor of values: a reader hands each value to it, element by element.

use crate::format::Kind;

/// Takes a value element by element; borrowed bytes last for the call.
///
/// Members of sets and sorted sets and fields of hashes come once each, scores are numbers. When reading ends
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

    /// Another member of a sorted set, in no order.
    fn scored(&mut self, member: &[u8], score: f64) {
        let _ = (member, score);
    }
}

/// Takes nothing: values are read for their sense alone.
impl Visitor for () {}
