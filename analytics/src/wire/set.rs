//! `SET`, `SHOW`, `RESET`, `DISCARD` and `DEALLOCATE`: the settings of a connection, and its prepared
//! statements.
//!
//! Settings without effect here are accepted and shown again, so that clients that set them work. The
//! settings of the planner's library cannot be changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ToDFSchema;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Reset, Set, SetSessionAuthorizationParamKind, Statement, UnaryOperator,
    ValueWithSpan,
};
use datafusion_postgres::hooks::HookClient;
use datafusion_postgres::pgwire::api::Type;
use datafusion_postgres::pgwire::api::results::{
    DataRowEncoder, FieldFormat, FieldInfo, QueryResponse, Response, Tag,
};
use datafusion_postgres::pgwire::api::store::PortalStore;
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::PgWireBackendMessage;
use datafusion_postgres::pgwire::messages::startup::ParameterStatus;
use futures::stream;
use tarn_engine::lock::Mutex;

use super::limits::Limits;
use super::reply::coded;
use crate::catalog::settings::{default_of, duration, duration_text, names};

/// Settings that a client may have made, and bytes of one.
const SETTINGS_MAX: usize = 200;
const SETTING_BYTES_MAX: usize = 1024;

/// Settings whose changes are reported to clients, with the names that the reports use.
const TOLD: [(&str, &str); 5] = [
    ("application_name", "application_name"),
    ("client_encoding", "client_encoding"),
    ("datestyle", "DateStyle"),
    ("intervalstyle", "IntervalStyle"),
    ("timezone", "TimeZone"),
];

/// Settings that describe the server, and that a session cannot change.
const FIXED: [&str; 10] = [
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "lc_collate",
    "lc_ctype",
    "max_identifier_length",
    "server_encoding",
    "server_version",
    "server_version_num",
    "ssl",
];

/// The settings of a connection.
#[derive(Default)]
pub(super) struct Settings {
    /// The settings before `SET LOCAL`, until the block ends.
    before: Mutex<Vec<(String, Option<String>)>>,
    limits: Arc<Limits>,
}

impl Settings {
    /// The settings of a connection that keeps this.
    pub(super) fn new(limits: Arc<Limits>) -> Settings {
        Settings { before: Mutex::default(), limits }
    }

    /// Answers a statement about settings; `None`: it is about something else.
    pub(super) async fn answer(
        &self,
        statement: &Statement,
        client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        match statement {
            Statement::Set(set) => Some(self.set(set, client).await),
            Statement::ShowVariable { variable } => {
                let words: Vec<String> = variable.iter().map(|word| word.value.to_lowercase()).collect();
                Some(show(&words, client))
            }
            Statement::ShowCatalogs { .. } => Some(shown(&["database"], &[vec!["tarn".to_owned()]])),
            Statement::Reset(reset) => Some(match &reset.reset {
                Reset::ALL => {
                    forget_all(client);
                    Ok(done("RESET"))
                }
                Reset::ConfigurationParameter(name) => {
                    client.metadata_mut().remove(&name.to_string().to_lowercase());
                    Ok(done("RESET"))
                }
            }),
            Statement::Discard { object_type } => {
                if object_type.to_string() == "ALL" {
                    forget_all(client);
                    self.limits
                        .take_statements()
                        .iter()
                        .for_each(|name| client.portal_store().rm_statement(name));
                    self.limits.close_portals();
                    client.portal_store().clear_portals();
                }
                Some(Ok(Response::Execution(Tag::new(&format!("DISCARD {object_type}")))))
            }
            Statement::Deallocate { name, .. } => {
                let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
                let names = if is_all { self.limits.take_statements() } else { vec![name.value.clone()] };
                for name in names {
                    self.limits.close_statement(&name);
                    client.portal_store().rm_statement(&name);
                }
                Some(Ok(done(if is_all { "DEALLOCATE ALL" } else { "DEALLOCATE" })))
            }
            // There is no NOTIFY.
            Statement::UNLISTEN { .. } => Some(Ok(done("UNLISTEN"))),
            _ => None,
        }
    }

    async fn set(&self, set: &Set, client: &mut dyn HookClient) -> PgWireResult<Response> {
        let (name, value, is_local) = match set {
            Set::SingleAssignment { scope, variable, values, .. } => {
                let value = values.iter().map(text_of).collect::<Vec<_>>().join(", ");
                let is_default = values.len() == 1 && value.eq_ignore_ascii_case("default");
                let is_local = *scope == Some(ContextModifier::Local);
                (variable.to_string().to_lowercase(), (!is_default).then_some(value), is_local)
            }
            Set::SetTimeZone { local, value } => {
                let value = text_of(value);
                let is_default = ["default", "local"].iter().any(|word| value.eq_ignore_ascii_case(word));
                ("timezone".to_owned(), (!is_default).then_some(value), *local)
            }
            Set::SetNames { charset_name, .. } => {
                ("client_encoding".to_owned(), Some(charset_name.value.clone()), false)
            }
            // A block is read-only, and sees one instant, whatever is said of it.
            Set::SetTransaction { .. } => return Ok(done("SET")),
            // The user stays the one that logged in. Who wants fewer rights must not believe to have them.
            Set::SetRole { role_name: None, .. } => return Ok(done("SET")),
            Set::SetSessionAuthorization(user) if user.kind == SetSessionAuthorizationParamKind::Default => {
                return Ok(done("SET"));
            }
            Set::SetRole { .. } | Set::SetSessionAuthorization(_) => {
                return Err(coded("0A000", &format!("{set} is not there: log in as that user")));
            }
            _ => return Err(coded("0A000", &format!("{set} is not there"))),
        };
        if is_local {
            let before = client.metadata().get(&name).cloned();
            self.before.lock().push((name.clone(), before));
        }
        store(client.metadata_mut(), &name, value.as_deref())?;
        tell(client, &name).await?;
        Ok(done("SET"))
    }

