//! The schema `keyspace`: tables over all keys that a user may read, which need no declaration.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use tarn_engine::record::Kind;

use crate::plan::key_table::KeyTable;
use crate::statement::store::StoreHandle;
use crate::table::declaration::{Declaration, Layout, Pattern, Source};

/// A table: its name, how keys become rows, and its columns.
type Table = (&'static str, Layout, &'static [(&'static str, DataType, Source)]);

const TEXT: DataType = DataType::Utf8View;
const NUMBER: DataType = DataType::Int64;

/// The tables of the schema, of the first database.
const TABLES: &[Table] = &[
    (
        "keys",
        Layout::Keys,
        &[
            ("key", TEXT, Source::Key),
            ("type", TEXT, Source::Type),
            ("ttl_ms", NUMBER, Source::TtlMs),
            ("bytes", NUMBER, Source::Bytes),
        ],
    ),
    (
        "strings",
        Layout::Elements(Kind::String),
        &[("key", TEXT, Source::Key), ("value", TEXT, Source::Value)],
    ),
    (
        "hashes",
        Layout::Elements(Kind::Hash),
        &[("key", TEXT, Source::Key), ("field", TEXT, Source::Name), ("value", TEXT, Source::Value)],
    ),
    (
        "zsets",
        Layout::Elements(Kind::ZSet),
        &[
            ("key", TEXT, Source::Key),
            ("member", TEXT, Source::Name),
            ("score", DataType::Float64, Source::Score),
        ],
    ),
    (
        "lists",
        Layout::Elements(Kind::List),
        &[("key", TEXT, Source::Key), ("index", NUMBER, Source::Index), ("value", TEXT, Source::Value)],
    ),
    ("sets", Layout::Elements(Kind::Set), &[("key", TEXT, Source::Key), ("member", TEXT, Source::Name)]),
    (
        "streams",
        Layout::Elements(Kind::Stream),
        &[
            ("key", TEXT, Source::Key),
            ("id", TEXT, Source::Id),
            ("field", TEXT, Source::Name),
            ("value", TEXT, Source::Value),
        ],
    ),
];

/// The schema `keyspace`.
#[derive(Debug)]
pub(crate) struct Keyspace(pub Arc<StoreHandle>);

#[async_trait]
impl SchemaProvider for Keyspace {
    fn table_names(&self) -> Vec<String> {
        TABLES.iter().map(|(name, ..)| (*name).to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some((_, layout, columns)) = TABLES.iter().find(|(other, ..)| *other == name) else {
            return Ok(None);
        };
        let field = |(name, data_type, _): &(&str, DataType, Source)| {
            let never_null = matches!(*name, "key" | "type" | "bytes");
            Field::new(*name, data_type.clone(), !never_null || *data_type == TEXT)
        };
        let declaration = Declaration {
            shape: *layout,
            pattern: Pattern::default(),
            schema: Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())),
            sources: columns.iter().map(|(.., source)| source.clone()).collect(),
            database: 0,
            strict: false,
        };
        let table = KeyTable::new(name.to_owned(), Arc::new(declaration), self.0.clone());
        Ok(Some(Arc::new(table.of_visible_keys())))
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|(other, ..)| *other == name)
    }
}
