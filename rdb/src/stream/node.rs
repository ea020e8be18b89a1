//! A node of a stream: a listpack with entries, whose IDs count from that of the node.
//!
//! ```text
//!   master   count | deleted | number of fields | field … | 0
//!   entry    flags | ms | seq | [number of fields] | field, value … | how many items these are
//!            or, with the fields of the master:        value … |
//! ```
//!
//! Milliseconds and numbers are differences to the ID of the node. Deleted entries are passed over.

use super::parts::StreamId;
use super::repeats::Repeats;
use crate::blob::Item;
use crate::blob::listpack::{Builder, Items};
use crate::error::{BlobError, Damage};
use crate::format::STRING_BYTES_MAX;

/// Bytes of the length of a part of an element at most.
const LENGTH_BYTES_MAX: u64 = 5;
const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Flags and the two parts of the ID.
const ITEMS_ALWAYS: u64 = 3;

/// The fields of an entry with their values, in order; a field may be there twice.
#[derive(Clone)]
pub struct Fields<'a> {
    len: u64,
    /// The fields with their values; or, if these are elsewhere, the fields.
    items: Items<'a>,
    values: Option<Items<'a>>,
}

impl Fields<'_> {
    /// How many there are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Hands over field after field.
    pub fn for_each(&self, mut take: impl FnMut(&[u8], &[u8])) {
        let (mut items, mut values) = (self.items.clone(), self.values.clone());
        let (mut digits, mut more_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        for _ in 0..self.len {
            let field = next_of(&mut items);
            let value = next_of(values.as_mut().unwrap_or(&mut items));
            take(field.text(&mut digits), value.text(&mut more_digits));
        }
    }
}

fn next_of<'a>(items: &mut Items<'a>) -> Item<'a> {
    items.item().expect("the items of an entry were read before")
}

