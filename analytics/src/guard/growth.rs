//! Bounds functions whose result may be far larger than their arguments, such as `repeat('x', 2000000000)`.
//! They estimate the size of the result first, and results that do not fit are refused.
//!
//! ```text
//!   call ─ estimate ─┬─ results that are still there + this one > analytics-max-memory:  error
//!                    └─ the function itself ─ its result is counted for as long as it is there
//! ```
//!
//! Operators reserve what they keep from the same number of bytes, apart from this.

use std::cell::OnceCell;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::length::length;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::utils::list_ndims;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use tarn_engine::lock::Mutex;

use crate::statement::constants;

/// Results of fewer bytes are not counted.
const SMALL_BYTES: u64 = 64 << 10;

/// Constants, one for each row of a batch, take at most such a part of what there is for all.
const BATCHES_OF_CONSTANTS: usize = 16;

/// How many bytes the result of a function has at most, about.
type Estimate = fn(&Given<'_>) -> u64;

/// The functions, each with its estimate.
const GROWING: [(&str, Estimate); 24] = [
    ("repeat", |it| it.sum(|row| it.bytes(0, row).saturating_mul(it.number(1, row)))),
    ("lpad", padded),
    ("rpad", padded),
    ("replace", replaced),
    ("regexp_replace", replaced_by_pattern),
    ("concat", joined),
    ("concat_ws", |it| {
        it.sum(|row| it.bytes(0, row).saturating_mul(it.args.len() as u64)).saturating_add(joined(it))
    }),
    ("overlay", joined),
    ("translate", joined),
    ("encode", joined),
    ("to_char", |it| it.sum(|row| it.bytes(1, row).saturating_mul(32))),
    ("string_to_array", |it| it.sum(|row| it.bytes(0, row).saturating_mul(24))),
    ("array_to_string", |it| {
        // There may be more of them within those.
        let elements = |row| it.count(0, row).max(it.bytes(0, row) / 4);
        it.sum(|row| elements(row).saturating_mul(it.bytes(1, row) + it.bytes(2, row) + 24))
            .saturating_add(joined(it).saturating_mul(2))
    }),
    ("array_repeat", |it| it.sum(|row| it.bytes(0, row).max(8).saturating_mul(it.number(1, row)))),
    ("array_resize", |it| {
        it.sum(|row| it.number(1, row).saturating_mul(it.bytes(2, row).max(8))).saturating_add(joined(it))
    }),
    ("range", in_steps),
    ("generate_series", in_steps),
    ("make_array", joined),
    ("array_concat", joined),
    ("array_append", joined),
    ("array_prepend", joined),
    ("array_replace", replaced_elements),
    ("array_replace_n", replaced_elements),
    ("array_replace_all", replaced_elements),
];

/// A character takes up to four bytes.
fn padded(it: &Given<'_>) -> u64 {
    it.sum(|row| it.number(1, row).saturating_mul(4))
}

/// All that it is given, twice: a function that joins may double, as one that quotes.
fn joined(it: &Given<'_>) -> u64 {
    it.sum(|row| (0..it.args.len()).fold(0, |sum: u64, arg| sum.saturating_add(it.bytes(arg, row))))
        .saturating_mul(2)
}

fn replaced(it: &Given<'_>) -> u64 {
    it.sum(|row| {
        let (text, from, to) = (it.bytes(0, row), it.bytes(1, row), it.bytes(2, row));
        (text / from.max(1) + 1).saturating_mul(to).saturating_add(text)
    })
}

/// A match may be referred to any number of times, in at least two bytes each.
fn replaced_by_pattern(it: &Given<'_>) -> u64 {
    let is_global = it.args.len() > 3;
    it.sum(|row| {
        let (text, to) = (it.bytes(0, row), it.bytes(2, row));
        let matches = if is_global { text + 1 } else { 1 };
        let named = if it.names_matches(2) { (to / 2).saturating_mul(text) } else { 0 };
        matches.saturating_mul(to).saturating_add(named).saturating_add(text)
    })
}

fn replaced_elements(it: &Given<'_>) -> u64 {
    it.sum(|row| it.count(0, row).saturating_mul(it.bytes(2, row))).saturating_add(joined(it))
}

/// From a number, a day or a moment to another. Between days at least one lies.
fn in_steps(it: &Given<'_>) -> u64 {
    let is_in_time = matches!(it.args[0].data_type(), DataType::Timestamp(..));
    let unit = if is_in_time { it.interval_nanos() } else { 1 };
    it.sum(|row| {
        // One number alone is the end.
        let (from, to) = if it.args.len() > 1 { (it.signed(0, row), 1) } else { (0, 0) };
        let step = if it.args.len() > 2 { it.signed(2, row).unsigned_abs().max(1) } else { 1 };
        let steps = from.abs_diff(it.signed(to, row)) / unit / step;
        steps.saturating_add(1).saturating_mul(8)
    })
}

/// Of an argument: a number of each row, or one for all.
enum Of {
    All(i64),
    Each(Int64Array),
}

impl Of {
    fn at(&self, row: usize) -> i64 {
        match self {
            Of::All(number) => *number,
            Of::Each(numbers) if numbers.is_null(row) => 0,
            Of::Each(numbers) => numbers.value(row),
        }
    }
}

/// The arguments of a function, measured.
struct Given<'a> {
    args: &'a [ColumnarValue],
    rows: usize,
    /// Bytes of texts, of lists on the average.
    bytes: OnceCell<Vec<Of>>,
    /// Elements of lists.
    counts: OnceCell<Vec<Of>>,
    /// The numbers themselves, days, or moments.
    numbers: OnceCell<Vec<Of>>,
}

