//! The names of entries as the nodes of a large stream have them: in fewer bytes than elsewhere.
//!
//! ```text
//! elsewhere   2 [ms, 8 bytes][seq, 8 bytes]
//! in nodes    2+n [ms, n bytes][seq: nothing if it is 0; one byte below 248; else 247+m and m bytes]
//! ```
//!
//! All numbers are big-endian, and of the second form have no zeros in front. An ID of today, the first or
//! the second of its millisecond, so takes 7 or 8 bytes, not 17. Both forms have the order of the IDs, and
//! stand behind the names of all other elements, which are the same everywhere. The log, images, checkpoints
//! and small streams, which are in one piece, have the long form. A short name that begins with 2 has less
//! than 17 bytes, so none is taken for one of the other form.

use std::ops::Deref;

use smallvec::SmallVec;

use super::element::{ENTRY, ENTRY_NAME_BYTES, bytes_of_id, id_of_bytes};
use crate::record::StreamId;

/// The least first byte of a seq that stands behind it, and so says how many bytes it has.
const LONG_SEQ: u8 = 248;
/// Bytes of a short name at most.
const SHORT_BYTES_MAX: usize = 1 + 8 + 1 + 8;

/// The name of an element in one of its forms. It dereferences to the bytes.
#[derive(Clone, Debug)]
pub enum Spelled<'a> {
    /// It is the same in both forms, or was in this form.
    Same(&'a [u8]),
    /// That of an entry, which was in the other form.
    Entry(SmallVec<[u8; SHORT_BYTES_MAX]>),
}

impl Deref for Spelled<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Spelled::Same(name) => name,
            Spelled::Entry(name) => name,
        }
    }
}

/// The name as it stands in nodes.
#[inline]
pub(crate) fn short(name: &[u8]) -> Spelled<'_> {
    match long_id(name) {
        Some(id) => Spelled::Entry(short_of(id)),
        None => Spelled::Same(name),
    }
}

/// The name as it stands in the log, from one that stands in nodes or in one piece.
#[inline]
pub(crate) fn long(name: &[u8]) -> Spelled<'_> {
    let id = if long_id(name).is_some() { None } else { short_id(name) };
    let Some(id) = id else { return Spelled::Same(name) };
    let mut long = SmallVec::new();
    long.push(ENTRY);
    long.extend_from_slice(&bytes_of_id(id));
    Spelled::Entry(long)
}

/// The ID of the entry of this name, in either form; `None` if it is that of another element.
#[inline]
pub(crate) fn id_of(name: &[u8]) -> Option<StreamId> {
    long_id(name).or_else(|| short_id(name))
}

/// Whether a name in either form, or a bound, is behind those of all elements that are no entries.
#[inline]
pub(super) fn is_behind_others(name: &[u8]) -> bool {
    name.first().is_some_and(|tag| *tag >= ENTRY)
}

#[inline]
fn long_id(name: &[u8]) -> Option<StreamId> {
    match name.split_first() {
        Some((&ENTRY, id)) if name.len() == ENTRY_NAME_BYTES => id_of_bytes(id),
        _ => None,
    }
}

#[inline]
fn short_of(id: StreamId) -> SmallVec<[u8; SHORT_BYTES_MAX]> {
    let len_of = |number: u64| 8 - number.leading_zeros() as usize / 8;
    // The bytes from the first that is no zero on, in front of zeros: each is written by one store.
    let from_first = |number: u64| (number << (number.leading_zeros() / 8 * 8 % 64)).to_be_bytes();
    let (ms_len, seq_len) = (len_of(id.ms), len_of(id.seq));
    let (mut name, mut at) = ([0; SHORT_BYTES_MAX], 1 + ms_len);
    name[0] = ENTRY + ms_len as u8;
    name[1..9].copy_from_slice(&from_first(id.ms));
    if id.seq >= u64::from(LONG_SEQ) {
        name[at] = LONG_SEQ - 1 + seq_len as u8;
        at += 1;
    }
    name[at..at + 8].copy_from_slice(&from_first(id.seq));
    SmallVec::from_buf_and_len(name, at + seq_len)
}

