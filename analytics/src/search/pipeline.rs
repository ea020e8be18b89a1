//! Plans the steps of `FT.AGGREGATE`, and turns the rows of the plan into a reply.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::expr_fn;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, cast, lit, when};

use crate::statement::store::StoreHandle;
use crate::table::declaration::Source;
use crate::table::hash_row;

use super::error::SearchError;
use super::filter::filter_of;
use super::index;
use super::index::{Form, Index};
use super::steps::{Aggregate, Reducer, Step, property};
use super::table::{Table, column};
use super::tree::{Tree, trees_of};
use super::values::{Kind, Value, value_of};

/// A property of a row.
#[derive(Clone, Debug)]
struct Property {
    name: String,
    /// The column of the plan.
    column: String,
    kind: Kind,
    /// Whether it is of a key: then it is shown only if the key has it and a step uses it.
    is_of_key: bool,
    is_wanted: bool,
}

/// The columns that a reply shows.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// Names, and whether a value that is missing is left out.
    columns: Vec<(String, bool)>,
    /// Whether the first column has all fields of a key.
    has_whole: bool,
    kind: index::Kind,
}

/// A plan under way.
struct Pipeline {
    plan: LogicalPlanBuilder,
    properties: Vec<Property>,
    /// The column with all fields.
    whole: Option<String>,
    /// Columns made so far.
    made: usize,
}

/// Plans a command.
pub(super) fn plan(
    aggregate: &Aggregate,
    index: &Index,
    store: &Arc<StoreHandle>,
) -> Result<(LogicalPlan, Shown), SearchError> {
    let mut table = Table::of(index);
    let filter = filter_of(&aggregate.query, &mut table, None)?;
    let mut properties = Vec::new();
    for (word, name) in &aggregate.loads {
        let (column, kind) = loaded(word, index, &mut table)?;
        properties.push(Property { name: name.clone(), column, kind, is_of_key: true, is_wanted: true });
    }
    for attribute in &index.attributes {
        let column = table.value(attribute);
        let kind = if attribute.form == Form::Numeric { Kind::Number } else { Kind::Text };
        if properties.iter().all(|property| property.name != attribute.name) {
            let name = attribute.name.clone();
            properties.push(Property { name, column, kind, is_of_key: true, is_wanted: false });
        }
    }
    let whole = aggregate.loads_all.then(|| table.want(Source::Whole, DataType::BinaryView));
    let mut plan = table.plan(store)?;
    if let Some(filter) = filter {
        plan = plan.filter(filter)?;
    }
    let mut pipeline = Pipeline { plan, properties, whole, made: 0 };
    for step in &aggregate.steps {
        pipeline = pipeline.step(step)?;
    }
    pipeline.finish(index.kind)
}

/// The column of what `LOAD` names.
fn loaded(word: &str, index: &Index, table: &mut Table<'_>) -> Result<(String, Kind), SearchError> {
    let by_path = |attribute: &&index::Attribute| attribute.identifier == word;
    let attribute = index.attribute_named(word).or_else(|| index.attributes.iter().find(by_path));
    Ok(match attribute {
        Some(attribute) if attribute.form == Form::Numeric => (table.value(attribute), Kind::Number),
        Some(attribute) => (table.value(attribute), Kind::Text),
        None => (table.want(index.source_of(word)?, DataType::BinaryView), Kind::Bytes),
    })
}

impl Pipeline {
    /// The value of this name.
    fn find(&mut self, name: &str) -> Result<Value, SearchError> {
        let property = self.properties.iter_mut().find(|property| property.name == name);
        let property = property.ok_or_else(|| SearchError::Property(name.to_owned()))?;
        property.is_wanted = true;
        Ok(Value { expr: column(&property.column), kind: property.kind })
    }

    fn new_column(&mut self) -> String {
        self.made += 1;
        format!("m{}", self.made)
    }

    fn step(mut self, step: &Step) -> Result<Pipeline, SearchError> {
        match step {
            Step::Group(by, reducers) => return self.group(by, reducers),
            Step::Apply(expression, name) => {
                let value = value_of(expression, &mut |name| self.find(name))?.shown();
                let column = self.new_column();
                let mut all = self.columns();
                all.push(value.expr.alias(&column));
                self.plan = self.plan.project(all)?;
                self.properties.retain(|property| property.name != *name);
                let property = Property {
                    name: name.clone(),
                    column,
                    kind: value.kind,
                    is_of_key: false,
                    is_wanted: true,
                };
                self.properties.push(property);
            }
            Step::Filter(expression) => {
                let condition = value_of(expression, &mut |name| self.find(name))?.truth();
                self.plan = self.plan.filter(condition)?;
            }
            Step::Sort(by, most) => {
                let mut sorts = Vec::new();
                for (name, descends) in by {
                    sorts.push(self.find(name)?.expr.sort(!descends, false));
                }
                self.plan = self.plan.sort_with_limit(sorts, *most)?;
            }
            Step::Limit(offset, count) => self.plan = self.plan.limit(*offset, Some(*count))?,
        }
        Ok(self)
    }