impl<'a> Given<'a> {
    fn new(args: &'a ScalarFunctionArgs) -> Given<'a> {
        let is_one = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { args.number_rows };
        let args = &args.args[..];
        Given { args, rows, bytes: OnceCell::new(), counts: OnceCell::new(), numbers: OnceCell::new() }
    }

    fn sum(&self, of: impl Fn(usize) -> u64) -> u64 {
        (0..self.rows).fold(0, |sum: u64, row| sum.saturating_add(of(row)))
    }

    /// The measure of an argument; the first call measures all of them.
    fn of<'m>(
        &self,
        of: &'m OnceCell<Vec<Of>>,
        measure: fn(&ColumnarValue) -> Of,
        arg: usize,
    ) -> Option<&'m Of> {
        of.get_or_init(|| self.args.iter().map(measure).collect()).get(arg)
    }

    fn bytes(&self, arg: usize, row: usize) -> u64 {
        self.of(&self.bytes, bytes_of, arg).map_or(0, |of| of.at(row).max(0) as u64)
    }

    fn count(&self, arg: usize, row: usize) -> u64 {
        self.of(&self.counts, lengths_of, arg).map_or(0, |of| of.at(row).max(0) as u64)
    }

    fn number(&self, arg: usize, row: usize) -> u64 {
        self.signed(arg, row).max(0) as u64
    }

    fn signed(&self, arg: usize, row: usize) -> i64 {
        self.of(&self.numbers, numbers_of, arg).map_or(0, |of| of.at(row))
    }

    /// Whether a replacement may name what was matched.
    fn names_matches(&self, arg: usize) -> bool {
        match self.args.get(arg) {
            Some(ColumnarValue::Scalar(value)) => {
                value.try_as_str().flatten().is_none_or(|text| text.contains(['\\', '$']))
            }
            _ => true,
        }
    }

    /// How long the step of a series is at least, if it is the same for all rows.
    fn interval_nanos(&self) -> u64 {
        const DAY: i128 = 86_400_000_000_000;
        let Some(ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(step)))) = self.args.last()
        else {
            return 1;
        };
        let parts =
            [i128::from(step.months) * 28 * DAY, i128::from(step.days) * DAY, step.nanoseconds.into()];
        // Of a month that some days are taken from little may be left.
        let is_mixed = parts.iter().any(|part| *part < 0) && parts.iter().any(|part| *part > 0);
        let nanos = parts.iter().sum::<i128>().unsigned_abs();
        if is_mixed { 1 } else { u64::try_from(nanos).unwrap_or(u64::MAX).max(1) }
    }
}

