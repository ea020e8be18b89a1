//! The source tree as the rules see it: every file that git knows or would add, Rust files parsed.

use proc_macro2::TokenStream;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token};

/// All files.
pub(crate) struct Tree {
    /// The folder itself, as an absolute path.
    pub root: String,
    /// By path from the top, with `/` between folders.
    pub files: BTreeMap<String, Text>,
}

/// One file.
pub(crate) struct Text {
    /// The whole text; nothing of a file that is none.
    pub text: String,
    /// Parsed, if it is Rust.
    pub rust: Option<Rust>,
}

/// A parsed Rust file.
pub(crate) struct Rust {
    /// Its items.
    pub file: syn::File,
    /// Its tokens, those of macros included.
    pub tokens: TokenStream,
    /// Compiled for tests alone, so that it may know more than the product.
    pub is_test: bool,
}

impl Tree {
    /// Reads the files below `root`.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let mut git = Command::new("git");
        git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let output = git.output().map_err(|error| format!("git does not start: {error}"))?;
        if !output.status.success() {
            return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        // A file that is not UTF-8 has no text; a file that was deleted but not committed is not there.
        let read = |path: &str| {
            let bytes = std::fs::read(root.join(path)).ok()?;
            Some((path.to_owned(), String::from_utf8(bytes).unwrap_or_default()))
        };
        let texts = listed.split('\0').filter(|path| !path.is_empty()).filter_map(read);
        Tree::of(root.display().to_string(), texts.collect())
    }

    /// A tree of these files.
    pub(crate) fn of(root: String, texts: Vec<(String, String)>) -> Result<Tree, String> {
        let mut files = BTreeMap::new();
        for (path, text) in texts {
            let rust = if path.ends_with(".rs") { Some(parse(&path, &text)?) } else { None };
            files.insert(path, Text { text, rust });
        }
        let mut tree = Tree { root, files };
        tree.mark_tests();
        Ok(tree)
    }

    /// The Rust files with their paths.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &Text, &Rust)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text, text.rust.as_ref()?)))
    }

    /// Marks the files in `tests/`, those that begin with `#![cfg(test)]`, and those that are declared as
    /// `#[cfg(test)] mod name;`.
    fn mark_tests(&mut self) {
        let mut tests = BTreeSet::new();
        for (path, _, rust) in self.rust() {
            let folder = folder_of_children(path);
            for item in &rust.file.items {
                if let Item::Mod(module) = item
                    && module.content.is_none()
                    && is_for_tests(&module.attrs)
                {
                    tests.insert(format!("{folder}/{}.rs", module.ident));
                    tests.insert(format!("{folder}/{}/", module.ident));
                }
            }
        }
        for (path, text) in &mut self.files {
            if let Some(rust) = &mut text.rust {
                let is_inside = |folder: &String| folder.ends_with('/') && path.starts_with(folder.as_str());
                rust.is_test = path.contains("/tests/")
                    || is_for_tests(&rust.file.attrs)
                    || tests.contains(path)
                    || tests.iter().any(is_inside);
            }
        }
    }
}

/// True if an item is compiled for tests alone.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_tests(&condition))
        }
        Meta::Path(path) => path.is_ident("test"),
        _ => false,
    })
}

/// Whether a condition of `cfg` holds in tests alone: `test`, `all(test, …)`.
fn needs_tests(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).unwrap_or_default();
    match list.path.get_ident().map(ToString::to_string).as_deref() {
        Some("all") => parts.iter().any(needs_tests),
        Some("any") => !parts.is_empty() && parts.iter().all(needs_tests),
        _ => false,
    }
}

/// The attributes of an item.
pub(crate) fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Where the modules lie that a file declares: beside `mod.rs`, `lib.rs` and `main.rs`, below any other.
fn folder_of_children(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

fn parse(path: &str, text: &str) -> Result<Rust, String> {
    let at = |error: syn::Error| format!("{path}:{}: {error}", error.span().start().line);
    let file = syn::parse_file(text).map_err(at)?;
    let tokens = text.parse().map_err(|error| format!("{path}: {error}"))?;
    Ok(Rust { file, tokens, is_test: false })
}

/// A tree of a few made-up files, for the tests of the rules.
#[cfg(test)]
pub(crate) fn sample(files: &[(&str, &str)]) -> Tree {
    let texts = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    Tree::of("/nowhere".to_owned(), texts).expect("the sample parses")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_declared_for_tests_are_marked() {
        let tree = sample(&[
            ("engine/src/lib.rs", "#[cfg(test)] mod models; mod table;"),
            ("engine/src/models.rs", ""),
            ("engine/src/table.rs", "#[cfg(test)] mod deep;"),
            ("engine/src/table/deep.rs", ""),
            ("engine/src/models/inner.rs", ""),
            ("engine/tests/outer.rs", ""),
        ]);
        let marked: Vec<&str> =
            tree.rust().filter(|(_, _, rust)| rust.is_test).map(|(path, _, _)| path).collect();
        let expected = [
            "engine/src/models.rs",
            "engine/src/models/inner.rs",
            "engine/src/table/deep.rs",
            "engine/tests/outer.rs",
        ];
        assert_eq!(marked, expected);
    }
}