    /// All columns that may be wanted still.
    fn columns(&self) -> Vec<Expr> {
        let mut names: Vec<&String> = self.whole.iter().collect();
        names.extend(self.properties.iter().map(|property| &property.column));
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| column(name)).collect()
    }

    fn group(mut self, by: &[String], reducers: &[Reducer]) -> Result<Pipeline, SearchError> {
        let (mut groups, mut reduced, mut properties) = (Vec::new(), Vec::new(), Vec::<Property>::new());
        let is_new = |properties: &[Property], name: &String| match properties.iter().any(|p| p.name == *name)
        {
            true => Err(SearchError::refused(format!("Property `{name}` specified more than once"))),
            false => Ok(()),
        };
        for name in by {
            is_new(&properties, name)?;
            let value = self.find(name)?;
            let (name, column, kind) = (name.clone(), self.new_column(), value.kind);
            groups.push(value.expr.alias(&column));
            properties.push(Property { name, column, kind, is_of_key: false, is_wanted: true });
        }
        for reducer in reducers {
            is_new(&properties, &reducer.name)?;
            let value = self.reduce(reducer)?;
            let (name, column, kind) = (reducer.name.clone(), self.new_column(), value.kind);
            reduced.push((value, self.new_column(), column.clone()));
            properties.push(Property { name, column, kind, is_of_key: false, is_wanted: true });
        }
        // A group of nothing is none, even if it is the only one.
        let is_one = groups.is_empty();
        let count = self.new_column();
        let mut aggregates: Vec<Expr> = Vec::new();
        let mut outputs: Vec<Expr> = properties[..by.len()].iter().map(|p| column(&p.column)).collect();
        for (value, raw, name) in reduced {
            aggregates.push(value.aggregate.alias(&raw));
            outputs.push(value.behind.of(column(&raw)).alias(name));
        }
        if is_one || aggregates.is_empty() {
            aggregates.push(expr_fn::count(lit(1)).alias(&count));
        }
        self.plan = self.plan.aggregate(groups, aggregates)?;
        if is_one {
            self.plan = self.plan.filter(column(&count).gt(lit(0_i64)))?;
        }
        if outputs.is_empty() {
            outputs.push(column(&count));
        }
        self.plan = self.plan.project(outputs)?;
        self.properties = properties;
        self.whole = None;
        Ok(self)
    }

    fn reduce(&mut self, reducer: &Reducer) -> Result<Reduced, SearchError> {
        let function = reducer.function.as_str();
        let refuse =
            |why: String| Err(SearchError::refused(format!("Bad arguments for REDUCE {function}: {why}")));
        let wanted = match function {
            "COUNT" => 0,
            "QUANTILE" => 2,
            _ => 1,
        };
        let found = reducer.arguments.len();
        if found < wanted || found > wanted && function != "FIRST_VALUE" {
            return refuse(format!("it wants {wanted}, not {found}"));
        }
        let number = |aggregate, behind| Ok(Reduced { aggregate, behind, kind: Kind::Number });
        let Some(first) = reducer.arguments.first() else {
            return number(expr_fn::count(lit(1)), Behind::Count);
        };
        let value = self.find(&property(first)?)?;
        match function {
            "COUNT_DISTINCT" | "COUNT_DISTINCTISH" => {
                number(expr_fn::count_distinct(value.expr), Behind::Count)
            }
            "SUM" => number(expr_fn::sum(value.number()), Behind::OrZero),
            "MIN" => number(expr_fn::min(value.number()), Behind::Nothing),
            "MAX" => number(expr_fn::max(value.number()), Behind::Nothing),
            "AVG" => number(expr_fn::avg(value.number()), Behind::Nothing),
            "STDDEV" => number(expr_fn::stddev(value.number()), Behind::OrZero),
            "TOLIST" => {
                let is_there = value.expr.clone().is_not_null();
                let all = expr_fn::array_agg(value.expr).distinct().filter(is_there).build()?;
                Ok(Reduced { aggregate: all, behind: Behind::Nothing, kind: Kind::List })
            }
            "FIRST_VALUE" => {
                let kind = value.kind;
                let order = match &reducer.arguments[1..] {
                    [] => Vec::new(),
                    [by, name, rest @ ..] if by.eq_ignore_ascii_case("BY") && rest.len() < 2 => {
                        let descends = match rest.first().map(|word| word.to_ascii_uppercase()).as_deref() {
                            None | Some("ASC") => false,
                            Some("DESC") => true,
                            Some(other) => return refuse(format!("'{other}' is neither ASC nor DESC")),
                        };
                        vec![self.find(&property(name)?)?.expr.sort(!descends, false)]
                    }
                    _ => return refuse("it is @field [BY @field [ASC|DESC]]".to_owned()),
                };
                Ok(Reduced { aggregate: first_value(value.expr, order), behind: Behind::Nothing, kind })
            }
            "QUANTILE" => {
                let part: f64 = reducer.arguments[1].parse().unwrap_or(f64::NAN);
                if !(0.0..=1.0).contains(&part) {
                    return refuse(format!("'{}' is not between 0 and 1", reducer.arguments[1]));
                }
                let part = lit(ScalarValue::Float64(Some(part)));
                number(expr_fn::percentile_cont(value.number().sort(true, false), part), Behind::Nothing)
            }
            _ => Err(SearchError::refused(format!(
                "REDUCE {function} is not there: there are COUNT, COUNT_DISTINCT, COUNT_DISTINCTISH, \
                 SUM, MIN, MAX, \
                 AVG, STDDEV, QUANTILE, TOLIST, FIRST_VALUE"
            ))),
        }
    }

    fn finish(self, kind: index::Kind) -> Result<(LogicalPlan, Shown), SearchError> {
        let has_whole = self.whole.is_some();
        // All fields are shown once.
        let is_shown = |property: &&Property| property.is_wanted && !(has_whole && property.is_of_key);
        let shown: Vec<&Property> = self.properties.iter().filter(is_shown).collect();
        let whole = self.whole.iter().map(|name| column(name).alias("s"));
        let named =
            shown.iter().enumerate().map(|(at, property)| column(&property.column).alias(format!("s{at}")));
        let mut outputs: Vec<Expr> = whole.chain(named).collect();
        if outputs.is_empty() {
            // There is a row for each key all the same.
            outputs.push(lit(true));
        }
        let columns = shown.iter().map(|property| (property.name.clone(), property.is_of_key)).collect();
        Ok((self.plan.project(outputs)?.build()?, Shown { columns, has_whole, kind }))
    }
}

