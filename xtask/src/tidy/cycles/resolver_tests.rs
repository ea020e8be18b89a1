//! Imports that the checker of cycles must see, and names that it must not take for imports.

use super::Graph;
use crate::tidy::source::sample;

fn cycles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    Graph::of(&sample(files), "p").cycles()
}

/// `b.rs` uses `A` of `a.rs`; whether `a.rs` with this text uses something of `b.rs`.
fn imports_b(a: &str) -> bool {
    imports(a, "use crate::a::A; pub struct B; pub fn work() {} pub enum Kind { One, Two }")
}

fn imports(a: &str, b: &str) -> bool {
    let files = [("p/src/lib.rs", "mod a; mod b;"), ("p/src/a.rs", a), ("p/src/b.rs", b)];
    let cycles = cycles(&files);
    assert!(cycles.is_empty() || cycles == [["p/src/a.rs", "p/src/b.rs"]]);
    !cycles.is_empty()
}

#[test]
fn names_of_a_glob_are_imports() {
    assert!(imports_b("use crate::b::*; pub struct A(B);"));
    assert!(imports_b("use crate::b::*; pub struct A; fn f() { work() }"));
    assert!(imports_b("use crate::b::*; pub struct A; fn f() { vec![B] }"));
    assert!(imports_b("use crate::b::*; pub struct A; fn f() { assert!(work() == ()) }"));
    assert!(imports_b("use crate::b::*; pub struct A; fn f(b: X) { match b { B => {} } }"));
    // A variable, a field and a method of this name, and a name that the file has itself.
    assert!(!imports_b("use crate::b::*; pub struct A; fn f(work: u8) -> u8 { work }"));
    assert!(!imports_b("use crate::b::*; pub struct A; fn f(a: X) { a.work(); assert!(a.work()) }"));
    assert!(!imports_b("use crate::b::*; pub struct A; struct B; fn f(b: B) {}"));
}

#[test]
fn a_glob_takes_only_what_is_visible() {
    let b = "use crate::a::A; use std::fmt::Result; pub struct B; struct Hidden;";
    assert!(!imports("use crate::b::*; pub struct A; fn f() -> Result<Hidden, ()> {}", b));
}

#[test]
fn variants_of_an_enum_are_imports() {
    assert!(imports_b("use crate::b::Kind::*; pub struct A; fn f() { One; }"));
    let through = "use crate::a::A; pub use Kind::*; pub enum Kind { One }";
    assert!(imports("pub struct A; fn f() { crate::b::One; }", through));
    assert!(!imports("pub struct A; fn f() { crate::b::Three; }", through));
}

#[test]
fn a_module_under_another_name_is_followed() {
    assert!(imports_b("use crate::b::{self as q}; pub struct A(q::B);"));
    assert!(imports_b("use crate::b as q; pub struct A(q::B);"));
}

#[test]
fn self_and_super_are_followed() {
    assert!(imports_b("pub struct A(self::super::b::B);"));
    assert!(imports_b("pub struct A; mod inner { fn f() { super::super::b::work() } }"));
    assert!(imports_b("use super::b; pub struct A; mod inner { use super::*; fn f() { b::work() } }"));
}

#[test]
fn a_function_named_like_its_module_is_followed() {
    let files = [
        ("p/src/lib.rs", "mod a; mod b;"),
        ("p/src/a.rs", "use crate::b::{work}; pub fn a() {}"),
        ("p/src/b/mod.rs", "mod work; pub use work::work;"),
        ("p/src/b/work.rs", "pub fn work() { crate::a::a() }"),
    ];
    assert_eq!(cycles(&files), [["p/src/a.rs", "p/src/b/work.rs"]]);
}

#[test]
fn a_module_alone_is_no_function_of_its_name() {
    let files = [
        ("p/src/lib.rs", "mod a; mod b;"),
        ("p/src/a.rs", "use crate::b::work::{self}; pub fn a() { work::other() }"),
        ("p/src/b/mod.rs", "pub mod work; pub fn work() { crate::a::a() }"),
        ("p/src/b/work.rs", "pub fn other() {}"),
    ];
    assert_eq!(cycles(&files), Vec::<Vec<String>>::new());
}

#[test]
fn a_re_export_through_an_inline_module_is_followed() {
    let files = |a| {
        [
            ("p/src/lib.rs", "mod a; mod b; mod c;"),
            ("p/src/a.rs", a),
            ("p/src/b.rs", "pub struct B(crate::a::A);"),
            ("p/src/c.rs", "pub mod front { pub use crate::b as q; pub use q::B; }"),
        ]
    };
    assert_eq!(cycles(&files("pub struct A(crate::c::front::q::B);")), [["p/src/a.rs", "p/src/b.rs"]]);
    assert_eq!(
        cycles(&files("use crate::c::front; pub struct A(front::B);")),
        [["p/src/a.rs", "p/src/b.rs"]]
    );
}

#[test]
fn paths_in_attributes_are_imports() {
    assert!(imports_b("pub struct A { #[arg(value_parser = crate::b::work)] a: u8 }"));
    assert!(!imports_b("#[cfg_attr(test, derive(crate::b::B))] pub struct A;"));
}

#[test]
fn test_code_of_any_kind_is_left_out() {
    assert!(!imports_b("pub struct A; #[cfg(test)] const C: u8 = crate::b::B;"));
    assert!(!imports_b("pub struct A; #[cfg(all(test, shuttle))] mod tests { use crate::b::B; }"));
    assert!(!imports_b("pub struct A; #[cfg(all(test, not(any(shuttle, loom))))] use crate::b::B;"));
    assert!(!imports_b("pub struct A; impl A { #[cfg(test)] fn f() { crate::b::work() } }"));
    assert!(!imports_b("pub struct A { #[cfg(test)] b: crate::b::B }"));
    assert!(!imports_b("pub struct A; fn f() { #[cfg(test)] crate::b::work(); }"));
    assert!(!imports_b("pub struct A; #[test] fn f() { crate::b::work() }"));
    assert!(imports_b("pub struct A; #[cfg(not(test))] const C: u8 = crate::b::B;"));
    assert!(imports_b("pub struct A; #[cfg(any(test, shuttle))] use crate::b::B;"));
}

#[test]
fn super_in_an_inline_module_is_the_file_itself() {
    let files = [
        ("p/src/lib.rs", "mod a;"),
        ("p/src/a/mod.rs", "pub mod one; pub mod two; pub struct B;"),
        ("p/src/a/one.rs", "pub struct A; struct B; mod inner { fn f(b: super::B) {} }"),
        ("p/src/a/two.rs", "use super::one::A;"),
    ];
    assert_eq!(cycles(&files), Vec::<Vec<String>>::new());
    let edges = Graph::of(&sample(&files), "p").edges;
    assert!(!edges.contains_key("p/src/a/one.rs"));
}
