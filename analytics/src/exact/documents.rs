//! A rule for JSON documents: they nest in others, are cast to text, and are chosen among; other uses are
//! refused.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, not_impl_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::rewrite::rewritten;
use crate::dialect::CELL;
use crate::json::{Build, Kind, field, kind_of};

/// Says to functions which of their arguments are documents, and refuses what takes them for texts.
#[derive(Debug)]
pub(super) struct Documents;

impl AnalyzerRule for Documents {
    fn name(&self) -> &str {
        "documents"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_documents(&plan)? {
            return Ok(plan);
        }
        let done = plan.transform_up_with_subqueries(|plan| {
            let done = rewritten(plan, put_right)?;
            check(&done.data)?;
            Ok(done)
        })?;
        Ok(done.data)
    }
}

fn has_documents(plan: &LogicalPlan) -> Result<bool> {
    let mut has_any = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            has_any |= expr.exists(|expr| Ok(build(expr).is_some()))?;
            Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(has_any)
}

fn build(expr: &Expr) -> Option<&Build> {
    let Expr::ScalarFunction(function) = expr else { return None };
    function.func.inner().downcast_ref::<Build>()
}

fn kind(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
    kind_of(&expr.to_field(schema).ok()?.1)
}

/// Refuses steps that compare documents, or that do not know which of their texts are some.
fn check(plan: &LogicalPlan) -> Result<()> {
    let what = match plan {
        LogicalPlan::Sort(sort) if has(sort.expr.iter().map(|by| &by.expr), sort.input.schema()) => {
            "ORDER BY"
        }
        LogicalPlan::Aggregate(grouped) if has(grouped.group_expr.iter(), grouped.input.schema()) => {
            "GROUP BY"
        }
        LogicalPlan::Distinct(Distinct::All(rows)) if has_any(rows) => "DISTINCT",
        LogicalPlan::Union(union) => {
            let is_known = |input: &Arc<LogicalPlan>| {
                let fields = input.schema().fields().iter().zip(union.schema.fields());
                fields.into_iter().all(|(of, made)| kind_of(of) == kind_of(made))
            };
            match union.inputs.iter().all(is_known) {
                true => return Ok(()),
                false => "UNION",
            }
        }
        LogicalPlan::Values(values) => {
            let fields = values.schema.fields();
            let is_known = |row: &Vec<Expr>| {
                row.iter().zip(fields).all(|(cell, made)| kind(cell, &values.schema) == kind_of(made))
            };
            match values.values.iter().all(is_known) {
                true => return Ok(()),
                false => "VALUES",
            }
        }
        _ => return Ok(()),
    };
    not_impl_err!("{what} of a json document; cast it to TEXT")
}

fn has<'e>(mut exprs: impl Iterator<Item = &'e Expr>, schema: &DFSchema) -> bool {
    exprs.any(|expr| kind(expr, schema).is_some())
}

fn has_any(plan: &LogicalPlan) -> bool {
    plan.schema().fields().iter().any(|field| kind_of(field).is_some())
}

