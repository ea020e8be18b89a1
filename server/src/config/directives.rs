//! What a directive is, and finding one by name.
//!
//! All of them form one table, in three files: [`table`](super::table) has the rows of what Tarn
//! implements, [`foreign`](super::foreign) those of redis-server 7.0 that Tarn knows by name only,
//! [`later`](super::later) those of newer Redis and of Valkey.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::error::ValueError;
use super::foreign::FOREIGN;
use super::kinds::Phase;
use super::later::LATER;
use super::secrets::shown_value;
use super::settings::Config;
use super::shape::{Shape, Value};
use super::table::IMPLEMENTED;

/// One row: a name, what it takes, and where that goes.
#[derive(Debug)]
pub struct Directive {
    /// The name, in lower case.
    pub name: &'static str,
    /// An older name for the same thing.
    pub alias: Option<&'static str>,
    /// What it takes.
    pub shape: Shape,
    /// The default, as a file would say it.
    pub default: &'static str,
    /// What it is for, in a sentence.
    pub doc: &'static str,
    /// Whether `CONFIG SET` may change it.
    pub run_time: bool,
    /// Whether its value must not be shown in messages.
    pub sensitive: bool,
    /// Whether Redis guards it against `CONFIG SET` with words of its own.
    pub(super) protected: bool,
    pub(super) home: Home,
    effect: Effect,
    /// The value that says what the server does anyway, if it is not its default.
    done: Option<&'static str>,
}

