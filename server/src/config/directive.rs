//! One row of the table of directives: its name, its shape, its default, and the field that it sets.

use super::error::ValueError;
use super::kinds::Phase;
use super::settings::Config;
use super::shape::{Shape, Value};

/// Stands in a message for a value that must not be shown.
pub(super) const HIDDEN: &str = "...";

/// One row: a name, what it takes, and where that goes.
#[derive(Debug)]
pub struct Directive {
    /// The name, in lower case.
    pub name: &'static str,
    /// An older name for the same thing.
    pub alias: Option<&'static str>,
    /// The values that it takes.
    pub shape: Shape,
    /// The default, as a file would say it.
    pub default: &'static str,
    /// Its purpose, in a sentence.
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
    /// The home decides.
    OfHome,
    /// None, because of this, although it is a field of [`Config`].
    None(&'static str),
    /// Some: `unheeded` gives the words that change nothing, if there are any, because of this.
    Some { unheeded: fn(&Config) -> Option<String>, why: &'static str },
}

/// How the value of a directive is used.
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
            _ => self.shown(&self.print(config)),
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

    /// A value as a message may show it.
    pub(super) fn shown(&self, printed: &[u8]) -> String {
        if self.sensitive { HIDDEN.to_owned() } else { String::from_utf8_lossy(printed).into_owned() }
    }

    fn default_value(&self) -> Value {
        let value = self.shape.read_default(self.default);
        value.expect("the table's defaults fit their shapes, as a test checks")
    }
}

/// The largest 32-bit C integer, the upper limit of many numbers of Redis.
pub(super) const INT_MAX: i64 = i32::MAX as i64;
/// The limit of numbers of bytes.
pub(super) const BYTES_MAX: i64 = i64::MAX;

pub(super) const fn int(min: i64, max: i64) -> Shape {
    Shape::Int { min, max }
}

pub(super) const fn memory(min: i64, max: i64) -> Shape {
    Shape::Memory { min, max }
}
