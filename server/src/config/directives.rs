//! All directives, finding one by name, and the defaults of the configuration.
//!
//! They form one table, in three files: [`table`](super::table) has the rows of what Tarn implements,
//! [`foreign`](super::foreign) those of redis-server 7.0 that Tarn knows by name only,
//! [`later`](super::later) those of newer Redis and of Valkey.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::directive::Directive;
use super::foreign::FOREIGN;
use super::kinds::Phase;
use super::later::LATER;
use super::settings::Config;
use super::table::IMPLEMENTED;

impl Default for Config {
    fn default() -> Self {
        let mut config = Self::blank();
        for directive in directives() {
            let value = directive.shape.read_default(directive.default);
            let stored = value.and_then(|value| directive.store(&mut config, value, Phase::Default));
            stored.expect("the table's defaults fit their shapes, as a test checks");
        }
        config
    }
}

impl Config {
    /// The place of a Redis append-only file, as the configuration names it: its directory, since
    /// Redis 7, and the file that older ones have.
    pub fn redis_aof_paths(&self) -> [PathBuf; 2] {
        use std::os::unix::ffi::OsStringExt;
        ["appenddirname", "appendfilename"].map(|name| {
            let named = find_directive(name.as_bytes()).map(|directive| directive.print(self));
            self.dir.join(std::ffi::OsString::from_vec(named.unwrap_or_default()))
        })
    }
}

/// All rows, those that Tarn implements first.
pub fn directives() -> impl Iterator<Item = &'static Directive> {
    IMPLEMENTED.iter().chain(FOREIGN).chain(LATER)
}

/// Finds a directive by name or alias, in any case.
pub fn find_directive(name: &[u8]) -> Option<&'static Directive> {
    static BY_NAME: OnceLock<HashMap<&'static [u8], &'static Directive>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        let names = |row: &'static Directive| [Some(row.name), row.alias].into_iter().flatten();
        directives().flat_map(|row| names(row).map(move |name| (name.as_bytes(), row))).collect()
    });
    by_name.get(name.to_ascii_lowercase().as_slice()).copied()
}

/// The known name that is most like `name`, if one is like it at all.
pub fn nearest_name(name: &[u8]) -> Option<&'static str> {
    let name: Vec<u8> = name.iter().take(64).map(u8::to_ascii_lowercase).collect();
    let names = directives().flat_map(|row| [Some(row.name), row.alias].into_iter().flatten());
    let (distance, nearest) =
        names.map(|known| (edit_distance(&name, known.as_bytes()), known)).min_by_key(|&(d, _)| d)?;
    (distance <= (name.len() / 3).max(1)).then_some(nearest)
}

/// The least number of bytes inserted, removed, replaced or swapped with their neighbour that turns `a` into
/// `b`.
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before_last[j - 2] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;
    use crate::config::shape::{Shape, Value};

    #[test]
    fn every_default_is_read_back_from_its_own_printed_form() {
        let config = Config::default();
        for directive in directives() {
            let printed = directive.print(&config);
            let mut again = config.clone();
            let value =
                directive.shape.read_text(&printed).unwrap_or_else(|e| panic!("{}: {e}", directive.name));
            directive.store(&mut again, value, Phase::RunTime).unwrap();
            assert_eq!(directive.print(&again), printed, "{}", directive.name);
            assert_eq!(again, config, "{}", directive.name);
        }
    }

    #[test]
    fn every_field_holds_the_ends_of_its_range() {
        for directive in directives().filter(|directive| directive.is_implemented()) {
            if let Shape::Int { min, max } | Shape::Memory { min, max } = directive.shape {
                for end in [min, max] {
                    let mut config = Config::default();
                    directive.store(&mut config, Value::Int(end), Phase::RunTime).unwrap();
                    let loaded = directive.load(&config);
                    assert!(loaded == Value::Int(end) || directive.name == "hz", "{}", directive.name);
                }
            }
        }
    }

    #[test]
    fn no_name_is_taken_twice() {
        let mut seen = HashSet::new();
        for directive in directives() {
            for name in [Some(directive.name), directive.alias].into_iter().flatten() {
                assert!(seen.insert(name), "{name}");
                assert_eq!(find_directive(name.to_uppercase().as_bytes()).unwrap().name, directive.name);
            }
        }
    }

    #[test]
    fn the_nearest_name_is_near_or_none() {
        for (typed, meant) in
            [("prot", "port"), ("appendfsnyc", "appendfsync"), ("max-clients", "maxclients")]
        {
            assert_eq!(nearest_name(typed.as_bytes()), Some(meant));
        }
        for far in ["", "x", "zzzzzzzz", "foo"] {
            assert_eq!(nearest_name(far.as_bytes()), None, "{far}");
        }
    }
}
