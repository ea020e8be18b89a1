//! The state that all SQL sessions of a server share: store, planner, declared tables, threads and limits.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, TableProviderFactory};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_postgres::datafusion_pg_catalog::setup_pg_catalog;
use tarn_engine::Engine;
use tarn_engine::record::Lsn;

use crate::catalog::declared::DeclaredTables;
use crate::catalog::functions;
use crate::catalog::infer::Infer;
use crate::catalog::keyspace::Keyspace;
use crate::catalog::pg_catalog::System;
use crate::catalog::settings::DATABASE;
use crate::connections::Connections;
use crate::error::QueryError;
use crate::exact;
use crate::export::remove_unfinished;
use crate::guard::compute::Compute;
use crate::guard::growth::bounded;
use crate::json;
use crate::plan::by_index::ByIndex;
use crate::plan::extremes::Extremes;
use crate::plan::key_table::KeyTables;
use crate::statement::instant::Bits;
use crate::statement::query::Queries;
use crate::statement::store::{Changes, StoreHandle};
use crate::statement::turns::Turns;
use crate::table::declaration::Shape;
use crate::table::rows::BATCH_ROWS;

/// The number of consumers that an error about memory names, those with the most memory.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::new(3).expect("3 is not 0");

/// Options of [`Analytics`].
#[derive(Clone, Debug)]
pub struct AnalyticsOptions {
    /// Number of logical databases.
    pub databases: usize,
    /// Bytes that operators of all queries may use.
    pub memory_bytes: usize,
    /// Threads that run queries.
    pub threads: usize,
    /// Where the declarations are kept; `None`: nowhere.
    pub directory: Option<PathBuf>,
    /// Where `COPY … TO` writes; `None`: nowhere.
    pub export_directory: Option<PathBuf>,
}

/// The analytics of a server.
pub struct Analytics {
    /// The store, from before it is loaded.
    pub(crate) store: Arc<StoreHandle>,
    /// The planner with its catalog, functions and rules, which each session copies.
    pub(crate) state: SessionState,
    /// The declared tables.
    pub(crate) declared: Arc<DeclaredTables>,
    /// The bits of views that statements share.
    pub(crate) bits: Arc<Bits>,
    /// The turns of scans beside clients that wait.
    pub(crate) turns: Arc<Turns>,
    /// The statements that run.
    pub(crate) queries: Arc<Queries>,
    /// The threads that plan and run them.
    pub(crate) compute: Compute,
    connections: Arc<Connections>,
    /// Bytes that operators of all queries may use.
    pub(crate) memory_bytes: usize,
    /// The directory of `COPY … TO`, if there is one.
    pub(crate) export_directory: Option<PathBuf>,
}