/// Walks the entries of a node that are not deleted; how many there are.
pub(super) fn walk(
    node: StreamId,
    listpack: &[u8],
    repeats: &mut Repeats,
    take: &mut dyn FnMut(StreamId, Fields<'_>) -> Result<(), Damage>,
) -> Result<u64, Damage> {
    walk_items(node, listpack, repeats, take).map_err(|fault| match fault {
        Fault::Blob(BlobError { at, problem }) => Damage::Blob { form: "node of a stream", at, problem },
        Fault::Other(damage) => damage,
    })
}

enum Fault {
    Blob(BlobError),
    Other(Damage),
}

impl From<BlobError> for Fault {
    fn from(error: BlobError) -> Fault {
        Fault::Blob(error)
    }
}

fn walk_items(
    node: StreamId,
    listpack: &[u8],
    repeats: &mut Repeats,
    take: &mut dyn FnMut(StreamId, Fields<'_>) -> Result<(), Damage>,
) -> Result<u64, Fault> {
    let mut items = Items::new(listpack)?;
    let (count, deleted) = (count_of(&mut items)?, count_of(&mut items)?);
    let master_len = count_of(&mut items)?;
    let master = items.clone();
    let master_bytes = pass(&mut items, master_len)?;
    let at = items.at();
    if int(&mut items)? != 0 {
        return Ok(BlobError::new(at, "behind the fields that entries share stands no 0")?);
    }
    let (mut live, mut gone) = (0, 0);
    while !items.is_at_end()? {
        let flags = int(&mut items)?;
        let (ms, seq) = (int(&mut items)?, int(&mut items)?);
        let id = StreamId { ms: node.ms.wrapping_add(ms as u64), seq: node.seq.wrapping_add(seq as u64) };
        let shares = flags & SAME_FIELDS != 0;
        let len = if shares { master_len } else { count_of(&mut items)? };
        let start = items.clone();
        let (bytes, parts) = match shares {
            true => (pass(&mut items, len)? + master_bytes, ITEMS_ALWAYS.saturating_add(len)),
            false => (pass(&mut items, len.saturating_mul(2))?, ITEMS_ALWAYS + 1 + len.saturating_mul(2)),
        };
        let at = items.at();
        if count_of(&mut items)? != parts {
            return Ok(BlobError::new(at, "an entry has another number of items than it says")?);
        }
        if flags & DELETED != 0 {
            gone += 1;
            continue;
        }
        live += 1;
        // As an element of a stream it has the lengths of its parts besides.
        if bytes.saturating_add(LENGTH_BYTES_MAX.saturating_mul(len.saturating_mul(2).saturating_add(4)))
            > STRING_BYTES_MAX
        {
            return Err(Fault::Other(Damage::StringTooLong(bytes)));
        }
        let fields = match shares {
            true => {
                repeats.spend(master_bytes).map_err(Fault::Other)?;
                Fields { len, items: master.clone(), values: Some(start) }
            }
            false => Fields { len, items: start, values: None },
        };
        take(id, fields).map_err(Fault::Other)?;
    }
    if (live, gone) != (count, deleted) {
        return Ok(BlobError::new(0, "it has another number of entries than it says")?);
    }
    Ok(live)
}

/// The next item, which has to be a number.
fn int(items: &mut Items<'_>) -> Result<i64, BlobError> {
    let at = items.at();
    match items.item()? {
        Item::Int(number) => Ok(number),
        Item::Bytes(_) => no_number(at),
    }
}

/// The next item, which has to be a number that is not negative.
fn count_of(items: &mut Items<'_>) -> Result<u64, BlobError> {
    let at = items.at();
    u64::try_from(int(items)?).or_else(|_| BlobError::new(at, "a count is negative"))
}

fn no_number<T>(at: usize) -> Result<T, BlobError> {
    BlobError::new(at, "in the place of a number stands a string")
}

/// Passes over so many items; how many bytes they take as strings with their lengths.
fn pass(items: &mut Items<'_>, len: u64) -> Result<u64, BlobError> {
    let (mut bytes, mut digits) = (0, itoa::Buffer::new());
    for _ in 0..len {
        let len = items.item()?.text(&mut digits).len() as u64;
        bytes += len + 1 + u64::from(len.checked_ilog2().unwrap_or(0) / 7);
    }
    Ok(bytes)
}

/// Bytes of a node, about, and entries of one, at most: the settings of Redis by default.
const NODE_BYTES_MAX: usize = 4096;
const NODE_ENTRIES_MAX: u8 = 100;

const _: () = assert!(NODE_ENTRIES_MAX < 128, "the count of a node is a number of one byte");

/// Makes nodes of entries, each as full as Redis makes them.
pub(super) struct Packer<'e> {
    node: Option<Node>,
    fields: Vec<(&'e [u8], &'e [u8])>,
}

struct Node {
    id: StreamId,
    listpack: Builder,
    count: u8,
    /// The fields of its first entry, each with where it ends.
    names: Vec<u8>,
    ends: Vec<usize>,
}

impl<'e> Packer<'e> {
    pub(super) fn new() -> Packer<'e> {
        Packer { node: None, fields: Vec::new() }
    }

    /// Adds an entry; the node that was full before, as its ID and its listpack.
    pub(super) fn push(
        &mut self,
        id: StreamId,
        fields: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Option<(StreamId, Vec<u8>)> {
        self.fields.clear();
        self.fields.extend(fields);
        let bytes: usize = self.fields.iter().map(|(field, value)| field.len() + value.len()).sum();
        let full = self
            .node
            .take_if(|node| node.listpack.len() + bytes >= NODE_BYTES_MAX || node.count == NODE_ENTRIES_MAX);
        self.node.get_or_insert_with(|| Node::new(id, &self.fields)).push(id, &self.fields);
        full.map(Node::finish)
    }

    /// The last node.
    pub(super) fn finish(self) -> Option<(StreamId, Vec<u8>)> {
        self.node.map(Node::finish)
    }
}

impl Node {
    fn new(id: StreamId, fields: &[(&[u8], &[u8])]) -> Node {
        let mut node = Node { id, listpack: Builder::new(), count: 0, names: Vec::new(), ends: Vec::new() };
        // The count, which is known at the end; how many are deleted; the fields.
        [0, 0, fields.len() as i64].into_iter().for_each(|number| node.listpack.push_int(number));
        for (field, _) in fields {
            node.listpack.push(field);
            node.names.extend_from_slice(field);
            node.ends.push(node.names.len());
        }
        node.listpack.push_int(0);
        node
    }

    fn push(&mut self, id: StreamId, fields: &[(&[u8], &[u8])]) {
        self.count += 1;
        let shares = self.has_fields(fields);
        self.listpack.push_int(if shares { SAME_FIELDS } else { 0 });
        self.listpack.push_int(id.ms.wrapping_sub(self.id.ms) as i64);
        self.listpack.push_int(id.seq.wrapping_sub(self.id.seq) as i64);
        let mut parts = ITEMS_ALWAYS as usize + fields.len();
        if !shares {
            self.listpack.push_int(fields.len() as i64);
            parts += 1 + fields.len();
        }
        for (field, value) in fields {
            if !shares {
                self.listpack.push(field);
            }
            self.listpack.push(value);
        }
        self.listpack.push_int(parts as i64);
    }

    /// Whether these are the fields of the first entry.
    fn has_fields(&self, fields: &[(&[u8], &[u8])]) -> bool {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let mut names = starts.zip(&self.ends).map(|(start, end)| &self.names[start..*end]);
        fields.len() == self.ends.len() && fields.iter().all(|(field, _)| names.next() == Some(field))
    }

    fn finish(self) -> (StreamId, Vec<u8>) {
        let mut listpack = self.listpack.finish();
        listpack[Builder::FIRST] = self.count;
        (self.id, listpack)
    }
}
