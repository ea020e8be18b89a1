//! Keys and values as plain data, written and collected.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use tarn_rdb::{Kind, ValueWriter, Visitor, Writer};

/// A value; scores by their bits, so that they can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    ZSet(BTreeMap<Vec<u8>, u64>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Json(Vec<u8>),
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub database: u64,
    pub name: Vec<u8>,
    pub expiry_ms: Option<u64>,
    pub value: Value,
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Value::String(_) => Kind::String,
            Value::List(_) => Kind::List,
            Value::Set(_) => Kind::Set,
            Value::ZSet(_) => Kind::ZSet,
            Value::Hash(_) => Kind::Hash,
            Value::Json(_) => Kind::Json,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        (match self {
            Value::String(_) | Value::Json(_) => 1,
            Value::List(elements) => elements.len(),
            Value::Set(members) => members.len(),
            Value::ZSet(members) => members.len(),
            Value::Hash(fields) => fields.len(),
        }) as u64
    }

    pub(crate) fn write<W: Write>(&self, mut out: ValueWriter<'_, W>) -> io::Result<()> {
        match self {
            Value::String(string) | Value::Json(string) => out.element(string)?,
            Value::List(elements) => elements.iter().try_for_each(|element| out.element(element))?,
            Value::Set(members) => members.iter().try_for_each(|member| out.element(member))?,
            Value::ZSet(members) => {
                members.iter().try_for_each(|(member, score)| out.scored(member, f64::from_bits(*score)))?;
            }
            Value::Hash(fields) => fields.iter().try_for_each(|(field, value)| out.field(field, value))?,
        }
        out.finish();
        Ok(())
    }
}

/// Writes keys, which come database by database.
pub(crate) fn write<W: Write>(writer: &mut Writer<W>, keys: &[Key]) {
    for group in keys.chunk_by(|one, other| one.database == other.database) {
        let expiring = group.iter().filter(|key| key.expiry_ms.is_some()).count();
        writer.begin_database(group[0].database, group.len() as u64, expiring as u64).unwrap();
        for Key { name, expiry_ms, value, .. } in group {
            let out = writer.begin_value(name, *expiry_ms, value.kind(), value.len()).unwrap();
            value.write(out).unwrap();
        }
    }
}

/// A visitor that keeps a value.
#[derive(Default)]
pub(crate) struct Collected(pub Option<Value>);

impl Visitor for Collected {
    fn begin(&mut self, kind: Kind) {
        self.0 = Some(match kind {
            Kind::String => Value::String(Vec::new()),
            Kind::List => Value::List(Vec::new()),
            Kind::Set => Value::Set(BTreeSet::new()),
            Kind::ZSet => Value::ZSet(BTreeMap::new()),
            Kind::Hash => Value::Hash(BTreeMap::new()),
            Kind::Json => Value::Json(Vec::new()),
        });
    }

    fn string(&mut self, string: &[u8]) {
        let string = string.to_vec();
        self.0 = Some(match self.0 {
            Some(Value::Json(_)) => Value::Json(string),
            _ => Value::String(string),
        });
    }

    fn element(&mut self, element: &[u8]) {
        match &mut self.0 {
            Some(Value::List(elements)) => elements.push(element.to_vec()),
            Some(Value::Set(members)) => assert!(members.insert(element.to_vec())),
            other => panic!("an element of {other:?}"),
        }
    }

    fn field(&mut self, field: &[u8], value: &[u8]) {
        let Some(Value::Hash(fields)) = &mut self.0 else { panic!("a field of no hash") };
        assert!(fields.insert(field.to_vec(), value.to_vec()).is_none());
    }

    fn scored(&mut self, member: &[u8], score: f64) {
        let Some(Value::ZSet(members)) = &mut self.0 else { panic!("a score of no sorted set") };
        assert!(!score.is_nan() && members.insert(member.to_vec(), score.to_bits()).is_none());
    }
}
