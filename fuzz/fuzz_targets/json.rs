//! JSON documents and paths from any bytes: no panic, and what a document is read as is written and read
//! again.
//!
//! ```text
//!  input:  | length of the path | path | document |
//! ```
#![no_main]

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use tarn_server::json::document::{kept, parse};
use tarn_server::json::{Fate, Marks, Path};

/// Beyond this the process is aborted.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 256 << 20);

fuzz_target!(|input: &[u8]| {
    let [len, rest @ ..] = input else { return };
    let (path, document) = rest.split_at(usize::from(*len).min(rest.len()));
    let Ok(mut root) = parse(document) else { return };
    let text = kept(document).expect("what is a document is kept as one");
    assert_eq!(kept(&text).as_deref(), Some(&text[..]), "what is kept stays as it is");
    let Ok(path) = Path::parse(path) else { return };
    let selected = path.select(&root);
    let marks = Marks::new(&root, &selected, true);
    assert!(marks.len() <= selected.len());
    let changed: Result<(), ()> = marks.change(&mut root, &mut |value, _| {
        *value = serde_json::Value::Null;
        Ok(Fate::Goes)
    });
    assert_eq!(changed, Ok(()));
});
