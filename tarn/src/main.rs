//! The `tarn` program: `tarn serve` is the server, `tarn log` checks and repairs its log, `tarn backup` and
//! `tarn restore` copy it, `tarn import` and `tarn export` exchange data with Redis, `tarn sql` asks it,
//! `tarn demo` shows it, `tarn lab` measures it.

mod ask;
mod backup;
mod export;
mod import;
mod log;
mod remote;
mod restore;
mod search;
mod sql;
mod transfer;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use tarn_server::config::{Invocation, help_text, parse_serve_args};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// An in-memory, Redis-protocol database whose persistence is still.
#[derive(Parser)]
#[command(name = "tarn", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve clients: a FILE and --directive values, as redis-server takes them (see: tarn serve --help).
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Serve {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Show it: a million records, updates, a hard kill, and everything is there again.
    Demo(tarn_lab::demo::DemoArgs),
    /// Check and repair the log of a server that does not run.
    Log(log::LogCli),
    /// Have a running server back up its log into a directory.
    Backup(backup::BackupArgs),
    /// Make a data directory of a backup and its increments.
    Restore(restore::RestoreArgs),
    /// Read an RDB file of Redis into the data directory of a server that does not run.
    Import(import::ImportArgs),
    /// Write the data of a server that does not run to an RDB file.
    Export(export::ExportArgs),
    /// Ask a running server in SQL.
    Sql(ask::SqlArgs),
    /// Measure Tarn and redis-server side by side.
    Lab(tarn_lab::LabCli),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve { args } => serve(args),
        Command::Demo(args) => tarn_lab::demo::run(&args),
        Command::Log(cli) => log::run(cli),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Sql(args) => ask::run(&args),
        Command::Lab(cli) => tarn_lab::run(cli),
    }
}

fn serve(args: Vec<OsString>) -> ExitCode {
    let loaded = match parse_serve_args(args) {
        Ok(Invocation::Serve(loaded)) => *loaded,
        Ok(Invocation::Help) => {
            print!("{}", help_text());
            return ExitCode::SUCCESS;
        }
        Ok(Invocation::Version) => {
            println!("tarn {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Err(error) => return refuse(&error),
    };
    let sql = match sql::Sql::prepare(&loaded.config) {
        Ok(sql) => sql,
        Err(error) => return refuse(&error),
    };
    let mut queries = None;
    let declarations = tarn_analytics::DECLARATION_FILES.map(|name| loaded.config.dir.join(name));
    let served = tarn_server::serve::serve_beside(loaded, |server| {
        server.backups.take_along(declarations.to_vec());
        queries = sql.map(|sql| sql.start(server));
    });
    if let Some(queries) = queries {
        // Who is in the middle of a query is not waited for.
        queries.shutdown_background();
    }
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("tarn: {error}");
    ExitCode::FAILURE
}
