//! Writes a stream: its entries, then what it knows of itself, then its groups.
//!
//! ```text
//!   entries ──> group ──> consumer ──> consumer ──> group ──> consumer ──> finish
//! ```

use super::node::Packer;
use super::parts::{Consumer, Group, NEVER, Pending, StreamHead, StreamId, UNKNOWN};
use crate::format::{VERSION_WITH_ACTIVE, VERSION_WITH_FUNCTIONS};
use crate::sink::ValueWriter;
use std::io::{self, Write};

impl<W: Write> ValueWriter<'_, W> {
    /// The stream as a whole, and its entries in the order of their IDs. So many groups follow.
    ///
    /// The entries are asked for twice: the number of nodes stands before the first.
    pub fn entries<'e, I, F>(
        &mut self,
        head: &StreamHead,
        groups: u64,
        entries: impl Fn() -> I,
    ) -> io::Result<()>
    where
        I: Iterator<Item = (StreamId, F)>,
        F: Iterator<Item = (&'e [u8], &'e [u8])>,
    {
        let (mut nodes, mut count, mut first_id) = (0, 0, None);
        let told = entries().inspect(|(id, _)| {
            count += 1;
            first_id.get_or_insert(*id);
        });
        pack(told, |_, _| {
            nodes += 1;
            Ok(())
        })?;
        self.count_entries(count, groups);
        self.sink.number(nodes)?;
        pack(entries(), |id, listpack| {
            self.sink.string(&id.to_bytes())?;
            self.sink.string(listpack)
        })?;
        self.sink.number(count)?;
        self.id(head.last_id)?;
        if self.is_of_7_0() {
            self.id(first_id.unwrap_or_default())?;
            self.id(head.max_deleted_id)?;
            self.sink.number(head.entries_added)?;
        }
        self.sink.number(groups)
    }

    /// A group, and what is pending in it: so many entries in the order of their IDs. So many consumers
    /// follow; each of those entries has to be pending for one of them.
    pub fn group<'p>(
        &mut self,
        group: &Group<'_>,
        (pending_count, pending): (u64, impl Iterator<Item = Pending<'p>>),
        consumers: u64,
    ) -> io::Result<()> {
        self.count_part(consumers);
        self.sink.string(group.name)?;
        self.id(group.last_id)?;
        if self.is_of_7_0() {
            self.sink.number(group.entries_read.unwrap_or(UNKNOWN))?;
        }
        self.sink.number(pending_count)?;
        let mut written = 0;
        for pending in pending {
            self.sink.bytes(&pending.id.to_bytes())?;
            self.sink.bytes(&pending.delivered_ms.to_le_bytes())?;
            self.sink.number(pending.deliveries)?;
            written += 1;
        }
        assert_eq!(written, pending_count, "as much is pending as was said");
        self.sink.number(consumers)
    }

    /// A consumer of the last group, and the IDs of what is pending for it, in their order. When it got
    /// something last is written from version 11 on.
    pub fn consumer(
        &mut self,
        consumer: &Consumer<'_>,
        (pending_count, pending): (u64, impl Iterator<Item = StreamId>),
    ) -> io::Result<()> {
        self.count_part(0);
        self.sink.string(consumer.name)?;
        self.sink.bytes(&consumer.seen_ms.to_le_bytes())?;
        if self.version >= VERSION_WITH_ACTIVE {
            let active_ms = consumer.active_ms.and_then(|ms| i64::try_from(ms).ok());
            self.sink.bytes(&active_ms.unwrap_or(NEVER).to_le_bytes())?;
        }
        self.sink.number(pending_count)?;
        let mut written = 0;
        for id in pending {
            self.sink.bytes(&id.to_bytes())?;
            written += 1;
        }
        assert_eq!(written, pending_count, "as much is pending as was said");
        Ok(())
    }

    fn id(&mut self, id: StreamId) -> io::Result<()> {
        self.sink.number(id.ms)?;
        self.sink.number(id.seq)
    }

    /// Whether the stream is written as type 19 or 21, not 15.
    fn is_of_7_0(&self) -> bool {
        self.version >= VERSION_WITH_FUNCTIONS
    }
}

/// Makes nodes of entries, and hands them over.
fn pack<'e, F: Iterator<Item = (&'e [u8], &'e [u8])>>(
    entries: impl Iterator<Item = (StreamId, F)>,
    mut take: impl FnMut(StreamId, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut packer = Packer::new();
    for (id, fields) in entries {
        if let Some((id, listpack)) = packer.push(id, fields) {
            take(id, &listpack)?;
        }
    }
    packer.finish().map_or(Ok(()), |(id, listpack)| take(id, &listpack))
}