    /// A block has ended, and with it what was set for it alone.
    pub(super) fn end_block(&self, client: &mut dyn HookClient) {
        while let Some((name, before)) = self.before.lock().pop() {
            match before {
                Some(value) => client.metadata_mut().insert(name, value),
                None => client.metadata_mut().remove(&name),
            };
        }
    }
}

/// Stores a setting; `None` resets it to its default.
pub(super) fn store(kept: &mut HashMap<String, String>, name: &str, value: Option<&str>) -> PgWireResult<()> {
    let Some(value) = value else {
        kept.remove(name);
        return Ok(());
    };
    if FIXED.contains(&name) {
        return Err(coded("55P02", &format!("parameter \"{name}\" cannot be changed")));
    }
    if name.starts_with("datafusion.") {
        return Err(coded("42704", &format!("unrecognized configuration parameter \"{name}\"")));
    }
    if name.len() + value.len() > SETTING_BYTES_MAX || kept.len() >= SETTINGS_MAX {
        let message = format!("at most {SETTINGS_MAX} settings of {SETTING_BYTES_MAX} bytes are kept");
        return Err(coded("53400", &message));
    }
    let invalid = || coded("22023", &format!("invalid value for parameter \"{name}\": \"{value}\""));
    let value = match name {
        _ if name.ends_with("_timeout") => duration_text(duration(value).ok_or_else(invalid)?),
        "client_encoding" => match value.to_lowercase().replace(['-', '_'], "").as_str() {
            "utf8" | "unicode" | "sqlascii" | "auto" => "UTF8".to_owned(),
            _ => return Err(invalid()),
        },
        "extra_float_digits" => value
            .parse()
            .ok()
            .filter(|digits: &i32| (-15..=3).contains(digits))
            .ok_or_else(invalid)?
            .to_string(),
        // A value that was written is always parsed.
        "datestyle" => "ISO, MDY".to_owned(),
        _ => value.to_owned(),
    };
    kept.insert(name.to_owned(), value);
    Ok(())
}

/// Reads the settings that came with the start of a connection, and those of `-c name=value` in its options.
pub(super) fn read_start(kept: &mut HashMap<String, String>) -> PgWireResult<()> {
    let came: Vec<(String, String)> =
        kept.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in came {
        let lower = name.to_lowercase();
        if lower == "options" {
            for (name, value) in options(&value) {
                store(kept, &name, Some(&value))?;
            }
        } else if default_of(&lower).is_some() {
            kept.remove(&name);
            store(kept, &lower, Some(&value))?;
        }
    }
    Ok(())
}

/// `-c name=value`, `-cname=value` and `--name=value`.
fn options(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut is_next = false;
    for word in text.split_ascii_whitespace() {
        let assigned = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => {
                is_next = true;
                continue;
            }
            Some(assigned) => assigned,
            None if std::mem::take(&mut is_next) => word,
            None => continue,
        };
        is_next = false;
        if let Some((name, value)) = assigned.split_once('=') {
            found.push((name.replace('-', "_").to_lowercase(), value.to_owned()));
        }
    }
    found
}

/// A setting that is a time; `None` if it is 0, which means for ever.
pub(super) fn time_of(kept: &HashMap<String, String>, name: &str) -> Option<Duration> {
    let text = kept.get(name).cloned().or_else(|| default_of(name))?;
    duration(&text).filter(|time| !time.is_zero())
}

fn value_of(client: &dyn HookClient, name: &str) -> Option<String> {
    let default = default_of(name);
    let set = client.metadata().get(name).filter(|_| !matches!(name, "user" | "database" | "options"));
    set.cloned().or(default)
}

fn forget_all(client: &mut dyn HookClient) {
    let kept = client.metadata_mut();
    kept.retain(|name, _| matches!(name.as_str(), "user" | "database" | "options"));
}

async fn tell(client: &mut dyn HookClient, name: &str) -> PgWireResult<()> {
    let Some((_, told)) = TOLD.iter().find(|(known, _)| *known == name) else { return Ok(()) };
    let value = value_of(client, name).unwrap_or_default();
    let status = ParameterStatus::new((*told).to_owned(), value);
    client.send_message(PgWireBackendMessage::ParameterStatus(status)).await
}

