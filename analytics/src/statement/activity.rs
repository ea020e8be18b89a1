//! Running statements as rows of `SHOW QUERIES`, and the functions that cancel the statement of another
//! session.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use tarn_engine::Engine;

use crate::error::QueryError;
use crate::rights::Whose;
use crate::statement::query::{Owner, Queries, Query};

/// The text of a statement that the user who looks must not know, as PostgreSQL has it.
const HIDDEN: &str = "<insufficient privilege>";

/// Shows the texts of statements to a user.
pub(crate) struct Texts<'w> {
    whose: &'w Whose,
    shows_all: bool,
}

impl Texts<'_> {
    /// To the user of this session.
    pub(crate) fn for_user_of(owner: &Owner) -> Texts<'_> {
        Texts { whose: &owner.whose, shows_all: owner.whose.may_watch() }
    }

    /// The text of a statement of this session.
    fn shown(&self, owner: &Owner, text: &str) -> String {
        let shows = self.shows_all || self.whose.is_same_as(&owner.whose);
        let text = if shows { text } else { HIDDEN };
        text.to_owned()
    }

    /// The text of a statement that runs.
    pub(crate) fn of(&self, query: &Query) -> String {
        self.shown(query.owner(), &query.sql)
    }
}

/// A row of `SHOW QUERIES`.
struct Shown {
    pid: i64,
    /// The statement's number; none if a block does nothing.
    id: Option<i64>,
    state: &'static str,
    age_ms: f64,
    progress_percent: Option<f64>,
    rows: i64,
    /// The bits of the views that old versions are kept for.
    views: u64,
    query: String,
}

/// The statements that run, the oldest first, then the blocks in which none does.
fn shown(queries: &Queries, texts: &Texts<'_>) -> Vec<Shown> {
    let running = queries.running();
    let mut shown: Vec<Shown> = running
        .iter()
        .map(|query| Shown {
            pid: query.pid().into(),
            id: Some(query.id as i64),
            state: match (query.is_waiting(), query.is_cursor()) {
                (true, _) => "waiting for bits",
                (false, true) => "cursor",
                (false, false) => "running",
            },
            age_ms: query.age().as_secs_f64() * 1e3,
            progress_percent: query.progress().map(|share| (share * 1000.0).floor() / 10.0),
            rows: query.rows() as i64,
            views: query.views(),
            query: texts.of(query),
        })
        .collect();
    let is_idle = |pid| !running.iter().any(|query| query.pid() == pid && !query.is_cursor());
    shown.extend(queries.blocks().into_iter().filter(|block| is_idle(block.pid())).map(|block| Shown {
        pid: block.pid().into(),
        id: None,
        state: "idle in block",
        age_ms: block.began.elapsed().as_secs_f64() * 1e3,
        progress_percent: None,
        rows: 0,
        views: block.holds.views(),
        query: texts.shown(block.owner(), &block.newest),
    }));
    shown
}

/// The rows of `SHOW QUERIES` in a session. Looks at what is kept, if anything is: a moment for each segment.
pub(crate) fn show(
    queries: &Queries,
    engine: Option<&Engine>,
    owner: &Owner,
) -> Result<RecordBatch, QueryError> {
    let shown = shown(queries, &Texts::for_user_of(owner));
    let masks: Vec<u64> = shown.iter().map(|row| row.views).collect();
    let kept = engine.map_or_else(|| vec![0; masks.len()], |engine| engine.views().kept_for(&masks));
    let pids: Int64Array = shown.iter().map(|row| Some(row.pid)).collect();
    let ids: Int64Array = shown.iter().map(|row| row.id).collect();
    let states: StringViewArray = shown.iter().map(|row| Some(row.state)).collect();
    let ages: Float64Array = shown.iter().map(|row| Some(row.age_ms)).collect();
    let progress: Float64Array = shown.iter().map(|row| row.progress_percent).collect();
    let rows: Int64Array = shown.iter().map(|row| Some(row.rows)).collect();
    let kept: Int64Array = kept.into_iter().map(|bytes| Some(bytes as i64)).collect();
    let texts: StringViewArray = shown.iter().map(|row| Some(row.query.as_str())).collect();
    let columns: [(&str, ArrayRef, bool); 8] = [
        ("pid", Arc::new(pids), false),
        ("id", Arc::new(ids), true),
        ("state", Arc::new(states), false),
        ("age_ms", Arc::new(ages), false),
        ("progress_percent", Arc::new(progress), true),
        ("rows", Arc::new(rows), false),
        ("remset_bytes", Arc::new(kept), false),
        ("query", Arc::new(texts), false),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(columns).map_err(DataFusionError::from)?)
}

/// `pg_cancel_backend(pid)`, as a session calls it: stops the statement of a session, and says whether there
/// was one.
pub(crate) fn cancel_backend(queries: Arc<Queries>, owner: Arc<Owner>) -> ScalarUDF {
    let cancel = move |arguments: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let pids = arrays[0].as_primitive::<Int64Type>();
        let cancel = |pid: i64| match i32::try_from(pid) {
            Ok(pid) => queries.cancel(pid, &owner.whose).map_err(QueryError::from),
            Err(_) => Ok(false),
        };
        let answers: BooleanArray =
            pids.iter().map(|pid| pid.map(cancel).transpose()).collect::<Result<_, QueryError>>()?;
        match arguments[0] {
            ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?)),
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(Arc::new(answers) as Arc<dyn Array>)),
        }
    };
    // Volatile: else it would be asked while a statement is planned, by EXPLAIN as well.
    create_udf(
        "pg_cancel_backend",
        vec![DataType::Int64],
        DataType::Boolean,
        Volatility::Volatile,
        Arc::new(cancel),
    )
}

/// `session_user`: the name of the user of the session that asks.
pub(crate) fn session_user(owner: Arc<Owner>) -> ScalarUDF {
    let answer = move |_: &[ColumnarValue]| {
        let name = owner.whose.name().unwrap_or("default");
        Ok(ColumnarValue::Scalar(ScalarValue::from(name)))
    };
    create_udf("session_user", Vec::new(), DataType::Utf8, Volatility::Stable, Arc::new(answer))
}

/// `pg_backend_pid()`: the number of the session that asks.
pub(crate) fn backend_pid(pid: i32) -> ScalarUDF {
    let answer = move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::from(pid)));
    create_udf("pg_backend_pid", Vec::new(), DataType::Int32, Volatility::Stable, Arc::new(answer))
}