/// How much of what a directive asks for Tarn does.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// What its home says.
    OfHome,
    /// None, because of this, although it is a field of [`Config`].
    None(&'static str),
    /// Some: `unheeded` gives the words that change nothing, if there are any, because of this.
    Some { unheeded: fn(&Config) -> Option<String>, why: &'static str },
}

/// What becomes of a directive's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Home {
    /// It is a field of [`Config`].
    Field { load: fn(&Config) -> Value, store: fn(&mut Config, Value, Phase) -> Result<(), ValueError> },
    /// It is remembered and shown, and nothing else, because of this.
    Inert(&'static str),
    /// Anything but the default is refused, because of this.
    OnlyDefault(&'static str),
}

impl Directive {
    /// A directive that `CONFIG SET` may change.
    pub(super) const fn run_time(
        name: &'static str,
        shape: Shape,
        default: &'static str,
        home: Home,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            alias: None,
            shape,
            default,
            doc,
            run_time: true,
            sensitive: false,
            protected: false,
            home,
            effect: Effect::OfHome,
            done: None,
        }
    }

    /// A directive that only a file or the command line may set.
    pub(super) const fn at_start(
        name: &'static str,
        shape: Shape,
        default: &'static str,
        home: Home,
        doc: &'static str,
    ) -> Self {
        let mut directive = Self::run_time(name, shape, default, home, doc);
        directive.run_time = false;
        directive
    }

    pub(super) const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    pub(super) const fn sensitive(mut self) -> Self {
        self.sensitive = true;
        self
    }

    pub(super) const fn protected(mut self) -> Self {
        self.protected = true;
        self
    }

    /// It is a field, but nothing reads the field yet.
    pub(super) const fn without_effect(mut self, why: &'static str) -> Self {
        self.effect = Effect::None(why);
        self
    }

    /// Nothing heeds the part of its value that `unheeded` gives.
    pub(super) const fn partly(mut self, unheeded: fn(&Config) -> Option<String>, why: &'static str) -> Self {
        self.effect = Effect::Some { unheeded, why };
        self
    }

    /// It cannot be changed, and the server does what this value says.
    pub(super) const fn does(mut self, done: &'static str) -> Self {
        self.done = Some(done);
        self
    }

    /// Whether Tarn acts on the directive, rather than knowing its name only.
    pub fn is_implemented(&self) -> bool {
        matches!(self.home, Home::Field { .. }) && !matches!(self.effect, Effect::None(_))
    }

    /// Whether redis-server 7.0 does not have it, and newer ones or Valkey do.
    pub fn is_newer(&self) -> bool {
        LATER.iter().any(|row| row.name == self.name)
    }

    /// Whether Tarn takes no other value than the default, and why.
    pub fn refused_beside_default(&self) -> Option<&'static str> {
        if let Home::OnlyDefault(why) = self.home { Some(why) } else { None }
    }

    /// Why a value that is accepted changes nothing, or a part of it.
    pub fn lack(&self) -> Option<&'static str> {
        match (self.home, self.effect) {
            (Home::Inert(why), _) | (_, Effect::None(why) | Effect::Some { why, .. }) => Some(why),
            _ => None,
        }
    }

    /// The value in force.
    pub(super) fn load(&self, config: &Config) -> Value {
        let remembered = match self.home {
            Home::Field { load, .. } => Some(load(config)),
            Home::Inert(_) | Home::OnlyDefault(_) => config.inert.get(self.name).cloned(),
        };
        remembered.unwrap_or_else(|| self.default_value())
    }

    /// Puts a value of the right shape into the configuration. One that is refused is remembered while a
    /// file is read: a later line may take it back, and until then it is not as if nobody had said it.
    pub(super) fn store(&self, config: &mut Config, value: Value, phase: Phase) -> Result<(), ValueError> {
        match self.home {
            Home::Field { store, .. } => store(config, value, phase),
            Home::OnlyDefault(why) if value != self.default_value() => {
                if phase == Phase::Load {
                    config.inert.insert(self.name, value);
                }
                Err(ValueError::Unsupported { why })
            }
            Home::Inert(_) | Home::OnlyDefault(_) if value == self.default_value() => {
                config.inert.remove(self.name);
                Ok(())
            }
            Home::Inert(_) | Home::OnlyDefault(_) => {
                config.inert.insert(self.name, value);
                Ok(())
            }
        }
    }

    /// Whether the server does what the value in force says. What is not there is as good as switched off.
    pub(super) fn is_obeyed(&self, config: &Config) -> bool {
        match (self.home, self.effect) {
            (_, Effect::Some { unheeded, .. }) => unheeded(config).is_none(),
            (Home::Inert(_), _) | (_, Effect::None(_)) => {
                let is_off = ["", "no", "0"].contains(&self.default);
                let done = self.done.or(is_off.then_some(self.default));
                done.is_some_and(|done| self.print(config) == done.as_bytes())
            }
            (Home::Field { .. } | Home::OnlyDefault(_), Effect::OfHome) => true,
        }
    }

    /// Why the value in force changes nothing, if that is so and somebody might expect otherwise.
    pub(super) fn warning(&self, config: &Config) -> Option<String> {
        let why = self.lack()?;
        let shown = match self.effect {
            Effect::Some { unheeded, .. } => unheeded(config)?,
            _ if self.load(config) == self.default_value() || self.is_obeyed(config) => return None,
            _ => shown_value(self, &self.print(config)),
        };
        let quoted = if shown.is_empty() { "\"\"" } else { &shown };
        // What is done in part is not without effect.
        let but = if self.name == "databases" { "" } else { "has no effect: " };
        Some(format!("'{} {quoted}' is accepted, but {but}{why}", self.name))
    }

    /// The words that a file gives it for the value in force.
    pub(super) fn words(&self, config: &Config) -> Vec<Vec<u8>> {
        match self.load(config) {
            Value::List(words) if words.is_empty() => vec![Vec::new()],
            Value::List(words) => words,
            value => vec![self.shape.print(&value)],
        }
    }

    /// The text that `CONFIG GET` shows.
    pub fn print(&self, config: &Config) -> Vec<u8> {
        self.shape.print(&self.load(config))
    }

    fn default_value(&self) -> Value {
        let value = self.shape.read_default(self.default);
        value.expect("the table's defaults fit their shapes, as a test checks")
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

/// What a 32-bit C integer holds, which is the upper limit of many of Redis's numbers.
pub(super) const INT_MAX: i64 = i32::MAX as i64;
/// The limit of numbers of bytes.
pub(super) const BYTES_MAX: i64 = i64::MAX;

pub(super) const fn int(min: i64, max: i64) -> Shape {
    Shape::Int { min, max }
}

pub(super) const fn memory(min: i64, max: i64) -> Shape {
    Shape::Memory { min, max }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashSet;

    use super::*;

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
