//! Changes to the files of a log: accidents, and forgeries, which have checksums that fit. Places and
//! lengths are those of `docs/format/log.md`.

use crate::input::Input;
use crate::written::Files;

const FILE_HEADER: usize = 512;
const FILE_CRC: usize = 508;
const BLOCK_HEADER: usize = 64;
const BLOCK_BEGIN: [u8; 8] = *b"\xF5TarnBk\n";
const BLOCK_END: [u8; 8] = *b"\nkBnraT\xF5";

/// Fields of a file's header and of a block's: place and length.
const FILE_FIELDS: [(usize, usize); 9] =
    [(8, 4), (12, 4), (16, 8), (32, 4), (40, 8), (48, 8), (56, 8), (64, 8), (72, 8)];
const BLOCK_FIELDS: [(usize, usize); 7] = [(8, 8), (16, 8), (24, 8), (32, 8), (40, 4), (44, 4), (48, 8)];

/// Takes one operation from the input and does it; says whether it is a forgery.
pub fn change(files: &mut Files, input: &mut Input<'_>) -> bool {
    let operation = input.byte() % 9;
    if files.is_empty() {
        return false;
    }
    let index = usize::from(input.byte()) % files.len();
    let (next_sequence, next_lsn) = next_numbers(files);
    let bytes = &mut files[index].1;
    match operation {
        0 => bytes.truncate(input.below(bytes.len() + 1)),
        1 => {
            let place = input.below(bytes.len());
            bytes.get_mut(place).into_iter().for_each(|byte| *byte ^= input.byte());
        }
        2 => {
            let place = input.below(bytes.len() + 1);
            let count = usize::from(input.byte());
            write_over(&mut files[index].1, place, input.take(count));
        }
        3 => {
            let from = usize::from(input.byte()) % files.len();
            let start = input.below(files[from].1.len());
            let length = input.below(files[from].1.len() - start + 1);
            let piece = files[from].1[start..start + length].to_vec();
            let place = input.below(files[index].1.len() + 1);
            write_over(&mut files[index].1, place, &piece);
        }
        4 => drop(files.remove(index)),
        5 => {
            let field = FILE_FIELDS[usize::from(input.byte()) % FILE_FIELDS.len()];
            return set_field(bytes, 0, field, input.number()) && fit_file(bytes);
        }
        6 => {
            let Some((at, _)) = chosen_block(bytes, input) else { return false };
            let field = BLOCK_FIELDS[usize::from(input.byte()) % BLOCK_FIELDS.len()];
            return set_field(bytes, at, field, input.number()) && fit_block(bytes, at);
        }
        7 => {
            let Some((at, length)) = chosen_block(bytes, input) else { return false };
            let body = &mut bytes[at + BLOCK_HEADER..at + length - BLOCK_END.len()];
            let place = input.below(body.len());
            let count = usize::from(input.byte()).min(body.len() - place);
            let piece = input.take(count);
            body[place..place + piece.len()].copy_from_slice(piece);
            return fit_block(bytes, at);
        }
        _ => {
            let Some((at, length)) = blocks(bytes).last().copied() else { return false };
            let file_id = bytes[at + 8..at + 16].to_vec();
            let count = u32::from(input.byte());
            let body_len = input.below(2_048);
            let body = input.take(body_len);
            let mut block = [&BLOCK_BEGIN[..], &file_id, &next_sequence.to_le_bytes(), &[0; 8]].concat();
            block.extend_from_slice(&next_lsn.to_le_bytes());
            block.extend_from_slice(&count.to_le_bytes());
            block.extend_from_slice(&[0; 4]);
            let padded = (BLOCK_HEADER + body.len() + BLOCK_END.len()).next_multiple_of(8);
            block.extend_from_slice(&(padded as u64).to_le_bytes());
            block.resize(BLOCK_HEADER, 0);
            block.extend_from_slice(body);
            block.resize(padded - BLOCK_END.len(), 0);
            block.extend_from_slice(&BLOCK_END);
            write_over(bytes, at + length, &block);
            return fit_block(bytes, at + length);
        }
    }
    false
}

