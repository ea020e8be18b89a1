//! Parses the text of a message into statements, and plans a statement.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::{DFParser, Statement as AnyStatement};
use datafusion::sql::sqlparser::ast::{ObjectType, Statement, visit_relations};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion_postgres::arrow_pg::datatypes::{PG_OID_ALIAS_KEY, into_pg_type, pg_type_for_alias_kind};
use datafusion_postgres::datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use datafusion_postgres::datafusion_pg_catalog::sql::rules::{
    AliasDuplicatedProjectionRewrite, CurrentUserVariableToSessionUserFunctionCall, FixArrayLiteral,
    FixVersionColumnName, PrependUnqualifiedPgTableName, ResolveUnqualifiedIdentifier,
    RewriteArrayAnyAllOperation, RewritePgCatalogOperator, RewriteRegCastToSubquery, SqlStatementRewriteRule,
    StripCallableQualifier, StripCollate,
};
use datafusion_postgres::pgwire::api::Type;
use datafusion_postgres::pgwire::error::PgWireResult;

use super::reply::{coded, refusal};
use super::set::plan_with;
use super::{empty_catalog, names, rewrite, set};
use crate::error::QueryError;
use crate::guard::complexity::check_text;
use crate::guard::expansion::check_names;
use crate::session::{Session, listed};

/// A statement as it is kept: its text, and what was read of it unless only our tables know it.
pub(super) type Stored = (String, Option<(Statement, LogicalPlan)>);

/// A statement.
pub(super) enum Known {
    /// As PostgreSQL has it.
    Sql(Box<Statement>),
    /// One of a text that has some which only our tables know.
    Ours(String, Box<AnyStatement>),
}

/// Rewrites what PostgreSQL's clients write in a form that the planner does not accept.
static PARSER: LazyLock<PostgresCompatibilityParser> = LazyLock::new(PostgresCompatibilityParser::new);

/// Its rules for statements about data: all but the one that makes subqueries which it takes for correlated
/// NULL, and takes the first row of others.
static RULES: LazyLock<Vec<Box<dyn SqlStatementRewriteRule>>> = LazyLock::new(|| {
    vec![
        Box::new(AliasDuplicatedProjectionRewrite),
        Box::new(ResolveUnqualifiedIdentifier),
        Box::new(RewriteArrayAnyAllOperation),
        Box::new(PrependUnqualifiedPgTableName),
        Box::new(StripCallableQualifier),
        Box::new(FixArrayLiteral),
        Box::new(CurrentUserVariableToSessionUserFunctionCall),
        Box::new(StripCollate),
        Box::new(RewritePgCatalogOperator),
        Box::new(RewriteRegCastToSubquery::new()),
        Box::new(FixVersionColumnName),
    ]
});

/// Statements as the library has them, but for those that ask for data: those have to mean what they say.
fn of_data(text: &str, mut known: Vec<Statement>) -> Vec<Statement> {
    let Ok(plain) = Parser::parse_sql(&PostgreSqlDialect {}, text) else { return known };
    if plain.len() == known.len() {
        for (known, plain) in known.iter_mut().zip(plain) {
            let has_tables = visit_relations(&plain, |_| ControlFlow::Break(())).is_break();
            if !has_tables || !empty_catalog::asks_catalog_alone(&plain) {
                *known = RULES.iter().fold(plain, |statement, rule| rule.rewrite(statement));
            }
        }
    }
    known
}

/// Reads the statements of a text.
pub(super) fn read(text: &str) -> PgWireResult<Vec<Known>> {
    check_text(text, &PostgreSqlDialect {}).map_err(refusal)?;
    if let Some(statements) = declarations(text) {
        return Ok(statements
            .into_iter()
            .map(|statement| Known::Ours(text.to_owned(), Box::new(statement)))
            .collect());
    }
    let parsed = PARSER.parse(text).map_err(|error| coded("42601", &error.to_string()))?;
    let parsed = of_data(text, parsed);
    parsed.iter().try_for_each(check_names).map_err(refusal)?;
    let known = |mut statement: Statement| {
        rewrite::rewrite(&mut statement);
        names::name_columns(&mut statement);
        Known::Sql(Box::new(listed(statement)))
    };
    Ok(parsed.into_iter().map(known).collect())
}