fn bytes_of(arg: &ColumnarValue) -> Of {
    let is_text = matches!(
        arg.data_type(),
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    );
    match arg {
        _ if is_text => lengths_of(arg),
        ColumnarValue::Scalar(value) => {
            Of::All(value.data_type().primitive_width().unwrap_or_else(|| value.size()) as i64)
        }
        ColumnarValue::Array(array) => {
            let bytes =
                array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size());
            Of::All((bytes / array.len().max(1)) as i64)
        }
    }
}

fn lengths_of(arg: &ColumnarValue) -> Of {
    let lengths = |array: &ArrayRef| cast(&length(array).ok()?, &DataType::Int64).ok();
    of_arrays(arg, lengths)
}

fn numbers_of(arg: &ColumnarValue) -> Of {
    let numbers = |array: &ArrayRef| match array.data_type() {
        DataType::Timestamp(_, zone) => {
            let nanos = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
            cast(&cast(array, &nanos).ok()?, &DataType::Int64).ok()
        }
        // Not their milliseconds, as which the cast has it.
        DataType::Date32 => cast(&cast(array, &DataType::Int32).ok()?, &DataType::Int64).ok(),
        kind if kind.is_integer() || kind.is_temporal() => cast(array, &DataType::Int64).ok(),
        _ => None,
    };
    of_arrays(arg, numbers)
}

fn of_arrays(arg: &ColumnarValue, measure: impl Fn(&ArrayRef) -> Option<ArrayRef>) -> Of {
    match arg {
        ColumnarValue::Scalar(value) => {
            let array = value.to_array().ok().and_then(|array| measure(&array));
            let number = array.and_then(|array| array.as_primitive_opt::<Int64Type>().cloned());
            Of::All(number.filter(|it| it.is_valid(0)).map_or(0, |it| it.value(0)))
        }
        ColumnarValue::Array(array) => {
            let numbers = measure(array).and_then(|array| array.as_primitive_opt::<Int64Type>().cloned());
            numbers.map_or(Of::All(0), Of::Each)
        }
    }
}

/// The results of all statements that are still there.
#[derive(Debug)]
struct Results {
    bytes_max: u64,
    there: Mutex<Vec<(Weak<dyn Array>, u64)>>,
}

impl Results {
    /// Refuses a result of this many bytes if there is no room for it.
    fn admit(&self, name: &str, bytes: u64) -> Result<()> {
        if bytes < SMALL_BYTES {
            return Ok(());
        }
        let mut there = self.there.lock();
        there.retain(|(array, _)| array.strong_count() > 0);
        let held: u64 = there.iter().map(|(_, bytes)| bytes).sum();
        let held = held + constants::bytes();
        if held.saturating_add(bytes) <= self.bytes_max {
            return Ok(());
        }
        Err(DataFusionError::ResourcesExhausted(format!(
            "the result of {name} may take {bytes} bytes beside {held} of others, and all may take {}",
            self.bytes_max
        )))
    }

    fn note(&self, result: &ColumnarValue) {
        match result {
            ColumnarValue::Scalar(value) => constants::add(value.size() as u64),
            ColumnarValue::Array(array) => {
                let bytes = array.get_array_memory_size() as u64;
                if bytes >= SMALL_BYTES {
                    self.there.lock().push((Arc::downgrade(array), bytes));
                }
            }
        }
    }
}

/// A function that says first how large its result would be.
#[derive(Debug)]
struct Weighed {
    inner: Arc<ScalarUDF>,
    estimate: Estimate,
    results: Arc<Results>,
}

impl PartialEq for Weighed {
    fn eq(&self, other: &Weighed) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Weighed {}

impl Hash for Weighed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for Weighed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.results.admit(self.name(), (self.estimate)(&Given::new(&args)))?;
        let result = self.inner.invoke_with_args(args)?;
        self.results.note(&result);
        Ok(result)
    }
}

/// Stands around `a || b`, and counts what it has made, which is at most twice what was there.
#[derive(Debug)]
struct Counted {
    results: Arc<Results>,
    signature: Signature,
}

impl PartialEq for Counted {
    fn eq(&self, other: &Counted) -> bool {
        Arc::ptr_eq(&self.results, &other.results)
    }
}

impl Eq for Counted {}

