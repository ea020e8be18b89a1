//! A start that cuts a torn tail off the log, or leaves it out, says so: how much, and where.

#![allow(clippy::unwrap_used)]

mod own_process;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use own_process::{Own, eventually, serve_if_told};

const ON: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "everysec"];
const OFF: [&str; 4] = ["--appendonly", "no", "--save", ""];

/// The newest file of a log directory.
fn newest(directory: &Path) -> PathBuf {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|end| end == "tarnlog")).max().unwrap()
}

fn append(path: &Path, bytes: usize) {
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    file.write_all(&vec![7; bytes]).unwrap();
}

/// A log that ends with two acknowledged records and 100 bytes that are no block.
fn torn() -> (Own, PathBuf) {
    let mut own = Own::new();
    let mut client = own.start(&ON);
    assert_eq!(client.ask("SET key value"), "+OK");
    assert_eq!(client.ask("SET key other"), "+OK");
    assert_eq!(client.ask("WAITAOF 1 0 0"), "[:1 :0]");
    own.kill();
    let file = newest(&own.path("log"));
    append(&file, 100);
    (own, file)
}

/// A whole block of a log file; `docs/format/log.md` has the places.
struct Block {
    sequence: u64,
    first: u64,
    records: u32,
    offset: usize,
}

fn blocks(path: &Path) -> Vec<Block> {
    let bytes = std::fs::read(path).unwrap();
    let (mut blocks, mut offset) = (Vec::new(), 512);
    while bytes.len() >= offset + 64 && bytes[offset..].starts_with(b"\xF5TarnBk\n") {
        let u64_at = |at: usize| u64::from_le_bytes(*bytes[offset + at..].first_chunk().unwrap());
        let records = u32::from_le_bytes(*bytes[offset + 40..].first_chunk().unwrap());
        blocks.push(Block { sequence: u64_at(16), first: u64_at(32), records, offset });
        offset += u64_at(48) as usize;
    }
    blocks
}

#[test]
fn serves() {
    serve_if_told();
}

#[test]
fn what_is_cut_off_is_told_once() {
    let (mut own, file) = torn();
    assert!(!own.messages().contains("cut off"), "{}", own.messages());
    let mut client = own.start(&ON);
    assert_eq!(client.ask("GET key"), "other");
    let messages = own.messages();
    let told: Vec<_> = messages.lines().filter(|line| line.contains("cut off")).collect();
    assert!(told.len() == 1 && told[0].contains("WARN") && told[0].contains("100 bytes"), "{messages}");
    assert!(
        told[0].contains("in the middle of a write") && told[0].contains(file.to_str().unwrap()),
        "{messages}"
    );
    own.terminate();
    own.start(&ON);
    assert_eq!(own.messages().matches("cut off").count(), 1);
}

#[test]
fn blocks_after_one_that_is_missing_are_told_and_where_each_directory_is_cut() {
    let mut own = Own::new();
    let directories = ["l0", "l1"].map(|name| own.path(name));
    let [first, second] = directories.each_ref().map(|path| path.to_str().unwrap().to_owned());
    let args = ["--appendonly", "yes", "--appendfsync", "no", "--log-dir", &first, &second];
    let mut client = own.start(&args);
    let files = directories.each_ref().map(|path| path.join("0000000001.tarnlog"));
    // The second directory lacks a block; the first has one with records before it, as a start removes a file
    // that it leaves without any, and two or more after it.
    let missing = || {
        let before = blocks(&files[0]).into_iter().find(|block| block.records > 0)?;
        blocks(&files[1]).into_iter().find(|block| block.sequence > before.sequence)
    };
    let after = |gone: &Block| {
        let later = blocks(&files[0]).into_iter().filter(|block| block.sequence > gone.sequence);
        later.collect::<Vec<_>>()
    };
    for number in 0..200 {
        assert_eq!(client.ask(&format!("SET key:{number} value")), "+OK");
        let written = || files.iter().map(|path| blocks(path).len()).sum::<usize>();
        eventually(|| (written() > number).then_some(()));
        if missing().is_some_and(|gone| after(&gone).len() > 1) {
            break;
        }
    }
    own.kill();
    let gone = missing().expect("the second directory has a block after one of the first");
    let beyond = after(&gone);
    let [first, second] = files;
    // Of the missing block 17 bytes are left; the next ones are zeros, which are not counted at the end of a
    // file. The blocks that follow in the other directory are whole.
    std::fs::File::options().write(true).open(&second).unwrap().set_len(gone.offset as u64 + 17).unwrap();
    append(&first, 50);
    let kept = beyond[0].offset;
    let bytes = first.metadata().unwrap().len() - kept as u64 + 17;
    let records: u32 = beyond.iter().map(|block| block.records).sum();

    let mut client = own.start(&args);
    assert_eq!(client.ask("DBSIZE"), format!(":{}", gone.first - 1));
    let messages = own.messages();
    let expected = format!(
        "{bytes} bytes after record {}, {} whole blocks with {records} records among them, from byte {kept} \
         of {} on and in 1 other file, are cut off",
        gone.first - 1,
        beyond.len(),
        first.display()
    );
    assert!(messages.contains(&expected), "{expected}: {messages}");
    assert!(!messages.contains("in the middle of a write"), "{messages}");
    assert_eq!(first.metadata().unwrap().len(), kept as u64);
}

#[test]
fn a_start_without_a_log_tells_what_it_leaves_out() {
    let (mut own, file) = torn();
    let length = file.metadata().unwrap().len();
    let mut client = own.start(&OFF);
    assert_eq!(client.ask("GET key"), "other");
    let messages = own.messages();
    let told: Vec<_> = messages.lines().filter(|line| line.contains("left out")).collect();
    assert!(told.len() == 1 && told[0].contains("WARN") && told[0].contains("100 bytes"), "{messages}");
    assert!(told[0].contains(file.to_str().unwrap()), "{messages}");
    assert_eq!(file.metadata().unwrap().len(), length, "nothing was cut");
    assert_eq!(client.ask("SAVE"), "+OK");
    let messages = eventually(|| Some(own.messages()).filter(|messages| messages.contains("put aside in")));
    assert!(!messages.contains("all that the log had"), "{messages}");
}

#[test]
fn a_log_that_is_switched_on_tells_what_it_cuts_off() {
    let (mut own, file) = torn();
    let mut client = own.start(&OFF);
    assert!(!own.messages().contains("cut off"), "{}", own.messages());
    assert_eq!(client.ask("CONFIG SET appendonly yes"), "+OK");
    eventually(|| own.messages().contains("The log is on").then_some(()));
    let messages = own.messages();
    let told: Vec<_> = messages.lines().filter(|line| line.contains("cut off")).collect();
    assert!(told.len() == 1 && told[0].contains("WARN") && told[0].contains("100 bytes"), "{messages}");
    assert!(told[0].contains(file.to_str().unwrap()), "{messages}");
}