/// The statements of a text that has some which only our tables know; `None` if it has none.
fn declarations(text: &str) -> Option<Vec<AnyStatement>> {
    let has_word = |word: &str| {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.into_iter().any(|other| other.eq_ignore_ascii_case(word))
    };
    if !has_word("external") && !has_word("copy") {
        return None;
    }
    let statements = DFParser::parse_sql_with_dialect(text, &PostgreSqlDialect {}).ok()?;
    let declares = |statement: &AnyStatement| {
        matches!(statement, AnyStatement::CreateExternalTable(_) | AnyStatement::CopyTo(_))
    };
    statements.iter().any(declares).then(|| statements.into())
}

/// Plans a statement, also one that is never run as a plan: then the plan describes its columns.
pub(super) async fn plan(session: &Arc<Session>, statement: &Statement) -> PgWireResult<LogicalPlan> {
    if let Some(plan) = set::plan(statement) {
        return plan;
    }
    if let Statement::Drop { object_type: ObjectType::Index, .. } = statement {
        return plan_with(&[]);
    }
    if let Some(shown) = session.aside(statement) {
        let schema = shown.map_err(refusal)?.schema;
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
        return plan_with(&names);
    }
    let planned = match statement {
        Statement::StartTransaction { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint { .. }
        | Statement::ReleaseSavepoint { .. }
        | Statement::Fetch { .. }
        | Statement::Close { .. } => return plan_with(&[]),
        Statement::Declare { stmts } => match stmts.first().and_then(|declared| declared.for_query.clone()) {
            Some(query) => Statement::Query(query),
            None => return plan_with(&[]),
        },
        other => other.clone(),
    };
    let parsed = |statement| AnyStatement::Statement(Box::new(statement));
    let plan = match session.plan(parsed(planned.clone())).await {
        Err(error) => match empty_catalog::answer_of_none(&planned) {
            Some(nothing) => session.plan(parsed(nothing)).await,
            None => Err(error),
        },
        planned => planned,
    };
    plan.map_err(refusal)
}

/// The types of a plan's parameters, as the planner and as PostgreSQL has them, in their order.
pub(super) fn parameter_types(plan: &LogicalPlan) -> PgWireResult<(Vec<Option<DataType>>, Vec<Type>)> {
    let failed = |error| refusal(QueryError::from(error));
    let mut types = plan.get_parameter_types().map_err(failed)?;
    let mut aliases = HashMap::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                note_parameter(expr, &mut types, &mut aliases);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(failed)?;
    // A parameter whose place in the statement was given up is bound all the same.
    let number = |name: &String| name.strip_prefix('$')?.parse::<u16>().ok();
    let last = types.keys().filter_map(number).max().unwrap_or(0);
    let names: Vec<String> = (1..=last).map(|number| format!("${number}")).collect();
    let unused = || Some(DataType::Utf8);
    let inferred: Vec<Option<DataType>> =
        names.iter().map(|name| types.get(name).cloned().unwrap_or_else(unused)).collect();
    let wire = names.iter().zip(&inferred).map(|(name, inferred)| match (aliases.get(name), inferred) {
        (Some(alias), _) => Ok(Type::clone(alias)),
        (None, Some(inferred)) => into_pg_type(inferred),
        (None, None) => Ok(Type::UNKNOWN),
    });
    let wire = wire.collect::<PgWireResult<Vec<_>>>()?;
    Ok((inferred, wire))
}

/// Notes the type of a parameter that an expression implies.
fn note_parameter(
    expr: &Expr,
    types: &mut HashMap<String, Option<DataType>>,
    aliases: &mut HashMap<String, Type>,
) {
    if let Expr::Cast(cast) = expr
        && let Expr::Placeholder(parameter) = &*cast.expr
        && let Some(unknown @ None) = types.get_mut(&parameter.id)
    {
        *unknown = Some(cast.field.data_type().clone());
    }
    // An `oid` is kept as another number.
    if let Expr::Placeholder(parameter) = expr
        && let Some(field) = &parameter.field
        && field.data_type() == &DataType::Int32
        && let Some(kind) = field.metadata().get(PG_OID_ALIAS_KEY)
        && let Some(alias) = pg_type_for_alias_kind(kind)
    {
        aliases.insert(parameter.id.clone(), alias);
    }
}
