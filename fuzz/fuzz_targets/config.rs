//! Configuration files, command lines, `CONFIG SET` and globs from any bytes: no panic, and two ways to say
//! the same come to the same.
//!
//! An input is a file; a line that begins with `!` ends it, and behind it stand a directive and a value in
//! turn, one a line, to be set at run time.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use libfuzzer_sys::fuzz_target;
use tarn_server::config::{
    Config, ConfigStore, Invocation, find_directive, join_args, nearest_name, parse_serve_args, read_config,
    rewrite_text, split_args,
};
use tarn_server::glob;

fuzz_target!(|input: &[u8]| {
    let lines: Vec<&[u8]> = input.split(|&b| b == b'\n').collect();
    let end = lines.iter().position(|line| line.starts_with(b"!")).unwrap_or(lines.len());
    let (file, pairs) = (&lines[..end], lines.get(end + 1..).unwrap_or_default());
    let words: Vec<_> = file.iter().filter_map(|line| words(line)).collect();
    let text = file.join(&b'\n');
    let read = read_config(&text).ok();
    if let Some(config) = &read {
        assert_unchanged_file_stays(&text, config);
        set_and_rewrite(&text, config, pairs);
    }
    if file.iter().all(|line| split_args(line).is_some()) {
        assert_command_line_agrees(&words, read.as_ref());
    }
    if let [pattern, subject, ..] = lines.as_slice() {
        assert_glob_agrees(pattern, subject);
    }
});

/// The words of a line, if it has any and is no comment. Joined, they split into themselves.
fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    if line.trim_ascii().starts_with(b"#") {
        return None;
    }
    let words = split_args(line)?;
    assert_eq!(split_args(&join_args(&words)).as_ref(), Some(&words));
    nearest_name(words.first()?);
    Some(words)
}

fn assert_unchanged_file_stays(text: &[u8], config: &Config) {
    let rewritten = rewrite_text(text, config).expect("what was read can be read");
    let added_newline = !text.is_empty() && !text.ends_with(b"\n");
    assert_eq!(rewritten, [text, if added_newline { b"\n" } else { b"" }].concat());
}

/// Sets what can be set, and reads it back from the file that `CONFIG REWRITE` would write.
fn set_and_rewrite(text: &[u8], config: &Config, pairs: &[&[u8]]) {
    let store = ConfigStore::new(config.clone(), None);
    for pair in pairs.chunks_exact(2) {
        let before = store.snapshot();
        match store.set(&[(pair[0], pair[1])]) {
            Ok(_) => {
                let directive = find_directive(pair[0]).expect("what was set is known");
                let shown = directive.print(&store.snapshot());
                // What is shown can be set, and is shown again.
                store.set(&[(pair[0], shown.as_slice())]).expect("what CONFIG GET shows can be set");
                assert_eq!(directive.print(&store.snapshot()), shown);
            }
            Err(_) => assert_eq!(before, store.snapshot()),
        }
    }
    let rewritten = rewrite_text(text, &store.snapshot()).expect("what is in force can be written");
    assert_eq!(read_config(&rewritten).expect("what was written can be read"), *store.snapshot());
    assert_eq!(rewrite_text(&rewritten, &store.snapshot()).expect("it can be written again"), rewritten);
}

/// A file's lines as options of the command line mean the same, as long as no word means something else
/// there.
fn assert_command_line_agrees(lines: &[Vec<Vec<u8>>], read: Option<&Config>) {
    let means_another = |value: &Vec<u8>| value.starts_with(b"--") || value == b"-";
    // The file that it names is read only from there.
    let names_file = |line: &Vec<Vec<u8>>| line[0].eq_ignore_ascii_case(b"requirepass-file");
    let alike = |line: &Vec<Vec<u8>>| {
        let is_one = line.len() > 1 && !names_file(line) && find_directive(&line[0]).is_some();
        is_one && !line[1..].iter().any(means_another)
    };
    if lines.is_empty() || !lines.iter().all(alike) {
        return;
    }
    let args = lines.iter().flat_map(|line| {
        let option = [b"--", line[0].as_slice()].concat();
        std::iter::once(option).chain(line[1..].iter().cloned()).map(OsString::from_vec)
    });
    let parsed = match parse_serve_args(args) {
        Ok(Invocation::Serve(loaded)) => Some(loaded.config),
        Ok(other) => panic!("{other:?} was not asked for"),
        Err(_) => None,
    };
    assert_eq!(parsed.as_ref(), read);
}

/// The matcher agrees with the definition, which takes every way through a star.
fn assert_glob_agrees(pattern: &[u8], text: &[u8]) {
    let (pattern, text) = (&pattern[..pattern.len().min(12)], &text[..text.len().min(12)]);
    let stars = pattern.iter().filter(|&&b| b == b'*').count();
    if stars <= 4 && !text.is_empty() {
        assert_eq!(glob::matches(pattern, text), by_definition(pattern, text));
    }
    let lower = (pattern.to_ascii_lowercase(), text.to_ascii_lowercase());
    // Ranges and escaped bytes of a class have their own rule for case.
    if !pattern.contains(&b'[') {
        assert_eq!(glob::matches_ignoring_case(pattern, text), glob::matches(&lower.0, &lower.1));
    }
}

fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
    let Some(&first) = pattern.first() else { return text.is_empty() };
    if first == b'*' {
        return (0..=text.len()).any(|skipped| by_definition(&pattern[1..], &text[skipped..]));
    }
    // One token other than a star takes one byte; the matcher itself says whether it takes this one.
    let width = token_width(pattern);
    !text.is_empty()
        && glob::matches(&pattern[..width], &text[..1])
        && by_definition(&pattern[width..], &text[1..])
}

/// The width of the token at the start of a pattern.
fn token_width(pattern: &[u8]) -> usize {
    match pattern {
        [b'\\', _, ..] => 2,
        [b'[', class @ ..] => 1 + class_width(class),
        _ => 1,
    }
}

fn class_width(class: &[u8]) -> usize {
    let mut at = usize::from(class.first() == Some(&b'^'));
    while at < class.len() {
        at += match &class[at..] {
            [b']', ..] => return at + 1,
            [b'\\', _, ..] => 2,
            [_, b'-', _, ..] => 3,
            _ => 1,
        };
    }
    class.len()
}
