//! Reads a value: from the encoding that its type names to a visitor.
//!
//! ```text
//!   plain      count, then strings                                  ──┐
//!   blob       one string ──blob::walk──> items                     ──┼──> Elements ──> Visitor
//!   quicklist  count, then nodes: elements, or blobs as above       ──┘    (none twice)
//!   stream     nodes, head, groups: `stream` ────────────────────────────────────────────> Visitor
//! ```

use crate::blob::{self, Item};
use crate::error::{Damage, ReadError};
use crate::format::{Encoding, FIELD_TIME_MAX, Foreign, Form, Kind, REJSON, TimedForm, Type, module_op};
use crate::names::Names;
use crate::source::{Source, damaged};
use crate::stream;
use crate::visitor::Visitor;
use std::io::Read;

const NODE_ELEMENT: u64 = 1;
const NODE_LISTPACK: u64 = 2;

/// Memory that is kept from value to value.
#[derive(Default)]
pub(crate) struct Scratch {
    first: Vec<u8>,
    second: Vec<u8>,
    names: Names,
}

/// The elements of a collection that were read, and the visitor that takes them.
struct Elements<'v> {
    visitor: &'v mut dyn Visitor,
    names: &'v mut Names,
    count: u64,
}

/// Returns the encoding of a value of this type, or that Tarn cannot hold it; reads the number of a module's
/// type for that.
pub(crate) fn held<R: Read>(
    found: Type,
    source: &mut Source<R>,
) -> Result<Result<Encoding, Foreign>, ReadError> {
    Ok(match found {
        Type::Held(encoding) => Ok(encoding),
        Type::Foreign(foreign) => Err(foreign),
        Type::Module2 => match source.number()? {
            REJSON => Ok(Encoding::Json),
            id => Err(Foreign::Module2(id)),
        },
    })
}

/// Reads a value; how many elements it has, 1 for a string. A stream counts 1 more than it has entries.
///
/// Visitors see a collection of no elements begin, and it is none: Redis leaves out such a key.
pub(crate) fn read<R: Read>(
    encoding: Encoding,
    source: &mut Source<R>,
    scratch: &mut Scratch,
    visitor: &mut dyn Visitor,
) -> Result<u64, ReadError> {
    let Scratch { first, second, names } = scratch;
    names.clear();
    visitor.begin(encoding.kind());
    let mut elements = Elements { visitor, names, count: 0 };
    match encoding {
        Encoding::String => {
            source.string(first)?;
            elements.visitor.string(first);
            elements.count = 1;
        }
        Encoding::Plain(kind) => read_plain(kind, source, first, second, &mut elements)?,
        Encoding::ZSetAscii => read_zset(source, ascii_score, first, &mut elements)?,
        Encoding::ZSetBinary => {
            let score = |source: &mut Source<R>| Ok(f64::from_le_bytes(source.array("a score")?));
            read_zset(source, score, first, &mut elements)?;
        }
        Encoding::Blob(kind, form) => {
            let offset = source.offset();
            source.string(first)?;
            elements.take_blob(kind, form, first).map_err(|damage| damaged(offset, damage))?;
        }
        Encoding::TimedHash(form) => read_timed_hash(form, source, first, second, &mut elements)?,
        Encoding::Json => {
            expect_part(source, module_op::STRING)?;
            source.string(first)?;
            expect_part(source, module_op::EOF)?;
            elements.visitor.string(first);
            elements.count = 1;
        }
        Encoding::Stream(form) => {
            let Elements { visitor, names, .. } = elements;
            return Ok(stream::read(form, source, [first, second], names, visitor)? + 1);
        }
        Encoding::Quicklist | Encoding::Quicklist2 => {
            read_quicklist(encoding, source, first, &mut elements)?;
        }
    }
    Ok(elements.count)
}

/// Reads the kind of the next part of a module's data, which has to be `expected`.
fn expect_part<R: Read>(source: &mut Source<R>, expected: u64) -> Result<(), ReadError> {
    let offset = source.offset();
    match source.number()? {
        part if part == expected => Ok(()),
        part => Err(damaged(offset, Damage::Document(part))),
    }
}

