//! The `tarn` program: `tarn serve` is the server, `tarn log` checks and repairs its log, `tarn backup` and
//! `tarn restore` copy it, `tarn import` and `tarn export` exchange data with Redis, `tarn sql` asks it,
//! `tarn demo` shows it, `tarn lab` measures it.

mod ask;
mod backup;
mod daemon;
mod export;
#[cfg(feature = "sql")]
mod guest;
mod import;
mod lab;
mod log;
mod remote;
mod restore;
#[cfg(feature = "sql")]
mod search;
mod secrets;
#[cfg_attr(not(feature = "sql"), path = "no_sql.rs")]
mod sql;
mod transfer;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use tarn_server::config::{Invocation, Loaded, help_text, parse_with_secrets};
use tarn_server::persist::FUNCTIONS_FILE;
use tarn_server::serve::supervisor;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// An in-memory database that speaks Redis's protocol, and writes its data to disk without pausing clients.
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
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Demo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Check and repair the log of a server that does not run.
    Log(log::LogCli),
    /// Have a running server back up its log into a directory.
    Backup(backup::BackupArgs),
    /// Make a data directory from a backup and its increments.
    Restore(restore::RestoreArgs),
    /// Read an RDB file of Redis into the data directory of a server that does not run.
    Import(import::ImportArgs),
    /// Write the data of a server that does not run to an RDB file.
    Export(export::ExportArgs),
    /// Ask a running server in SQL.
    Sql(ask::SqlArgs),
    /// Measure Tarn and redis-server side by side.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Lab {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match Cli::parse_from(own_help(std::env::args_os().collect())).command {
        Command::Serve { args } => serve(args),
        Command::Demo { args } => lab::run(std::iter::once(OsString::from("demo")).chain(args)),
        Command::Log(cli) => log::run(cli),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(args),
        Command::Sql(args) => ask::run(&args),
        Command::Lab { args } => lab::run(args),
    }
}

/// Commands that read their arguments, `--help` among them, by themselves.
const OWN_HELP: [&str; 3] = ["serve", "demo", "lab"];

/// `tarn help COMMAND` says what `tarn COMMAND --help` says, also for these commands.
fn own_help(mut args: Vec<OsString>) -> Vec<OsString> {
    if let [_, help, command] = &mut args[..]
        && help == "help"
        && OWN_HELP.iter().any(|name| command == name)
    {
        *help = std::mem::replace(command, OsString::from("--help"));
    }
    args
}

fn serve(args: Vec<OsString>) -> ExitCode {
    secrets::hide(&args);
    // Paths of the configuration begin there.
    if let Err(error) = std::env::current_dir() {
        eprintln!("tarn: the current directory cannot be used: {error}; start from another");
        return ExitCode::FAILURE;
    }
    let lines = match secrets::take() {
        Ok(lines) => lines,
        Err(error) => return refuse(&error),
    };
    let mut loaded = match parse_with_secrets(args, &lines) {
        Ok(Invocation::Serve(loaded)) => *loaded,
        Ok(Invocation::Test(loaded)) => return tell_of(&loaded),
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
    let is_daemon = loaded.config.daemonize && !supervisor::is_supervised(&loaded.config);
    if is_daemon && !daemon::is_child() {
        if loaded.from_stdin {
            eprintln!("tarn: 'daemonize yes' needs a configuration from a file, not from standard input");
            return ExitCode::FAILURE;
        }
        return daemon::start();
    }
    if is_daemon {
        daemon::begin();
        loaded.listening = daemon::ready;
    }
    secrets::forget();
    tarn_server::serve::panics::end_the_process(sql::runs_apart);
    let sql = match sql::Sql::prepare(&loaded.config) {
        Ok(sql) => sql,
        Err(error) => return refuse(&error),
    };
    let mut queries = None;
    let kept = sql::DECLARATION_FILES.iter().chain([&FUNCTIONS_FILE]);
    let kept: Vec<PathBuf> = kept.map(|name| loaded.config.dir.join(name)).collect();
    let served = tarn_server::serve::serve_beside(loaded, |server| {
        server.backups.take_along(kept);
        queries = Some(sql.start(server));
    });
    if let Some(queries) = queries {
        queries.end();
    }
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

/// Prints the directives that the server would not obey, and that it would start.
fn tell_of(loaded: &Loaded) -> ExitCode {
    if let Err(error) = tarn_server::serve::check_users(&loaded.config) {
        return refuse(&error);
    }
    for warning in loaded.warnings.iter().cloned().chain(loaded.disobeyed_line()) {
        println!("{warning}");
    }
    println!("the configuration is valid");
    ExitCode::SUCCESS
}

fn refuse(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("tarn: {error}");
    ExitCode::FAILURE
}
