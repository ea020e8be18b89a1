//! The declared tables with their indexes, in memory and in a file that is read at startup.
//!
//! ```text
//!   change:  turn ── file ── gate, if an index comes or goes ── publish ── count
//!   read:    the tables as they are now; statistics read the count, and no lock
//! ```
//!
//! A change waits for the disk and for the gate while it holds the turn. So code inside the gate must not
//! wait for the turn (`tarn_engine::declared`).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{CreateIndex, DdlStatement, Expr, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast;
use tarn_engine::declared::{Declared, Turn};

use crate::catalog::requested_indexes::RequestedIndexes;
use crate::error::QueryError;
use crate::plan::key_table::KeyTable;
use crate::statement::store::StoreHandle;
use crate::table::declaration::Declaration;
use crate::table::index::TableIndex;

/// The name of the file in the data directory.
pub(crate) const FILE: &str = "tables.sql";

/// The tables, by name.
type Tables = BTreeMap<String, Arc<KeyTable>>;

/// The schema `public`.
pub(crate) struct DeclaredTables {
    path: Option<PathBuf>,
    requested: RequestedIndexes,
    tables: Declared<Tables>,
    /// How many there are.
    count: AtomicUsize,
}

impl DeclaredTables {
    /// Reads the declarations from the file in `directory`; none if there is no file.
    pub(crate) async fn read(
        directory: Option<&Path>,
        store: &Arc<StoreHandle>,
        context: &SessionContext,
    ) -> Result<DeclaredTables, QueryError> {
        let path = directory.map(|directory| directory.join(FILE));
        let requested = RequestedIndexes::new(store.clone());
        let mut tables = Tables::new();
        let text = path.as_deref().map(read_or_nothing).transpose()?.unwrap_or_default();
        for statement in DFParser::parse_sql(&text)? {
            if let Some((table, name, column)) = index_of(&statement) {
                let index = add_index(&mut tables, &table, Some(name), &column)?;
                requested.want(index)?;
                continue;
            }
            let plan = context.state().statement_to_plan(statement).await?;
            let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(statement)) = plan else { continue };
            let declaration = Declaration::of_statement(&statement, store.databases())?;
            let name = statement.name.table().to_owned();
            let table = KeyTable::new(name.clone(), Arc::new(declaration), store.clone());
            tables.insert(name, Arc::new(table));
        }
        let count = AtomicUsize::new(tables.len());
        Ok(DeclaredTables { path, requested, tables: Declared::new(tables), count })
    }

    /// The tables as they are now.
    fn now(&self) -> Arc<Tables> {
        self.tables.now()
    }

    /// Shows these tables to everybody from now on.
    fn publish(&self, turn: &Turn<'_, Tables>, tables: Tables) {
        self.count.store(tables.len(), Ordering::Relaxed);
        turn.publish(tables);
    }

    /// The number of tables. Takes no lock, so it may be called inside the gate.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Writes all declarations, in place of what the file held.
    fn write(&self, tables: &Tables) -> Result<(), QueryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |source| QueryError::NotKept { path: path.display().to_string(), source };
        let mut text =
            String::from("-- The tables over keys that have been declared; written by the server.\n");
        for (name, table) in tables {
            text += &format!("{};\n", table.declaration().to_sql(name));
            table.indexes().iter().for_each(|index| text += &format!("{};\n", index.to_sql()));
        }
        replace(path, text.as_bytes()).map_err(failed)
    }

    /// Makes an index; it is built in the background. REQUIRES: the table is one of these.
    pub(crate) fn create_index(&self, statement: &CreateIndex) -> Result<(), QueryError> {
        let [column] = statement.columns.as_slice() else { return Err(QueryError::IndexClause) };
        let Expr::Column(column) = &column.expr else { return Err(QueryError::IndexClause) };
        let is_tree = statement.using.as_ref().is_none_or(|word| word.eq_ignore_ascii_case("btree"));
        if statement.unique || !is_tree {
            return Err(QueryError::IndexClause);
        }
        let turn = self.tables.turn();
        let mut new = Tables::clone(&self.now());
        let name = statement.name.clone().map(|name| name.trim_matches('"').to_owned());
        let index = match add_index(&mut new, statement.table.table(), name, &column.name) {
            Err(QueryError::IndexExists(_)) if statement.if_not_exists => return Ok(()),
            other => other?,
        };
        self.requested.want(index.clone())?;
        if let Err(error) = self.write(&new) {
            self.requested.drop(&index);
            return Err(error);
        }
        self.publish(&turn, new);
        Ok(())
    }

    /// Drops an index; `false` if there is none of this name.
    pub(crate) fn drop_index(&self, name: &str) -> Result<bool, QueryError> {
        let turn = self.tables.turn();
        let tables = self.now();
        let Some(index) = all_indexes(&tables).find(|index| index.name == name).cloned() else {
            return Ok(false);
        };
        let mut new = Tables::clone(&tables);
        if let Some(table) = new.get_mut(&index.table) {
            let left = table.indexes().iter().filter(|other| other.name != name).cloned().collect();
            *table = Arc::new(table.with_indexes(left));
        }
        self.write(&new)?;
        self.publish(&turn, new);
        self.requested.drop(&index);
        Ok(true)
    }

    /// Makes the declared indexes, if the store is loaded now and they are not made yet.
    pub(crate) fn make_indexes(&self) {
        self.requested.make_all();
    }

    /// All indexes.
    pub(crate) fn indexes(&self) -> Vec<Arc<TableIndex>> {
        all_indexes(&self.now()).cloned().collect()
    }
}