/// The name of what `SHOW` shows.
fn name_of(words: &[String]) -> String {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["time", "zone"] => "timezone".to_owned(),
        ["transaction", "isolation", "level"] => "transaction_isolation".to_owned(),
        ["session", "authorization"] => "session_authorization".to_owned(),
        words => words.join("."),
    }
}

fn show(words: &[String], client: &dyn HookClient) -> PgWireResult<Response> {
    let name = name_of(words);
    if name == "all" {
        let row = |name| vec![String::from(name), value_of(client, name).unwrap_or_default(), String::new()];
        return shown(&["name", "setting", "description"], &names().map(row).collect::<Vec<_>>());
    }
    let unknown = || coded("42704", &format!("unrecognized configuration parameter \"{name}\""));
    let value = value_of(client, &name).ok_or_else(unknown)?;
    shown(&[&column_of(&name)], &[vec![value]])
}

/// The column in which `SHOW` shows a setting.
fn column_of(name: &str) -> String {
    let told = TOLD.iter().find(|(known, _)| *known == name);
    told.map_or(name, |(_, told)| *told).to_owned()
}

/// The plan of a statement about settings, so that its columns are known before it runs; `None` for other
/// statements.
pub(super) fn plan(statement: &Statement) -> Option<PgWireResult<LogicalPlan>> {
    let columns = match statement {
        Statement::ShowVariable { variable } => {
            let words: Vec<String> = variable.iter().map(|word| word.value.to_lowercase()).collect();
            match name_of(&words).as_str() {
                "all" => vec!["name".to_owned(), "setting".to_owned(), "description".to_owned()],
                "queries" => return None,
                name => vec![column_of(name)],
            }
        }
        Statement::ShowCatalogs { .. } => vec!["database".to_owned()],
        Statement::Set(_)
        | Statement::Reset(_)
        | Statement::Discard { .. }
        | Statement::Deallocate { .. }
        | Statement::UNLISTEN { .. } => Vec::new(),
        _ => return None,
    };
    Some(plan_with(&columns))
}

/// A plan that has these columns, and is never run.
pub(super) fn plan_with(columns: &[String]) -> PgWireResult<LogicalPlan> {
    let fields = columns.iter().map(|name| Field::new(name, DataType::Utf8, true));
    let schema = Schema::new(fields.collect::<Vec<_>>()).to_dfschema();
    let schema = Arc::new(schema.map_err(|error| PgWireError::ApiError(Box::new(error)))?);
    Ok(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema }))
}

/// Rows of text.
fn shown(columns: &[&str], rows: &[Vec<String>]) -> PgWireResult<Response> {
    let field = |name: &&str| FieldInfo::new((*name).to_owned(), None, None, Type::TEXT, FieldFormat::Text);
    let fields = Arc::new(columns.iter().map(field).collect::<Vec<_>>());
    let encode = |row: &Vec<String>| {
        let mut encoder = DataRowEncoder::new(fields.clone());
        row.iter().try_for_each(|value| encoder.encode_field(&Some(value.as_str())))?;
        Ok(encoder.take_row())
    };
    let encoded: Vec<_> = rows.iter().map(encode).collect();
    let mut response = QueryResponse::new(fields.clone(), stream::iter(encoded));
    response.set_command_tag("SHOW");
    Ok(Response::Query(response))
}

fn done(tag: &str) -> Response {
    Response::Execution(Tag::new(tag))
}

/// The text of a value of `SET`.
fn text_of(expr: &Expr) -> String {
    match expr {
        Expr::Value(ValueWithSpan { value, .. }) => {
            value.clone().into_string().unwrap_or_else(|| value.to_string())
        }
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", text_of(expr)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_start_are_read() {
        let options = "-c statement_timeout=5s --idle-in-transaction-session-timeout=1000 -cwork_mem=1 x";
        let came = [("options", options), ("DateStyle", "ISO"), ("user", "default"), ("TimeZone", "UTC")];
        let mut kept = came.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        read_start(&mut kept).expect("settings");
        assert_eq!(time_of(&kept, "statement_timeout"), Some(Duration::from_secs(5)));
        assert_eq!(time_of(&kept, "idle_in_transaction_session_timeout"), Some(Duration::from_secs(1)));
        assert_eq!(kept.get("work_mem").map(String::as_str), Some("1"));
        assert_eq!(kept.get("timezone").map(String::as_str), Some("UTC"));
        assert_eq!(kept.get("user").map(String::as_str), Some("default"));
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let mut kept = HashMap::new();
        let wrong = [
            ("statement_timeout", "soon"),
            ("client_encoding", "LATIN1"),
            ("server_version", "9"),
            ("datafusion.execution.batch_size", "1"),
            ("extra_float_digits", "many"),
            ("application_name", &*"x".repeat(2000)),
        ];
        for (name, value) in wrong {
            assert!(store(&mut kept, name, Some(value)).is_err(), "{name}");
        }
        (0..1000).for_each(|i| drop(store(&mut kept, &format!("x.{i}"), Some("1"))));
        assert_eq!(kept.len(), SETTINGS_MAX);
    }
}