#[inline]
fn short_id(name: &[u8]) -> Option<StreamId> {
    let (&tag, rest) = name.split_first()?;
    let ms_len = usize::from(tag.checked_sub(ENTRY)?);
    if let (4..=8, Some(front), Some(back)) = (name.len(), name.first_chunk(), name.last_chunk())
        && let Some(seq_len @ 0..=1) = rest.len().checked_sub(ms_len)
    {
        // As nearly all names: two loads, which overlap.
        let whole = u64::from(u32::from_be_bytes(*front)) << (8 * (name.len() - 4))
            | u64::from(u32::from_be_bytes(*back));
        let low = |number: u64, len: usize| number & ((1 << (8 * len)) - 1);
        return Some(StreamId::new(low(whole >> (8 * seq_len), ms_len), low(whole, seq_len)));
    }
    let (ms, seq) = rest.split_at_checked(ms_len)?;
    let seq = match seq {
        [first, rest @ ..] if *first >= LONG_SEQ => rest,
        _ => seq,
    };
    Some(StreamId::new(number(ms)?, number(seq)?))
}

/// The number of these bytes; `None` if they are too many.
#[inline]
fn number(bytes: &[u8]) -> Option<u64> {
    (bytes.len() <= size_of::<u64>()).then(|| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::element::entry_name;
    use super::*;

    /// Numbers about the places where one more byte is needed.
    fn numbers() -> impl Strategy<Value = u64> {
        let edge = (0..64u32, -1..2i64).prop_map(|(bit, by)| (1u64 << bit).wrapping_add_signed(by));
        prop_oneof![edge, 240..260u64, Just(u64::MAX), any::<u64>()]
    }

    fn ids() -> impl Strategy<Value = StreamId> {
        (numbers(), numbers()).prop_map(|(ms, seq)| StreamId::new(ms, seq))
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 4_000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn short_names_have_the_order_of_ids_and_lead_back_to_them(one in ids(), other in ids(), same: bool) {
            let other = if same { StreamId::new(one.ms, other.seq) } else { other };
            let (name, other_name) = (entry_name(one), entry_name(other));
            let (short_name, other_short) = (short(&name), short(&other_name));
            prop_assert_eq!(short_name.cmp(&other_short), one.cmp(&other));
            prop_assert!(short_name.len() <= SHORT_BYTES_MAX && short_name[..] != name[..]);
            prop_assert!(short_name[..] >= [ENTRY][..] && is_behind_others(&short_name));
            prop_assert_eq!((id_of(&name), id_of(&short_name)), (Some(one), Some(one)));
            prop_assert_eq!((&long(&short_name)[..], &long(&name)[..]), (&name[..], &name[..]));
            prop_assert_eq!(&short(&short_name)[..], &short_name[..]);
            for made in [&short_name, &long(&short_name)] {
                prop_assert!(!matches!(made, Spelled::Entry(name) if name.spilled()), "no memory is taken");
            }
        }
    }

    #[test]
    fn names_of_today_are_short_and_those_of_other_elements_stay() {
        let today = StreamId::new(1_790_000_000_000, 0);
        assert_eq!(short(&entry_name(today)).len(), 7);
        assert_eq!(short(&entry_name(StreamId::new(today.ms, 1))).len(), 8);
        assert_eq!(&short(&entry_name(StreamId::MIN))[..], [ENTRY]);
        for name in [&b""[..], b"\x00", b"\x00\x01", b"\x01\x01g\x00", &[1; 17], &[0; 17], &[ENTRY]] {
            assert_eq!(&short(name)[..], name);
        }
        for name in [&b""[..], b"\x00", b"\x01\x01g\x00", &[1; 17], &[0; 17]] {
            assert!(&long(name)[..] == name && id_of(name).is_none());
        }
    }
}
