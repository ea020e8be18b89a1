//! Rules of users from any bytes: no panic, what is written down makes the same user again, and a file of
//! users reads as it was written.
//!
//! Each line of an input is a rule.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tarn_server::acl::{Access, Catalog, User, UserId, file, merge_selectors};
use tarn_server::commands;

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(commands::catalog)
}

fuzz_target!(|input: &[u8]| {
    let catalog = catalog();
    let new = || User::new(b"alice", UserId(1), catalog, false);
    let mut user = new();
    let lines = input.split(|&b| b == b'\n');
    let Ok(rules) = merge_selectors(lines) else { return };
    for rule in &rules {
        let before = user.clone();
        if user.apply(rule, catalog, false).is_err() {
            user = before;
        }
    }
    let text = user.describe(catalog);
    let words = merge_selectors(text.split(|&b| b == b' ')).expect("parentheses match");
    let mut again = new();
    for rule in &words {
        again.apply(rule, catalog, false).expect("what is written down is a rule");
    }
    assert_eq!(again.describe(catalog), text);
    assert_same(&user, &again);
    let line = user.line(catalog);
    if !line.contains(&b'\r') && !line.contains(&b'\t') {
        let read = file::parse(&line, "file", catalog, false).expect("its own line");
        assert_same(&user, &read[0]);
    }
});

/// Both may do the same.
fn assert_same(one: &User, other: &User) {
    let catalog = catalog();
    assert_eq!(one.selectors().count(), other.selectors().count());
    for (one, other) in one.selectors().zip(other.selectors()) {
        for number in 0..catalog.len() {
            for arg in [None, Some(&b"0"[..])] {
                let allows = one.allows_command(catalog, number, arg);
                assert_eq!(allows, other.allows_command(catalog, number, arg));
            }
        }
        for key in [&b"a"[..], b"ab", b"*"] {
            for access in [Access::NONE, Access::READ, Access::WRITE, Access::ALL] {
                assert_eq!(one.allows_key(key, access), other.allows_key(key, access));
            }
            assert_eq!(one.allows_channel(key, false), other.allows_channel(key, false));
        }
        assert!((0..16).all(|db| one.allows_database(db) == other.allows_database(db)));
    }
}