/// The sequence and the `Lsn` that a block behind all others has.
fn next_numbers(files: &Files) -> (u64, u64) {
    let last = files.iter().flat_map(|(_, bytes)| {
        blocks(bytes).into_iter().map(|(at, _)| {
            (number(bytes, at + 16, 8), number(bytes, at + 32, 8).wrapping_add(number(bytes, at + 40, 4)))
        })
    });
    last.max().map_or((1, 1), |(sequence, next)| (sequence.wrapping_add(1), next))
}

/// Where the blocks of a file begin and how long they are, up to the first that is not there whole.
fn blocks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (mut at, mut blocks) = (FILE_HEADER, Vec::new());
    while bytes.get(at..).is_some_and(|rest| rest.len() > BLOCK_HEADER && rest.starts_with(&BLOCK_BEGIN)) {
        let length = usize::try_from(number(bytes, at + 48, 8)).unwrap_or(usize::MAX);
        if !(BLOCK_HEADER + BLOCK_END.len()..=bytes.len() - at).contains(&length) {
            break;
        }
        blocks.push((at, length));
        at += length;
    }
    blocks
}

fn chosen_block(bytes: &[u8], input: &mut Input<'_>) -> Option<(usize, usize)> {
    let blocks = blocks(bytes);
    let index = usize::from(input.byte()).checked_rem(blocks.len())?;
    Some(blocks[index])
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut number = [0; 8];
    number[..length].copy_from_slice(&bytes[at..at + length]);
    u64::from_le_bytes(number)
}

fn set_field(bytes: &mut [u8], at: usize, (offset, length): (usize, usize), value: u64) -> bool {
    let field = bytes.get_mut(at + offset..at + offset + length);
    field.map(|field| field.copy_from_slice(&value.to_le_bytes()[..length])).is_some()
}

/// Makes the checksum of a file's header fit; a file may be too short for one.
fn fit_file(bytes: &mut [u8]) -> bool {
    if bytes.len() < FILE_HEADER {
        return false;
    }
    let crc = crc32c::crc32c(&bytes[..FILE_CRC]);
    set_field(bytes, 0, (FILE_CRC, 4), u64::from(crc))
}

/// Makes the checksums of a block fit, that of the body as far as the block is there.
fn fit_block(bytes: &mut [u8], at: usize) -> bool {
    let length = usize::try_from(number(bytes, at + 48, 8)).unwrap_or(usize::MAX);
    let body = at + BLOCK_HEADER..at.saturating_add(length).saturating_sub(BLOCK_END.len());
    if let Some(body) = bytes.get(body) {
        let crc = crc32c::crc32c(body);
        set_field(bytes, at, (56, 4), u64::from(crc));
    }
    let crc = crc32c::crc32c(&bytes[at..at + 60]);
    set_field(bytes, at, (60, 4), u64::from(crc))
}

fn write_over(bytes: &mut Vec<u8>, place: usize, piece: &[u8]) {
    bytes.resize(bytes.len().max(place + piece.len()), 0);
    bytes[place..place + piece.len()].copy_from_slice(piece);
}

/// Directory and record count of each block of a log, in the order of their sequences.
pub fn layout(files: &Files) -> Vec<(&std::path::Path, u64)> {
    let mut blocks: Vec<_> = files
        .iter()
        .flat_map(|(path, bytes)| {
            let directory = path.parent().unwrap_or(path);
            blocks(bytes)
                .into_iter()
                .map(move |(at, _)| (number(bytes, at + 16, 8), directory, number(bytes, at + 40, 4)))
        })
        .collect();
    blocks.sort();
    blocks.into_iter().map(|(_, directory, count)| (directory, count)).collect()
}
