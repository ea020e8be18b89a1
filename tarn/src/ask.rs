//! `tarn sql`: asks a running server, and prints what it answers.

use crate::remote::{RemoteArgs, Trouble, ask};
use crate::sql::parquet_of;
use clap::{Args, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tarn_resp::Frame;
use tarn_resp::client::{Client, elements};

/// Asks a running server in SQL, and prints the answer.
///
/// The schema keyspace has the tables keys, strings, hashes, zsets, lists, sets and streams; others are
/// declared:
///
///   CREATE EXTERNAL TABLE user (id TEXT, name TEXT, age INT) STORED AS HASH LOCATION 'user:*'
///
/// or proposed, from the content of keys: tarn sql --infer 'user:*'. Each statement sees the store as of one
/// instant. Values that could not be read as the type of their column are reported on standard error. Exits
/// with 0 if the server answered, 1 if it refused, 2 if there was no server or it went away.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Format of the rows.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// A file to print to, in place of standard output; needed for Parquet.
    #[arg(short, long, value_name = "FILE", required_if_eq("format", "parquet"))]
    output: Option<PathBuf>,
    /// Proposes a table for the keys of a pattern such as 'user:*', from a sample of them.
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["statement", "format"])]
    infer: Option<String>,
    /// Seconds that the answer may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
    /// The statement.
    #[arg(value_name = "STATEMENT", required_unless_present = "infer")]
    statement: Option<String>,
}

/// The format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// Comma-separated, with a line of names; NULL is an empty cell.
    Csv,
    /// An object a line.
    Json,
    /// A file of columns, with the types that they have in the server.
    Parquet,
}

/// Runs `tarn sql`.
pub(crate) fn run(args: &SqlArgs) -> ExitCode {
    match print(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => trouble.tell(),
    }
}

fn print(args: &SqlArgs) -> Result<(), Trouble> {
    let mut client = args.remote.connect(Duration::from_secs(args.timeout.max(1)))?;
    // Numbers and truth values keep their types.
    ask(&mut client, &["HELLO", "3"])?;
    let statement = match (&args.infer, &args.statement) {
        (Some(pattern), _) => format!("SELECT * FROM infer('{}')", pattern.replace('\'', "''")),
        (None, statement) => statement.clone().unwrap_or_default(),
    };
    let types = match args.format {
        Format::Parquet => types_of(&mut client, &statement)?,
        _ => Vec::new(),
    };
    let reply = ask(&mut client, &["SQL", &statement, "WARNINGS"])?;
    let [warnings, reply] = elements(&reply)? else {
        return Err(Trouble::Away("the server answered something else than a statement".to_owned()));
    };
    elements(warnings)?.iter().for_each(|warning| eprintln!("tarn: warning: {}", plain(warning)));
    let written = match &args.output {
        None => print_to(io::stdout().lock(), args, reply, types)?,
        Some(path) => {
            let created = File::create(path).map_err(|error| cannot_print(Some(path), error))?;
            print_to(io::BufWriter::new(created), args, reply, types)?
        }
    };
    match written {
        // A reader that closes the pipe after the first lines has what it wants.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(cannot_print(args.output.as_deref(), error)),
        Ok(()) => Ok(()),
    }
}

fn cannot_print(to: Option<&Path>, error: io::Error) -> Trouble {
    let to = to.map_or(String::new(), |path| format!(" to {}", path.display()));
    Trouble::Away(format!("cannot print{to}: {error}"))
}

/// The names and types of a query's columns.
fn types_of(client: &mut Client, statement: &str) -> Result<Vec<(String, String)>, Trouble> {
    let described =
        ask(client, &["SQL", &format!("DESCRIBE {statement}")]).map_err(|trouble| match trouble {
            Trouble::Refused(why) => Trouble::Refused(format!("Parquet is for queries: {why}")),
            away => away,
        })?;
    let rows = elements(&described)?.iter().skip(1).map(elements).collect::<Result<Vec<_>, _>>()?;
    let pair = |row: &&[Frame]| Some((plain(row.first()?), plain(row.get(1)?)));
    Ok(rows.iter().filter_map(pair).collect())
}

/// Prints an answer.
fn print_to(
    mut out: impl Write,
    args: &SqlArgs,
    reply: &Frame,
    types: Vec<(String, String)>,
) -> Result<io::Result<()>, Trouble> {
    let Frame::Array(rows) = reply else { return Ok(writeln!(out, "{}", plain(reply))) };
    let Some((names, rows)) = rows.split_first() else { return Ok(Ok(())) };
    let names: Vec<String> = elements(names)?.iter().map(plain).collect();
    let rows = rows.iter().map(elements).collect::<Result<Vec<_>, _>>()?;
    let written = match args.format {
        _ if args.infer.is_some() => rows.iter().try_for_each(|row| writeln!(out, "{}", plain(&row[0]))),
        Format::Table => print_table(&mut out, &names, &rows),
        Format::Csv => print_csv(&mut out, &names, &rows),
        Format::Json => print_json(&mut out, &names, &rows),
        Format::Parquet => print_parquet(&mut out, &types, &rows),
    };
    Ok(written.and_then(|()| out.flush()))
}

/// A value as text; nothing for NULL.
fn plain(value: &Frame) -> String {
    match value {
        Frame::Null | Frame::NullBulk | Frame::NullArray => String::new(),
        Frame::Bulk(bytes) | Frame::Simple(bytes) | Frame::Double(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        Frame::Integer(number) => number.to_string(),
        Frame::Boolean(truth) => truth.to_string(),
        other => other.to_string(),
    }
}

fn print_table(out: &mut impl Write, names: &[String], rows: &[&[Frame]]) -> io::Result<()> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(names);
    for row in rows {
        table.add_row(row.iter().map(|value| match value {
            Frame::Null | Frame::NullBulk => "NULL".to_owned(),
            value => plain(value),
        }));
    }
    writeln!(out, "{table}")?;
    writeln!(out, "({} row{})", rows.len(), if rows.len() == 1 { "" } else { "s" })
}

fn print_csv(out: &mut impl Write, names: &[String], rows: &[&[Frame]]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(names)?;
    for row in rows {
        writer.write_record(row.iter().map(plain))?;
    }
    writer.flush()
}

fn print_json(out: &mut impl Write, names: &[String], rows: &[&[Frame]]) -> io::Result<()> {
    for row in rows {
        let pairs = names.iter().cloned().zip(row.iter().map(|value| match value {
            Frame::Null | Frame::NullBulk => Value::Null,
            Frame::Integer(number) => Value::from(*number),
            Frame::Boolean(truth) => Value::from(*truth),
            // A value that is no number of JSON, such as infinity, stays text.
            Frame::Double(_) => {
                let text = plain(value);
                text.parse::<f64>()
                    .ok()
                    .and_then(serde_json::Number::from_f64)
                    .map_or(text.into(), Value::Number)
            }
            other => Value::from(plain(other)),
        }));
        writeln!(out, "{}", Value::Object(pairs.collect::<Map<_, _>>()))?;
    }
    Ok(())
}

fn print_parquet(out: &mut impl Write, columns: &[(String, String)], rows: &[&[Frame]]) -> io::Result<()> {
    let cell = |value: &Frame| match value {
        Frame::Null | Frame::NullBulk => None,
        Frame::Bulk(bytes) => Some(bytes.to_vec()),
        other => Some(plain(other).into_bytes()),
    };
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
    if rows.iter().any(|row| row.len() != columns.len()) {
        return Err(io::Error::other("the columns have changed meanwhile; ask again"));
    }
    out.write_all(&parquet_of(columns, &rows)?)
}
