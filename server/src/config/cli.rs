//! The arguments of `serve`: `[FILE] [--directive value ...] [-]`, as redis-server takes them, and
//! `--test-config`.
//!
//! Options are obeyed after the file (and after standard input, if `-` is the last argument or stands for the
//! file), so they override it. What follows an option's name, up to the next `--`, are its values; the first
//! of them may itself begin with `--`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::args::{join_args, split_args};
use super::directives::{directives, find_directive};
use super::error::{LoadError, Source};
use super::file::{Includes, Reading, load_file, load_stdin, load_text, obey};
use super::secrets::without_secrets;
use super::settings::Config;

/// The action that the arguments of `serve` request.
#[derive(Debug)]
pub enum Invocation {
    /// To start with this configuration.
    Serve(Box<Loaded>),
    /// To tell of this configuration, and leave.
    Test(Box<Loaded>),
    /// To print [`help_text`] and leave.
    Help,
    /// To print the version and leave.
    Version,
}

/// A configuration with what the server should tell about it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The file it came from, absolute, for `CONFIG REWRITE`; none if there was none.
    pub file: Option<PathBuf>,
    /// Directives that were taken without effect, one line each.
    pub warnings: Vec<String>,
    /// Directives that were named, and whose values are not what the server does.
    pub disobeyed: Vec<&'static str>,
    /// Whether a part of it came from standard input, which is used up.
    pub from_stdin: bool,
    /// Called as soon as clients can connect.
    pub listening: fn(),
}

impl Loaded {
    /// A line that names all directives that were named in vain; none if there are none.
    pub fn disobeyed_line(&self) -> Option<String> {
        (!self.disobeyed.is_empty()).then(|| {
            format!(
                "the configuration names directives that the server does not obey, as docs/configuration.md \
                 explains: {}",
                self.disobeyed.join(", ")
            )
        })
    }
}

/// The arguments parted into their three kinds.
#[derive(Debug, Default)]
struct Arguments {
    file: Option<OsString>,
    stdin: bool,
    /// The configuration is to be tested, not to be used.
    tests: bool,
    options: Vec<CommandOption>,
}

/// `--name value ...`.
#[derive(Debug)]
struct CommandOption {
    name: Vec<u8>,
    values: Vec<Vec<u8>>,
}

