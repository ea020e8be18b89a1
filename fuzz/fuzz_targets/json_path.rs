//! Any bytes as a path in a JSON document, and what follows them as the document: nothing panics, nothing is
//! selected twice, and what is written is read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use tarn_server::json::{Document, Fate, Marks, Path, document};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (path, text) = input;
    let Ok(path) = Path::parse(path) else { return };
    let Ok(mut root) = document::parse(text) else { return };
    let found = path.select(&root);
    let places: HashSet<_> = found.iter().map(|value| std::ptr::from_ref(*value)).collect();
    assert_eq!(places.len(), found.len());
    let all = Marks::new(&root, &found, false);
    assert_eq!(all.len(), found.len());
    let marks = Marks::new(&root, &found, true);
    let mut gone = 0;
    let removed = marks.change(&mut root, &mut |_, _| {
        gone += 1;
        Ok::<_, ()>(Fate::Goes)
    });
    assert_eq!(removed, Ok(()));
    assert!(gone <= all.len());
    let text = Document { root }.to_text(usize::MAX).expect("it nests no deeper than before");
    assert_eq!(document::kept(&text), Some(text.clone()));
});
