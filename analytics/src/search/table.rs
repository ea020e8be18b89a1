//! The rows of an index: the columns that a command needs of its keys, read by scans of one instant.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};

use crate::plan::key_table::KeyTable;
use crate::statement::store::StoreHandle;
use crate::table::declaration::{Declaration, Pattern, Source};

use super::error::SearchError;
use super::index::{Attribute, Form, Index, Kind};

/// The column of this name, whatever letters it has.
pub(super) fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// The columns that a command wants.
pub(super) struct Table<'i> {
    /// The index.
    pub index: &'i Index,
    wanted: Vec<(Source, DataType)>,
    /// Bytes of the words that its filter looks for, once for each column.
    pub words_bytes: usize,
}

impl<'i> Table<'i> {
    /// None yet.
    pub(super) fn of(index: &'i Index) -> Table<'i> {
        Table { index, wanted: Vec::new(), words_bytes: 0 }
    }

    /// The name of a column that shows this as this type.
    pub(super) fn want(&mut self, source: Source, data_type: DataType) -> String {
        let wanted = (source, data_type);
        let at = self.wanted.iter().position(|other| *other == wanted).unwrap_or_else(|| {
            self.wanted.push(wanted);
            self.wanted.len() - 1
        });
        format!("c{at}")
    }

    /// The key, all of it.
    pub(super) fn key(&mut self) -> String {
        self.want(Source::WholeKey, DataType::BinaryView)
    }

    /// The value of an attribute, as a number or as text.
    pub(super) fn value(&mut self, attribute: &Attribute) -> String {
        let data_type = match attribute.form {
            Form::Numeric => DataType::Float64,
            _ => DataType::Utf8View,
        };
        self.want(attribute.source.clone(), data_type)
    }

    /// The column that the words or tags of an attribute are looked for in, and whether it has JSON arrays.
    pub(super) fn texts(&mut self, attribute: &Attribute) -> (String, bool) {
        let source = match &attribute.source {
            Source::Path(steps) | Source::Each(steps) => Source::Each(steps.clone()),
            source => source.clone(),
        };
        (self.want(source, DataType::Utf8View), self.index.kind == Kind::Json)
    }

    /// A plan that has these columns of each key.
    pub(super) fn plan(mut self, store: &Arc<StoreHandle>) -> Result<LogicalPlanBuilder, SearchError> {
        // Strings that are JSON are tables' business.
        let of_json = (self.index.kind == Kind::Json).then(|| self.want(Source::Type, DataType::Utf8View));
        if self.wanted.is_empty() {
            self.key();
        }
        let fields = self.wanted.iter().enumerate();
        let fields: Vec<_> = fields
            .map(|(at, (_, data_type))| Field::new(format!("c{at}"), data_type.clone(), true))
            .collect();
        let names: Vec<Expr> = fields.iter().map(|field| column(field.name())).collect();
        let (schema, sources) =
            (Arc::new(Schema::new(fields)), self.wanted.into_iter().map(|(source, _)| source));
        let sources: Vec<Source> = sources.collect();
        let mut all: Option<LogicalPlanBuilder> = None;
        for prefix in self.index.distinct_prefixes() {
            let declaration = Declaration {
                shape: self.index.kind.layout(),
                pattern: Pattern::of_prefix(prefix.as_bytes()),
                schema: schema.clone(),
                sources: sources.clone(),
                database: 0,
                strict: false,
            };
            let name = self.index.name.clone();
            let table = KeyTable::new(name.clone(), Arc::new(declaration), store.clone());
            let scan = LogicalPlanBuilder::scan(
                datafusion::common::TableReference::bare(name),
                provider_as_source(Arc::new(table)),
                None,
            )?
            .project(names.clone())?;
            all = Some(match all {
                None => scan,
                Some(others) => others.union(scan.build()?)?,
            });
        }
        let all = all.expect("an index has a prefix");
        Ok(match of_json {
            Some(name) => all.filter(column(&name).eq(lit("ReJSON-RL")))?,
            None => all,
        })
    }
}
