//! `tarn sql`: asks a running server, and prints what it answers.

use crate::remote::{RemoteArgs, Trouble, ask};
use clap::{Args, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;
use tarn_lab::client::elements;
use tarn_resp::Frame;

/// Asks a running server in SQL, and prints the answer.
///
/// The schema keyspace has the tables keys, strings, hashes, zsets, lists and sets; others are declared:
///
///   CREATE EXTERNAL TABLE user (id TEXT, name TEXT, age INT) STORED AS HASH LOCATION 'user:*'
///
/// Each statement sees the store as of one instant. Exits with 0 if the server answered, 1 if it refused, 2
/// if there was no server or it went away.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct SqlArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// How rows are printed.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Seconds that the answer may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
    /// The statement.
    #[arg(value_name = "STATEMENT")]
    statement: String,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// Comma-separated, with a line of names; NULL is an empty cell.
    Csv,
    /// An object a line.
    Json,
}

/// Runs `tarn sql`.
pub fn run(args: &SqlArgs) -> ExitCode {
    match print(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => trouble.tell(),
    }
}

fn print(args: &SqlArgs) -> Result<(), Trouble> {
    let mut client = args.remote.connect(Duration::from_secs(args.timeout.max(1)))?;
    // Numbers and truth values come as what they are.
    ask(&mut client, &["HELLO", "3"])?;
    let reply = ask(&mut client, &["SQL", &args.statement])?;
    let mut out = io::stdout().lock();
    let written = match &reply {
        Frame::Array(rows) if !rows.is_empty() => {
            let names: Vec<String> = elements(&rows[0])?.iter().map(plain).collect();
            let rows = rows[1..].iter().map(elements).collect::<Result<Vec<_>, _>>()?;
            match args.format {
                Format::Table => print_table(&mut out, &names, &rows),
                Format::Csv => print_csv(&mut out, &names, &rows),
                Format::Json => print_json(&mut out, &names, &rows),
            }
        }
        other => writeln!(out, "{}", plain(other)),
    };
    match written.and_then(|()| out.flush()) {
        // Who reads only the first lines has what he wants.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Trouble::Away(format!("cannot print: {error}"))),
        Ok(()) => Ok(()),
    }
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
            // What is no number of JSON, such as infinity, stays text.
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
