//! The tables that have been declared, in memory and in a file that a start reads again.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::DFParser;
use parking_lot::Mutex;

use super::declaration::Declaration;
use super::error::QueryError;
use super::session::Store;
use super::table::KeyTable;

/// The name of the file in the data directory.
const FILE: &str = "tables.sql";

/// The schema `public`.
pub struct Declared {
    path: Option<PathBuf>,
    tables: Mutex<BTreeMap<String, Arc<KeyTable>>>,
}

impl Declared {
    /// The tables that the file in `directory` declares; none if there is no file.
    pub async fn read(
        directory: Option<&Path>,
        store: &Arc<Store>,
        context: &SessionContext,
    ) -> Result<Declared, QueryError> {
        let path = directory.map(|directory| directory.join(FILE));
        let mut tables = BTreeMap::new();
        let text = match &path {
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                Err(source) => return Err(QueryError::NotRead { path: path.display().to_string(), source }),
            },
            None => String::new(),
        };
        for statement in DFParser::parse_sql(&text)? {
            let plan = context.state().statement_to_plan(statement).await?;
            let LogicalPlan::Ddl(DdlStatement::CreateExternalTable(statement)) = plan else { continue };
            let declaration = Declaration::of_statement(&statement, store.databases())?;
            let name = statement.name.table().to_owned();
            let table = KeyTable::new(name.clone(), Arc::new(declaration), store.clone());
            tables.insert(name, Arc::new(table));
        }
        Ok(Declared { path, tables: Mutex::new(tables) })
    }

    /// Writes all declarations, in place of what the file held.
    fn write(&self, tables: &BTreeMap<String, Arc<KeyTable>>) -> Result<(), QueryError> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |source| QueryError::NotKept { path: path.display().to_string(), source };
        let mut text =
            String::from("-- The tables over keys that have been declared; written by the server.\n");
        for (name, table) in tables {
            text += &format!("{};\n", table.declaration().to_sql(name));
        }
        replace(path, text.as_bytes()).map_err(failed)
    }
}

/// Gives a file these contents, or leaves it as it is.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new = path.with_extension("sql.tmp");
    let mut file = File::create(&new)?;
    file.write_all(contents)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tables", self.tables.lock().len())
    }
}

#[async_trait]
impl SchemaProvider for Declared {
    fn table_names(&self) -> Vec<String> {
        self.tables.lock().keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let table = self.tables.lock().get(name).cloned();
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
        let mut tables = self.tables.lock();
        if tables.contains_key(&name) {
            return exec_err!("the table {name} already exists");
        }
        let mut new = tables.clone();
        new.insert(name, table);
        self.write(&new)?;
        *tables = new;
        Ok(None)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut tables = self.tables.lock();
        let mut new = tables.clone();
        let Some(table) = new.remove(name) else { return Ok(None) };
        self.write(&new)?;
        *tables = new;
        Ok(Some(table))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.lock().contains_key(name)
    }
}