impl Hash for Counted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for Counted {
    fn name(&self) -> &str {
        "||"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(args.arg_fields[0].clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = args.args.swap_remove(0);
        let bytes = match &result {
            ColumnarValue::Scalar(value) => value.size(),
            ColumnarValue::Array(array) => array.get_array_memory_size(),
        };
        self.results.admit(self.name(), bytes as u64)?;
        self.results.note(&result);
        Ok(result)
    }
}

/// Plans `a || b` of texts and of lists, and `[a, b]`.
#[derive(Debug)]
struct Joins {
    texts: Arc<ScalarUDF>,
    list: Arc<ScalarUDF>,
    lists: Arc<ScalarUDF>,
    append: Arc<ScalarUDF>,
    prepend: Arc<ScalarUDF>,
}

impl ExprPlanner for Joins {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::StringConcat {
            return Ok(PlannerResult::Original(expr));
        }
        let (left, right) =
            (list_ndims(&expr.left.get_type(schema)?), list_ndims(&expr.right.get_type(schema)?));
        let (function, args) = match left.cmp(&right) {
            _ if left + right == 0 => {
                let (left, right) = (Box::new(expr.left), Box::new(expr.right));
                (&self.texts, vec![Expr::BinaryExpr(BinaryExpr::new(left, Operator::StringConcat, right))])
            }
            std::cmp::Ordering::Equal => (&self.lists, vec![expr.left, expr.right]),
            std::cmp::Ordering::Greater => (&self.append, vec![expr.left, expr.right]),
            std::cmp::Ordering::Less => (&self.prepend, vec![expr.left, expr.right]),
        };
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(function.clone(), args))))
    }

    fn plan_array_literal(&self, exprs: Vec<Expr>, _: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(self.list.clone(), exprs))))
    }
}

/// The number of rows of a batch, at most `most`: fewer where a statement has large constants, of
/// which an operator may make one for each row.
pub(crate) fn rows_of_batch(plan: &LogicalPlan, most: usize, bytes_max: usize) -> Result<usize> {
    let mut bytes = 0;
    plan.apply_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Values(_)) {
            node.apply_expressions(|expr| {
                bytes += constants_in(expr)?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((bytes_max / BATCHES_OF_CONSTANTS).checked_div(bytes).unwrap_or(most).clamp(1, most))
}

const fn compares(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Bytes of the constants in an expression, but for those that a column is only compared with.
fn constants_in(expr: &Expr) -> Result<usize> {
    let mut bytes = 0;
    expr.apply(|expr| {
        match expr {
            Expr::Literal(value, _) => bytes += value.size().saturating_sub(size_of::<ScalarValue>()),
            Expr::InList(list) if list.list.iter().all(|it| matches!(it, Expr::Literal(..))) => {
                bytes += constants_in(&list.expr)?;
                return Ok(TreeNodeRecursion::Jump);
            }
            Expr::BinaryExpr(compared) if compares(compared.op) => {
                for side in [&compared.left, &compared.right] {
                    if !matches!(**side, Expr::Literal(..)) {
                        bytes += constants_in(side)?;
                    }
                }
                return Ok(TreeNodeRecursion::Jump);
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

/// The same functions, of which those that grow are bounded: their results take at most this many bytes.
pub(crate) fn bounded(mut state: SessionState, bytes_max: usize) -> Result<SessionState> {
    let results = Arc::new(Results { bytes_max: bytes_max as u64, there: Mutex::default() });
    for (name, estimate) in GROWING {
        let inner = state.udf(name)?;
        let weighed = Weighed { inner, estimate, results: results.clone() };
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(weighed)))?;
    }
    let counted = Counted { results, signature: Signature::any(1, Volatility::Immutable) };
    let joins = Joins {
        texts: Arc::new(ScalarUDF::new_from_impl(counted)),
        list: state.udf("make_array")?,
        lists: state.udf("array_concat")?,
        append: state.udf("array_append")?,
        prepend: state.udf("array_prepend")?,
    };
    let first: Arc<dyn ExprPlanner> = Arc::new(joins);
    let planners = std::iter::once(first).chain(state.expr_planners().to_vec()).collect();
    Ok(SessionStateBuilder::new_from_existing(state).with_expr_planners(planners).build())
}