/// Reads the arguments after `serve` and everything they name.
pub fn parse_serve_args(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, LoadError> {
    parse_with_secrets(args, b"")
}

/// As [`parse_serve_args`], with the lines that [`take_secrets`] has taken out of the arguments.
pub fn parse_with_secrets(
    args: impl IntoIterator<Item = OsString>,
    lines: &[u8],
) -> Result<Invocation, LoadError> {
    let args: Vec<OsString> = args.into_iter().collect();
    match args.first().map(|arg| arg.as_bytes()) {
        Some(b"-h" | b"--help") => return Ok(Invocation::Help),
        Some(b"-v" | b"--version") => return Ok(Invocation::Version),
        _ => {}
    }
    let arguments = part(&args)?;
    let mut reading = Reading::default();
    let file = match arguments.file {
        Some(path) => Some(absolute(path.into())?),
        None => None,
    };
    if let Some(path) = &file {
        load_file(&mut reading, path)?;
    }
    if arguments.stdin {
        load_stdin(&mut reading)?;
    }
    let mut users = std::mem::take(&mut reading.config.orders.users);
    for CommandOption { name, values } in &arguments.options {
        let line = shown(name, values);
        let located = |problem| LoadError::Line { at: Source::CommandLine, line, problem };
        obey(&mut reading, name, values, Includes::FROM_TOP, located)?;
    }
    load_text(&mut reading, lines, &|_| Source::CommandLine, Includes::Refused)?;
    // As with directives, what the command line says takes the place of what the file says of the same user.
    let own = &mut reading.config.orders.users;
    users.retain(|user| !own.iter().any(|other| other.first() == user.first()));
    users.append(own);
    reading.config.orders.users = users;
    reading.fetch_password()?;
    let disobeyed = reading.disobeyed();
    let config = reading.judge()?;
    let warnings = directives().filter_map(|directive| directive.warning(&config)).collect();
    let loaded =
        Box::new(Loaded { config, file, warnings, disobeyed, from_stdin: arguments.stdin, listening: || {} });
    Ok(if arguments.tests { Invocation::Test(loaded) } else { Invocation::Serve(loaded) })
}

/// Secrets in the arguments of `serve`, which a list of processes must not show.
#[derive(Debug, PartialEq, Eq)]
pub struct Secrets {
    /// The arguments without passwords.
    pub args: Vec<OsString>,
    /// The passwords, as lines of a file.
    pub lines: Vec<u8>,
}

/// Takes the passwords out of the arguments after `serve`; `None` if there are none, or if it is not
/// understood what is one: then the server refuses to start.
pub fn take_secrets(args: &[OsString]) -> Option<Secrets> {
    let mut secrets = Secrets { args: Vec::new(), lines: Vec::new() };
    let mut rest = args;
    while let Some((arg, after)) = rest.split_first() {
        let Some(name) = arg.as_bytes().strip_prefix(b"--") else {
            secrets.args.push(arg.clone());
            rest = after;
            continue;
        };
        let (CommandOption { name, values }, after) = take_option(name, after);
        // A last `-` stands for standard input, not for a value.
        let last = values.last().filter(|value| after.is_empty() && *value == b"-");
        let values = &values[..values.len() - usize::from(last.is_some())];
        // Passwords stand among the rules of users.
        let is_secret = name.eq_ignore_ascii_case(b"user")
            || find_directive(&name).is_some_and(|directive| directive.sensitive);
        if is_secret && !values.is_empty() {
            secrets.lines.extend([&name, &b" "[..], &join_args(values), b"\n"].concat());
            secrets.args.extend(last.map(|_| OsString::from("-")));
        } else {
            secrets.args.extend_from_slice(&rest[..rest.len() - after.len()]);
        }
        rest = after;
    }
    (!secrets.lines.is_empty()).then_some(secrets)
}

fn part(args: &[OsString]) -> Result<Arguments, LoadError> {
    let mut parted = Arguments::default();
    let mut rest = args;
    match rest.first().map(|arg| arg.as_bytes()) {
        Some(b"-") => {
            parted.stdin = true;
            rest = &rest[1..];
        }
        Some(first) if !first.starts_with(b"-") => {
            parted.file = Some(rest[0].clone());
            rest = &rest[1..];
        }
        _ => {}
    }
    if let [before @ .., last] = rest
        && last == "-"
    {
        parted.stdin = true;
        rest = before;
    }
    while let Some((option, after)) = rest.split_first() {
        if option == "--test-config" {
            parted.tests = true;
            rest = after;
            if let Some((file, after)) = after.split_first().filter(|_| parted.file.is_none())
                && !file.as_bytes().starts_with(b"-")
            {
                parted.file = Some(file.clone());
                rest = after;
            }
            continue;
        }
        let Some(name) = option.as_bytes().strip_prefix(b"--") else {
            return Err(LoadError::Argument { argument: without_secrets(option.as_bytes()) });
        };
        let (option, after) = take_option(name, after);
        // A lone `--` is nothing.
        if !option.name.is_empty() || !option.values.is_empty() {
            parted.options.push(option);
        }
        rest = after;
    }
    Ok(parted)
}

/// Takes an option's values; `option` may be a whole directive in one argument, as in `"--save 60 1"`.
fn take_option<'a>(option: &[u8], after: &'a [OsString]) -> (CommandOption, &'a [OsString]) {
    let mut values = split_args(option).unwrap_or_else(|| vec![option.to_vec()]);
    let name = if values.is_empty() { Vec::new() } else { values.remove(0) };
    let is_option = |arg: &OsString| arg.as_bytes().starts_with(b"--");
    let mut count = after.iter().position(is_option).unwrap_or(after.len());
    let lacks_value = values.is_empty() && count == 0;
    if lacks_value && name.eq_ignore_ascii_case(b"save") {
        // An empty list in a script that writes `--save $RULES`.
        values.push(Vec::new());
    } else if lacks_value && !after.is_empty() {
        // A password or title may begin with two dashes.
        count = 1 + after[1..].iter().position(is_option).unwrap_or(after.len() - 1);
    }
    values.extend(after[..count].iter().map(|arg| arg.as_bytes().to_vec()));
    (CommandOption { name, values }, &after[count..])
}