fn put_right(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_document = |expr: &Expr| kind(expr, schema).is_some();
    let refused = match &expr {
        Expr::ScalarFunction(_) if build(&expr).is_some() => return built(expr, schema),
        Expr::ScalarFunction(function) => match function.name() {
            "coalesce" | "nvl" => return chosen(expr, schema),
            "pg_typeof" | CELL | Shown::NAME => None,
            name => function.args.iter().any(is_document).then(|| name.to_owned()),
        },
        Expr::Case(case) => {
            let compared = case.expr.as_deref().into_iter();
            let compared = compared.chain(case.when_then_expr.iter().map(|(when, _)| &**when));
            match { compared }.any(is_document) {
                true => Some("CASE".to_owned()),
                false => return chosen(expr, schema),
            }
        }
        Expr::Cast(cast) if is_document(&cast.expr) => {
            let to = cast.field.data_type();
            if matches!(to, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8) {
                let Expr::Cast(cast) = expr else { return Ok(Transformed::no(expr)) };
                return Ok(Transformed::yes(shown(*cast.expr, None)));
            }
            Some(format!("a cast to {to}"))
        }
        Expr::AggregateFunction(function) if function.func.name() != "count" => {
            let has_any = function.params.args.iter().any(is_document);
            has_any.then(|| function.func.name().to_owned())
        }
        Expr::WindowFunction(window) if window.fun.name() != "count" => {
            window.params.args.iter().any(is_document).then(|| window.fun.name().to_owned())
        }
        Expr::BinaryExpr(binary) => {
            let has_any = is_document(&binary.left) || is_document(&binary.right);
            has_any.then(|| binary.op.to_string())
        }
        Expr::Like(like) | Expr::SimilarTo(like) => is_document(&like.expr).then(|| "LIKE".to_owned()),
        Expr::InList(list) => is_document(&list.expr).then(|| "IN".to_owned()),
        Expr::InSubquery(member) => is_document(&member.expr).then(|| "IN".to_owned()),
        Expr::Between(between) => is_document(&between.expr).then(|| "BETWEEN".to_owned()),
        _ => None,
    };
    match refused {
        Some(what) => not_impl_err!("{what} of a json document; cast it to TEXT"),
        None => Ok(Transformed::no(expr)),
    }
}

/// A function that makes documents, which knows its arguments.
fn built(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (Some(build), Expr::ScalarFunction(function)) = (build(&expr).cloned(), expr) else {
        return not_impl_err!("a document by a function that makes none");
    };
    let kinds: Vec<_> = function.args.iter().map(|arg| kind(arg, schema)).collect();
    if build.is_object && kinds.iter().step_by(2).any(Option::is_some) {
        return not_impl_err!("a json document as a key; cast it to TEXT");
    }
    if build.kind == Kind::Jsonb && kinds.contains(&Some(Kind::Json)) {
        return not_impl_err!("{} of a json document; make it by a function of jsonb", build.name);
    }
    let documents = kinds.iter().map(Option::is_some).collect();
    let function_of = ScalarUDF::new_from_impl(Build { documents, ..build });
    let known = ScalarFunction::new_udf(Arc::new(function_of), function.args);
    Ok(Transformed::yes(Expr::ScalarFunction(known)))
}

/// One of several values: a document if all are.
fn chosen(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let values: Vec<&Expr> = match &expr {
        Expr::Case(case) => {
            let thens = case.when_then_expr.iter().map(|(_, then)| &**then);
            thens.chain(case.else_expr.as_deref()).collect()
        }
        Expr::ScalarFunction(function) => function.args.iter().collect(),
        _ => Vec::new(),
    };
    let mut kinds = Vec::with_capacity(values.len());
    for value in values {
        if value.get_type(schema)? != DataType::Null {
            kinds.push(kind(value, schema));
        }
    }
    match kinds.as_slice() {
        [Some(first), rest @ ..] if rest.iter().all(|other| *other == Some(*first)) => {
            let first = *first;
            Ok(Transformed::yes(shown(expr, Some(first))))
        }
        kinds if kinds.iter().any(Option::is_some) => {
            not_impl_err!("a json document or something else as one value; cast it to TEXT")
        }
        _ => Ok(Transformed::no(expr)),
    }
}

/// A text as a document of a kind, or as none.
fn shown(expr: Expr, kind: Option<Kind>) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = ScalarUDF::new_from_impl(Shown { kind, signature });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shown {
    kind: Option<Kind>,
    signature: Signature,
}

impl Shown {
    const NAME: &str = "shown_as";
}

impl ScalarUDFImpl for Shown {
    fn name(&self) -> &str {
        Shown::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(field(Shown::NAME, self.kind))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args[0].cast_to(&DataType::Utf8, None)
    }
}