fn read_plain<R: Read>(
    kind: Kind,
    source: &mut Source<R>,
    name: &mut Vec<u8>,
    value: &mut Vec<u8>,
    elements: &mut Elements<'_>,
) -> Result<(), ReadError> {
    for _ in 0..source.number()? {
        let offset = source.offset();
        source.string(name)?;
        let taken = match kind {
            Kind::Set => elements.member(name),
            Kind::Hash => {
                source.string(value)?;
                elements.field(name, value)
            }
            _ => {
                elements.element(name);
                Ok(())
            }
        };
        taken.map_err(|damage| damaged(offset, damage))?;
    }
    Ok(())
}

fn read_timed_hash<R: Read>(
    form: TimedForm,
    source: &mut Source<R>,
    name: &mut Vec<u8>,
    value: &mut Vec<u8>,
    elements: &mut Elements<'_>,
) -> Result<(), ReadError> {
    let first = match form {
        TimedForm::Since | TimedForm::Listpack => {
            u64::from_le_bytes(source.array("the first time of a field")?)
        }
        TimedForm::Behind => 0,
    };
    if form == TimedForm::Listpack {
        let offset = source.offset();
        source.string(name)?;
        return elements.take_timed_blob(name).map_err(|damage| damaged(offset, damage));
    }
    for _ in 0..source.number()? {
        let offset = source.offset();
        let later = if form == TimedForm::Since { source.number()? } else { 0 };
        source.string(name)?;
        source.string(value)?;
        let time = match form {
            TimedForm::Behind => time_of_valkey(i64::from_le_bytes(source.array("the time of a field")?)),
            _ => later.checked_sub(1).map(|later| time_of_redis(first.saturating_add(later))).transpose(),
        };
        let taken = time.and_then(|time| elements.timed_field(name, value, time));
        taken.map_err(|damage| damaged(offset, damage))?;
    }
    Ok(())
}

fn time_of_redis(ms: u64) -> Result<u64, Damage> {
    if ms <= FIELD_TIME_MAX { Ok(ms) } else { Err(Damage::FieldTime) }
}

fn time_of_valkey(ms: i64) -> Result<Option<u64>, Damage> {
    match ms {
        -1 => Ok(None),
        ms => u64::try_from(ms).map(Some).map_err(|_| Damage::FieldTime),
    }
}

fn read_zset<R: Read>(
    source: &mut Source<R>,
    score: impl Fn(&mut Source<R>) -> Result<f64, ReadError>,
    member: &mut Vec<u8>,
    elements: &mut Elements<'_>,
) -> Result<(), ReadError> {
    for _ in 0..source.number()? {
        let offset = source.offset();
        source.string(member)?;
        let score = score(source)?;
        elements.scored(member, score).map_err(|damage| damaged(offset, damage))?;
    }
    Ok(())
}

/// A score in decimal digits, after the number of its bytes. Three numbers stand for values without digits.
fn ascii_score<R: Read>(source: &mut Source<R>) -> Result<f64, ReadError> {
    const PART: &str = "a score";
    let offset = source.offset();
    let mut text = [0; 252];
    let len = match source.byte(PART)? {
        255 => return Ok(f64::NEG_INFINITY),
        254 => return Ok(f64::INFINITY),
        253 => return Err(damaged(offset, Damage::Score)),
        len => usize::from(len),
    };
    for byte in &mut text[..len] {
        *byte = source.byte(PART)?;
    }
    score_of(&text[..len]).ok_or_else(|| damaged(offset, Damage::Score))
}