fn absolute(path: PathBuf) -> Result<PathBuf, LoadError> {
    std::path::absolute(&path).map_err(|error| LoadError::Unreadable { path, error })
}

/// The option as an error may show it.
fn shown(name: &[u8], values: &[Vec<u8>]) -> String {
    let line = [name, b" ", &join_args(values)].concat();
    format!("--{}", without_secrets(line.trim_ascii_end()))
}

/// The text of `serve --help`: usage, and every directive that does something.
pub fn help_text() -> String {
    let mut text = String::from(
        "Serves clients until a signal or SHUTDOWN.\n\n\
         Usage: tarn serve [FILE] [--test-config] [--directive value ...] [-]\n\n\
         FILE is in redis.conf's syntax; '-' reads the same from standard input. A directive on the\n\
         command line overrides the file:\n\n    \
         tarn serve --port 7000 --dir /var/lib/tarn --appendfsync always --threads 2\n\n\
         --test-config starts nothing: it tells which directives the server would not obey, and exits with\n\
         0 if each value is valid, 1 if not. Ports, directories and certificates are not tried.\n\n\
         Directives and their defaults:\n\n",
    );
    for directive in directives().filter(|directive| directive.is_implemented()) {
        let default = if directive.default.is_empty() { "\"\"" } else { directive.default };
        text.push_str(&format!("  {} {default}\n        {}\n", directive.name, directive.doc));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use super::super::{AppendFsync, SaveRule};
    use super::*;

    #[test]
    fn users_on_the_command_line_are_taken_from_the_list_of_processes() {
        let args = "--port|7000|--USER|alice|on|>a secret|~*|--user|bob|on|--hz|20";
        let args: Vec<OsString> = args.split('|').map(OsString::from).collect();
        let secrets = take_secrets(&args).unwrap();
        assert_eq!(secrets.args, ["--port", "7000", "--hz", "20"].map(OsString::from));
        let Invocation::Serve(loaded) = parse_with_secrets(secrets.args, &secrets.lines).unwrap() else {
            panic!("it serves");
        };
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let users = [words(&["alice", "on", ">a secret", "~*"]), words(&["bob", "on"])];
        assert_eq!(loaded.config.orders.users, users);
    }

    #[test]
    fn a_user_on_the_command_line_takes_the_place_of_that_of_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"user alice on nopass\nuser bob on\n").unwrap();
        let path = file.path().to_str().unwrap();
        let users = parse(&[path, "--user", "alice", "off"]).unwrap().config.orders.users;
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(users, [words(&["bob", "on"]), words(&["alice", "off"])]);
        assert!(parse(&["--user", "alice", "on", "--user", "alice", "off"]).is_err());
    }

    fn parse(args: &[&str]) -> Result<Loaded, LoadError> {
        match parse_serve_args(args.iter().map(OsString::from))? {
            Invocation::Serve(loaded) => Ok(*loaded),
            other => panic!("{other:?}"),
        }
    }

    fn refusal(args: &[&str]) -> String {
        parse(args).unwrap_err().to_string()
    }

    #[test]
    fn no_arguments_give_the_defaults() {
        let loaded = parse(&[]).unwrap();
        assert_eq!(loaded.config, Config::default());
        assert_eq!(loaded.file, None);
        assert!(loaded.config.appendonly && loaded.config.dir_is_default());
        assert_eq!(loaded.config.log_dirs(), [loaded.config.dir.join("log")]);
    }

    #[test]
    fn options_come_after_the_file_and_override_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "# a comment\nport 7001\nappendfsync always\nsave 60 1").unwrap();
        let loaded = parse(&[file.path().to_str().unwrap(), "--port", "7002", "--save", "30", "2"]).unwrap();
        assert_eq!(loaded.config.port, 7002);
        assert_eq!(loaded.config.appendfsync, AppendFsync::Always);
        let rules = [SaveRule { after_s: 60, changes: 1 }, SaveRule { after_s: 30, changes: 2 }];
        assert_eq!(loaded.config.save.rules, rules);
        assert_eq!(loaded.file.as_deref(), Some(file.path()));
    }

    #[test]
    fn former_names_of_the_checkpoint_mode_are_read_in_files_and_options() {
        let mode = |args: &[&str]| {
            let config = parse(args).unwrap().config;
            String::from_utf8(find_directive(b"checkpoint-mode").unwrap().print(&config)).unwrap()
        };
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "snapshot-algorithm hourglass").unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(mode(&[]), "full");
        assert_eq!(mode(&[path]), "incremental");
        assert_eq!(mode(&[path, "--checkpoint-mode", "Piggyback"]), "full");
        assert_eq!(mode(&["--snapshot-algorithm", "INCREMENTAL"]), "incremental");
    }

    #[test]
    fn an_option_may_be_one_argument_and_its_value_may_begin_with_dashes() {
        let loaded =
            parse(&["--port 7003", "--requirepass", "--secret", "--save", "--timeout", "5"]).unwrap();
        assert_eq!(loaded.config.port, 7003);
        assert_eq!(loaded.config.requirepass, b"--secret");
        assert!(loaded.config.save.rules.is_empty());
        assert_eq!(loaded.config.timeout_s, 5);
    }

    #[test]
    fn mistakes_are_named_with_their_remedy() {
        assert_eq!(
            refusal(&["--prot", "7000"]),
            "command line: in '--prot 7000': unknown directive 'prot' (did you mean 'port'?)"
        );
        assert_eq!(
            refusal(&["--port=7000"]),
            "command line: in '--port=7000': unknown directive 'port=7000' (write 'port' \
             and its value with a space between)"
        );
        assert_eq!(
            refusal(&["--timeout", "soon"]),
            "command line: in '--timeout soon': argument couldn't be parsed into an integer; 'timeout' is: \
             disconnect a client idle for so many seconds; 0 never"
        );
        let long = refusal(&[&format!("--{}", "ü".repeat(1 << 20)), "7000"]);
        assert!(long.starts_with("command line: in '--üüü") && long.contains("unknown directive 'ü"));
        assert!(long.len() < 3_000, "{} bytes", long.len());
        assert!(refusal(&["--port"]).contains("wrong number of arguments"));
        assert!(refusal(&["a", "b"]).contains("unexpected argument 'b'"));
        assert!(refusal(&["/no/such/file"]).contains("/no/such/file"));
        assert!(refusal(&["--socket-mark-id", "1"]).contains("sockets cannot be marked"));
        assert!(refusal(&["--rename-command", "CONFIG"]).contains("takes a command and its new name"));
    }

    #[test]
    fn a_password_is_never_shown() {
        let lines: [&[&str]; 6] = [
            &["--requirepass", "s3cret", "word"],
            &["--requirepass=s3cret"],
            &["--requirepas", "s3cret"],
            &["--requirepass \"s3cret"],
            &["--port", "1", "requirepass", "s3cret"],
            &["-requirepass=s3cret"],
        ];
        for line in lines {
            assert!(!refusal(line).contains("s3cret"), "{}", refusal(line));
        }
        let loaded = parse(&["--masterauth", "s3cret"]).unwrap();
        let warning = "'masterauth ...' is accepted, but has no effect: there is no replication yet";
        assert_eq!(loaded.warnings, [warning]);
    }

    #[test]
    fn directives_without_effect_warn_unless_they_are_at_their_default() {
        let loaded = parse(&["--rdbcompression", "yes", "--activerehashing", "no"]).unwrap();
        assert_eq!(
            loaded.warnings,
            ["'activerehashing no' is accepted, but has no effect: tables grow in small steps by themselves"]
        );
        let args = ["--active-expire-effort", "3", "--list-compress-depth", "2"];
        let warnings = parse(&args).unwrap().warnings;
        assert_eq!(warnings.len(), 2, "one for each directive: {warnings:?}");
        assert!(warnings[0].starts_with("'active-expire-effort 3' is accepted, but"));
        let args = ["--active-expire-effort", "1", "--list-compress-depth", "0"];
        assert!(parse(&args).unwrap().warnings.is_empty());
    }

    #[test]
    fn of_the_output_limits_only_those_warn_that_nobody_has() {
        let limits = |text| parse(&["--client-output-buffer-limit", text]).unwrap().warnings;
        assert!(limits("normal 1mb 1kb 5 pubsub 1mb 1kb 5").is_empty());
        assert_eq!(
            limits("normal 1mb 1kb 5 replica 2 1 9"),
            ["'client-output-buffer-limit slave 2 1 9' is accepted, but has no effect: there are no \
              replicas yet"]
        );
    }
}
