//! The logs that the operations start from, as the product's own writer leaves them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use tarn_engine::io::{SimDisk, SimOptions};
use tarn_engine::log::{Compression, Group, LogOptions, SyncMode};
use tarn_engine::record::{Change, Kind, Lsn, Side, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::value::ImageBuilder;
use tarn_engine::value::stream::{GroupState, Idempotence, Pending, StreamHead, StreamId, element};

use crate::changes::layout;

/// Logical databases.
pub const DATABASES: usize = 4;

/// All files of a log, in the order of their names.
pub type Files = Vec<(PathBuf, Vec<u8>)>;

/// A log that was written: how, its files, and its groups.
pub struct Written {
    pub options: LogOptions,
    pub files: Files,
    pub groups: Vec<Vec<Write<'static>>>,
}

/// One directory or two, closed in the end or just left; and one whose blocks are compressed.
pub static SHAPES: [LazyLock<Written>; 5] = [
    LazyLock::new(|| written(1, false, Compression::No)),
    LazyLock::new(|| written(1, true, Compression::No)),
    LazyLock::new(|| written(2, false, Compression::No)),
    LazyLock::new(|| written(2, true, Compression::No)),
    LazyLock::new(|| written(1, false, Compression::Lz4)),
];

/// Which directory takes a block is a race. A log is written again until its blocks lie as they did in other
/// runs, so that an input means the same in all of them, but not for ever.
const ATTEMPTS: usize = 500;
/// How often it is opened and written on.
const LIVES: usize = 3;

fn written(directories: usize, close: bool, compression: Compression) -> Written {
    let paths: Vec<PathBuf> = ["/a", "/b"][..directories].iter().map(PathBuf::from).collect();
    let mut options = LogOptions::new(paths.clone());
    options.mode = SyncMode::Always;
    options.compression = compression;
    options.flushes_in_flight = 1;
    options.file_bytes = 8 << 10;
    // Two blocks a life are few enough for chance to deal them out as wanted.
    let groups = if directories == 1 { groups() } else { in_few(&groups(), 2 * LIVES) };
    let mut files = Files::new();
    for _ in 0..ATTEMPTS {
        files = write(&options, &groups, close);
        let blocks = layout(&files);
        let full: Vec<&Path> = blocks.iter().filter(|(_, count)| *count > 0).map(|(path, _)| *path).collect();
        let in_turn = full.iter().zip(paths.iter().cycle()).all(|(path, expected)| path == expected);
        // Each life ends with an empty block that says what is durable and, if it is closed, one more.
        if in_turn && blocks.len() == groups.len() + 2 * LIVES - usize::from(!close) {
            break;
        }
    }
    Written { options, files, groups }
}

fn in_few(groups: &[Vec<Write<'static>>], count: usize) -> Vec<Vec<Write<'static>>> {
    groups.chunks(groups.len().div_ceil(count)).map(<[_]>::concat).collect()
}

fn write(options: &LogOptions, groups: &[Vec<Write<'static>>], close: bool) -> Files {
    let disk = SimDisk::new(1, SimOptions::default());
    let mut lives = groups.chunks(groups.len().div_ceil(LIVES)).peekable();
    while let Some(life) = lives.next() {
        let shared = Arc::new(disk.clone());
        let opened = recovery::open(shared, options.clone(), None, DATABASES, 1, &Progress::default());
        let log = opened.expect("a log that was written is opened").log;
        for writes in life {
            let mut group = Group::new();
            writes.iter().for_each(|write| group.push(write));
            let first = log.appender().append(&group).expect("the disk has no faults");
            let last = first.after(writes.len() as u64 - 1);
            log.durable().wait_for(last).expect("the disk has no faults");
        }
        if close || lives.peek().is_some() {
            log.close().expect("the disk has no faults");
        }
    }
    disk.paths().into_iter().map(|path| (path.clone(), disk.contents(&path).unwrap_or_default())).collect()
}

/// Records of every type, alone and in groups.
fn groups() -> Vec<Vec<Write<'static>>> {
    let key = |db: u8, key: &'static str, change| Write::Key { db, key: key.as_bytes().into(), change };
    let bytes = |text: &'static str| text.as_bytes().into();
    let mut image = ImageBuilder::new(Kind::Hash);
    (0..3).for_each(|number| image.push_field(&[number], b"value"));
    let elements = image.finish().into();
    let id = |ms| StreamId::new(ms, 0);
    let entry = |ms| {
        let fields = [(&b"field"[..], &b"value"[..])];
        key(0, "x", element::put_entry(id(ms), ms, fields.into_iter()))
    };
    let pending = Pending { id: id(3), consumer: b"c", delivered: 1 << 41, deliveries: 1 };
    let how = Idempotence { duration_s: 100, messages_max: 100, added: 1, duplicates: 0, forgotten: 0 };
    let push = |element| Change::ListPush { side: Side::Back, element: bytes(element) };
    vec![
        vec![key(0, "s", Change::Put { value: bytes("a string"), expiry: None })],
        vec![key(0, "s", Change::Patch { offset: 10, bytes: bytes("and more") })],
        vec![key(0, "s", Change::RenewalBegins { kind: Kind::String, length: 18 })],
        vec![
            key(
                0,
                "s",
                Change::RenewalPart { kind: Kind::String, at: 0, bytes: bytes("a string\0\0and more") },
            ),
            key(0, "s", Change::RenewalEnds { kind: Kind::String, begun: Lsn(3) }),
        ],
        vec![
            key(0, "h", Change::HashPut { field: bytes("f"), value: bytes("1") }),
            key(0, "h", Change::HashPut { field: bytes("g"), value: bytes("2") }),
            key(1, "h", Change::HashPut { field: bytes("f"), value: bytes("3") }),
        ],
        vec![
            key(0, "h", Change::HashExpire { field: bytes("f"), at: Some(1 << 41) }),
            key(0, "h", Change::HashExpire { field: bytes("g"), at: Some(1 << 42) }),
        ],
        vec![key(0, "h", Change::HashExpire { field: bytes("g"), at: None })],
        vec![key(0, "h", Change::HashRemove { field: bytes("f") })],
        vec![
            key(0, "t", Change::SetAdd { member: bytes("m") }),
            key(0, "t", Change::SetAdd { member: bytes("n") }),
        ],
        vec![key(0, "t", Change::SetRemove { member: bytes("m") })],
        vec![key(2, "z", Change::ZSetPut { member: bytes("m"), score: 1.5 })],
        vec![
            key(0, "l", push("one")),
            key(0, "l", push("two")),
            key(0, "l", Change::ListInsert { index: 1, element: bytes("between") }),
            key(0, "l", Change::ListPut { index: 0, element: bytes("first") }),
            key(0, "l", Change::ListRemove { index: 1 }),
            key(0, "l", Change::ListPop { side: Side::Front, count: 1 }),
        ],
        vec![key(0, "x", element::put_head(&StreamHead::default())), entry(1)],
        vec![entry(2), entry(3), key(0, "x", Change::StreamTrim { below: id(2) })],
        vec![
            key(0, "x", element::put_group(b"g", &GroupState { last_id: id(3), entries_read: Some(3) })),
            key(0, "x", element::put_pending(b"g", &pending)),
        ],
        vec![key(0, "x", element::remove_entry(id(2))), key(0, "x", element::remove_pending(b"g", id(3)))],
        vec![key(0, "x", Change::StreamGroupRemove { group: bytes("g") })],
        vec![
            key(0, "x", element::put_idempotence(&how)),
            key(0, "x", element::put_message(b"p", b"m", 1, id(3))),
        ],
        vec![key(0, "x", element::remove_message(b"p", b"m"))],
        vec![Write::Swap { a: 0, b: 3 }],
        vec![key(2, "z", Change::ZSetRemove { member: bytes("m") })],
        vec![key(1, "i", Change::Image { kind: Kind::Hash, elements, expiry: Some(1 << 41), sticky: true })],
        vec![key(1, "i", Change::Expire(None)), key(1, "h", Change::Delete)],
        vec![Write::Flush { db: Some(1) }],
        vec![key(0, "e", Change::Put { value: vec![b'x'; 1_500].into(), expiry: Some(1 << 42) })],
        vec![Write::Flush { db: None }],
        vec![key(0, "s", Change::Put { value: bytes("the last"), expiry: None })],
    ]
}