/// The value that a reducer makes of a group.
struct Reduced {
    aggregate: Expr,
    behind: Behind,
    kind: Kind,
}

/// The step after the aggregation.
enum Behind {
    Nothing,
    /// A count becomes a number as all others are.
    Count,
    /// 0 where there was no number, as in RediSearch.
    OrZero,
}

impl Behind {
    fn of(&self, value: Expr) -> Expr {
        match self {
            Behind::Nothing => value,
            Behind::Count => cast(value, DataType::Float64),
            Behind::OrZero => {
                let is_null = value.clone().is_null();
                when(is_null, lit(0.0)).otherwise(value).expect("both are numbers")
            }
        }
    }
}

impl Shown {
    /// The rows of a batch, each as pairs.
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Vec<Vec<(Tree, Tree)>>, SearchError> {
        let mut rows = Vec::new();
        rows.resize_with(batch.num_rows(), Vec::new);
        let first = usize::from(self.has_whole);
        if self.has_whole {
            for (row, cell) in rows.iter_mut().zip(trees_of(batch.column(0))?) {
                let Tree::Bulk(cell) = cell else { continue };
                match self.kind {
                    index::Kind::Json => row.push((Tree::text("$"), Tree::Bulk(cell))),
                    index::Kind::Hash => {
                        let pair = |(name, value): (&[u8], &[u8])| {
                            (Tree::Bulk(name.to_vec()), Tree::Bulk(value.to_vec()))
                        };
                        row.extend(hash_row::fields(&cell).map(pair));
                    }
                }
            }
        }
        for (at, (name, is_optional)) in self.columns.iter().enumerate() {
            for (row, value) in rows.iter_mut().zip(trees_of(batch.column(first + at))?) {
                if !(*is_optional && value == Tree::Null) {
                    row.push((Tree::text(name.as_str()), value));
                }
            }
        }
        Ok(rows)
    }
}