fn all_indexes(tables: &Tables) -> impl Iterator<Item = &Arc<TableIndex>> {
    tables.values().flat_map(|table| table.indexes())
}

/// Adds an index to its table.
fn add_index(
    tables: &mut Tables,
    table: &str,
    name: Option<String>,
    column: &str,
) -> Result<Arc<TableIndex>, QueryError> {
    let is_taken = |tables: &Tables, name: &str| all_indexes(tables).any(|index| index.name == name);
    let name = match name {
        Some(name) if is_taken(tables, &name) => return Err(QueryError::IndexExists(name)),
        Some(name) => name,
        None => {
            // As PostgreSQL calls it.
            let first = format!("{table}_{column}_idx");
            let others = (1..).map(|number| format!("{first}{number}"));
            let mut names = std::iter::once(first.clone()).chain(others);
            names.find(|name| !is_taken(tables, name)).expect("there is a number that no index has")
        }
    };
    let found = tables.get_mut(table).ok_or_else(|| QueryError::NotDeclared(table.to_owned()))?;
    let declaration = found.declaration().clone();
    let no_column = || QueryError::NoColumn { table: table.to_owned(), column: column.to_owned() };
    let at = declaration.schema.index_of(column).map_err(|_| no_column())?;
    let index = Arc::new(TableIndex::new(name, table.to_owned(), at, declaration)?);
    let indexes = found.indexes().iter().chain([&index]).cloned().collect();
    *found = Arc::new(found.with_indexes(indexes));
    Ok(index)
}

/// Table, name and column of an index, as the file has it.
fn index_of(statement: &Statement) -> Option<(String, String, String)> {
    let Statement::Statement(statement) = statement else { return None };
    let ast::Statement::CreateIndex(index) = &**statement else { return None };
    let last = |name: &ast::ObjectName| Some(name.0.last()?.as_ident()?.value.clone());
    let ast::Expr::Identifier(column) = &index.columns.first()?.column.expr else { return None };
    Some((last(&index.table_name)?, last(index.name.as_ref()?)?, column.value.clone()))
}

/// The text of a file; none if it is not there.
pub(crate) fn read_or_nothing(path: &Path) -> Result<String, QueryError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        // Whether there is such a directory is not asked here.
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
            Ok(String::new())
        }
        Err(source) => Err(QueryError::NotRead { path: path.display().to_string(), source }),
    }
}

/// Gives a file these contents, or leaves it as it is.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new = path.with_added_extension("tmp");
    let mut file = File::create(&new)?;
    file.write_all(contents)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

impl fmt::Debug for DeclaredTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tables", self.count())
    }
}

#[async_trait]
impl SchemaProvider for DeclaredTables {
    fn table_names(&self) -> Vec<String> {
        self.now().keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let table = self.now().get(name).cloned();
        Ok(table.map(|table| table as Arc<dyn TableProvider>))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let any: Arc<dyn std::any::Any + Send + Sync> = table;
        let Ok(table) = any.downcast::<KeyTable>() else {
            return exec_err!("only tables over keys are kept here");
        };
        let turn = self.tables.turn();
        let tables = self.now();
        if tables.contains_key(&name) {
            return exec_err!("the table {name} already exists");
        }
        let mut new = Tables::clone(&tables);
        new.insert(name, table);
        self.write(&new)?;
        self.publish(&turn, new);
        Ok(None)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let turn = self.tables.turn();
        let mut new = Tables::clone(&self.now());
        let Some(table) = new.remove(name) else { return Ok(None) };
        self.write(&new)?;
        self.publish(&turn, new);
        table.indexes().iter().for_each(|index| self.requested.drop(index));
        Ok(Some(table))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.now().contains_key(name)
    }
}