fn score_of(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn read_quicklist<R: Read>(
    encoding: Encoding,
    source: &mut Source<R>,
    node: &mut Vec<u8>,
    elements: &mut Elements<'_>,
) -> Result<(), ReadError> {
    for _ in 0..source.number()? {
        let offset = source.offset();
        let form = match encoding {
            Encoding::Quicklist => Some(Form::Ziplist),
            _ => match source.number()? {
                NODE_ELEMENT => None,
                NODE_LISTPACK => Some(Form::Listpack),
                other => return Err(damaged(offset, Damage::Node(other))),
            },
        };
        let offset = source.offset();
        source.string(node)?;
        let taken = match form {
            _ if node.is_empty() => Err(Damage::EmptyNode),
            Some(form) => elements.take_blob(Kind::List, form, node),
            None => {
                elements.element(node);
                Ok(())
            }
        };
        taken.map_err(|damage| damaged(offset, damage))?;
    }
    Ok(())
}

impl Elements<'_> {
    fn element(&mut self, element: &[u8]) {
        self.visitor.element(element);
        self.count += 1;
    }

    fn member(&mut self, member: &[u8]) -> Result<(), Damage> {
        self.check_first(member)?;
        self.element(member);
        Ok(())
    }

    fn field(&mut self, field: &[u8], value: &[u8]) -> Result<(), Damage> {
        self.timed_field(field, value, None)
    }

    fn timed_field(&mut self, field: &[u8], value: &[u8], time: Option<u64>) -> Result<(), Damage> {
        self.check_first(field)?;
        match time {
            Some(time) => self.visitor.timed_field(field, value, time),
            None => self.visitor.field(field, value),
        }
        self.count += 1;
        Ok(())
    }

    fn scored(&mut self, member: &[u8], score: f64) -> Result<(), Damage> {
        if score.is_nan() {
            return Err(Damage::Score);
        }
        self.check_first(member)?;
        self.visitor.scored(member, score);
        self.count += 1;
        Ok(())
    }

    fn check_first(&mut self, name: &[u8]) -> Result<(), Damage> {
        if self.names.is_first(name) { Ok(()) } else { Err(Damage::Duplicate) }
    }

    fn take_blob(&mut self, kind: Kind, form: Form, blob: &[u8]) -> Result<(), Damage> {
        let (mut digits, mut more_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        let mut name = None;
        blob::walk(form, blob, &mut |item| match (kind, name.take()) {
            (Kind::Set, _) => self.member(item.text(&mut digits)),
            (Kind::Hash | Kind::ZSet, None) => {
                name = Some(item);
                Ok(())
            }
            (Kind::Hash, Some(field)) => self.field(field.text(&mut digits), item.text(&mut more_digits)),
            (Kind::ZSet, Some(member)) => {
                let score = match item {
                    Item::Int(number) => number as f64,
                    Item::Bytes(text) => score_of(text).ok_or(Damage::Score)?,
                };
                self.scored(member.text(&mut digits), score)
            }
            (Kind::List | Kind::String | Kind::Json | Kind::Stream, _) => {
                self.element(item.text(&mut digits));
                Ok(())
            }
        })?;
        if name.is_some() { Err(Damage::Unpaired) } else { Ok(()) }
    }

    /// Takes a listpack of fields, each with its value and its time.
    fn take_timed_blob(&mut self, blob: &[u8]) -> Result<(), Damage> {
        let (mut digits, mut more_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        let (mut field, mut value) = (None, None);
        blob::walk(Form::Listpack, blob, &mut |item| match (field, value) {
            (None, _) => {
                field = Some(item);
                Ok(())
            }
            (Some(_), None) => {
                value = Some(item);
                Ok(())
            }
            (Some(name), Some(text)) => {
                (field, value) = (None, None);
                let time = match item {
                    Item::Int(0) => None,
                    Item::Int(ms) => Some(time_of_redis(u64::try_from(ms).map_err(|_| Damage::FieldTime)?)?),
                    Item::Bytes(_) => return Err(Damage::FieldTime),
                };
                self.timed_field(name.text(&mut digits), text.text(&mut more_digits), time)
            }
        })?;
        if field.is_some() { Err(Damage::Unpaired) } else { Ok(()) }
    }
}