impl Analytics {
    /// Reads what has been declared. Nothing can be asked until [`Analytics::read_from`].
    pub async fn open(options: AnalyticsOptions) -> Result<Arc<Analytics>, QueryError> {
        if let Some(directory) = &options.export_directory
            && let Err(error) = remove_unfinished(directory)
        {
            tracing::warn!("What a crash may have left in {} stays: {error}", directory.display());
        }
        let compute = Compute::start(options.threads).map_err(QueryError::Threads)?;
        let store = Arc::new(StoreHandle::new(options.databases));
        let config = SessionConfig::new()
            .with_default_catalog_and_schema(DATABASE, "public")
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_target_partitions(options.threads.max(1))
            .with_batch_size(BATCH_ROWS)
            // A constant such as 0.1 is a decimal, as in PostgreSQL.
            .set_bool("datafusion.sql_parser.parse_float_as_decimal", true)
            // Whether a column may be NULL is not said alike in all steps of a plan, which harms nothing.
            .set_bool("datafusion.execution.skip_physical_aggregate_schema_check", true)
            // It makes room for as many groups as a LIMIT says, before there is one, and counts them nowhere.
            .set_bool("datafusion.optimizer.enable_topk_aggregation", false)
            // `ByIndex` does it, where few rows are wanted.
            .set_bool("datafusion.optimizer.enable_sort_pushdown", false);
        let pool = TrackConsumersPool::new(GreedyMemoryPool::new(options.memory_bytes), CONSUMERS_NAMED);
        let nothing_on_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .with_disk_manager_builder(nothing_on_disk)
            .build_arc()?;
        let factory: Arc<dyn TableProviderFactory> = Arc::new(KeyTables(store.clone()));
        let shapes = [
            Shape::Hash,
            Shape::String,
            Shape::Json,
            Shape::ZSet,
            Shape::Geo,
            Shape::List,
            Shape::Set,
            Shape::Stream,
        ];
        let factories: HashMap<_, _> =
            shapes.iter().map(|shape| (shape.to_string(), factory.clone())).collect();
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_table_factories(factories)
            .with_analyzer_rules(exact::rules())
            .with_optimizer_rule(Arc::new(Extremes))
            .with_physical_optimizer_rules(exact::physical_rules())
            .with_physical_optimizer_rule(Arc::new(ByIndex))
            .build();
        let context = SessionContext::new_with_state(state);
        let catalog = Arc::new(MemoryCatalogProvider::new());
        context.register_catalog(DATABASE, catalog.clone());
        let declared = Arc::new(DeclaredTables::read(options.directory.as_deref(), &store, &context).await?);
        catalog.register_schema("public", declared.clone())?;
        catalog.register_schema("keyspace", Arc::new(Keyspace(store.clone())))?;
        let queries = Arc::<Queries>::default();
        setup_pg_catalog(&context, DATABASE, EmptyContextProvider).map_err(|error| *error)?;
        if let Some(system) = catalog.schema("pg_catalog") {
            catalog.register_schema("pg_catalog", Arc::new(System(system, queries.clone())))?;
        }
        functions::register(&context);
        exact::register(&context);
        json::register(&context);
        context.register_udtf("infer", Arc::new(Infer(store.clone())));
        Ok(Arc::new(Analytics {
            store,
            state: bounded(context.state(), options.memory_bytes)?,
            declared,
            bits: Arc::default(),
            turns: Arc::default(),
            queries,
            compute,
            connections: Arc::default(),
            memory_bytes: options.memory_bytes,
            export_directory: options.export_directory,
        }))
    }

    /// Sets how the engine is found once the store is loaded. REQUIRES: it is called once.
    pub fn read_from(&self, find: impl Fn() -> Option<Arc<Engine>> + Send + Sync + 'static) {
        self.store.read_from(find);
    }

    /// Sets which changes may be shown; without it all may. REQUIRES: it is called once.
    pub fn show_by(&self, may_show: impl Fn(Lsn) -> Result<bool, String> + Send + Sync + 'static) {
        self.store.show_by(may_show);
    }

    /// Sets the rules for changes of keys; without them these may be changed at any time. REQUIRES: it is
    /// called once.
    pub fn change_by(&self, changes: impl Changes + 'static) {
        self.store.change_by(changes);
    }

    /// Has the declared indexes made, if the store is there; it is asked for anyway when a statement comes.
    pub fn make_indexes(&self) {
        self.declared.make_indexes();
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<StoreHandle> {
        &self.store
    }

    /// The statements that run.
    pub fn queries(&self) -> &Arc<Queries> {
        &self.queries
    }

    /// The clients of the wire.
    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// The store, unless it is being loaded.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.store.engine()
    }

    /// The number of declared tables. Takes no lock.
    pub fn tables(&self) -> usize {
        self.declared.count()
    }

    /// Statements that wait for views.
    pub fn waiting(&self) -> usize {
        self.bits.waiting()
    }

    /// Bytes that operators use now.
    pub fn memory_bytes(&self) -> usize {
        self.state.runtime_env().memory_pool.reserved()
    }

    /// Bytes that operators may use.
    pub fn memory_bytes_max(&self) -> usize {
        self.memory_bytes
    }
}
