//! Reading lines in redis.conf's syntax and obeying them: comments, quotes, `include`, and errors that name
//! file, line and remedy.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::args::split_args;
use super::directives::{find_directive, nearest_name};
use super::error::{LoadError, Source};
use super::foreign::REFUSED_ORDERS;
use super::kinds::Phase;
use super::secrets::without_secrets;
use super::settings::Config;

/// Files that may include one another, one within the other.
const INCLUDE_DEPTH_MAX: usize = 16;

/// How `include` is treated.
#[derive(Debug, Clone, Copy)]
pub(super) enum Includes {
    /// Other files are read, from within so many files that include one another.
    Followed(usize),
    /// The text must stand alone.
    Refused,
}

impl Includes {
    /// In a file that nobody includes.
    pub(super) const FROM_TOP: Includes = Includes::Followed(0);
}

/// The longest password that a file may hold, in bytes.
const PASSWORD_BYTES_MAX: u64 = 1 << 16;

/// A configuration that is being read from its sources, one after the other: files, standard input, the
/// command line. What Tarn cannot do is judged behind the last of them, as a later one may take it back.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) config: Config,
    /// The directives that were named.
    named: BTreeSet<&'static str>,
    /// The last line of each directive whose value is refused.
    refused: BTreeMap<&'static str, LoadError>,
}

impl Reading {
    /// The configuration read so far, whether it is refused or not.
    pub(super) fn peek(&self) -> Config {
        let mut config = self.config.clone();
        config.settle();
        config
    }

    /// Nothing else follows: the configuration, or the first thing in it that Tarn cannot do.
    pub(super) fn judge(self) -> Result<Config, LoadError> {
        let config = self.peek();
        self.refused.into_values().next().map_or(Ok(config), Err)
    }

    /// The directives that were named, and whose values in force are not what the server does.
    pub(super) fn disobeyed(&self) -> Vec<&'static str> {
        let is_not_obeyed = |name: &&&str| {
            find_directive(name.as_bytes()).is_some_and(|directive| !directive.is_obeyed(&self.config))
        };
        self.named.iter().filter(is_not_obeyed).copied().collect()
    }

    /// Takes the password out of `requirepass-file`, if that is named and `requirepass` is not.
    pub(super) fn fetch_password(&mut self) -> Result<(), LoadError> {
        let Some(path) = self.config.requirepass_path() else { return Ok(()) };
        if !self.config.requirepass.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        let read =
            std::fs::File::open(&path).and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_end(&mut text));
        if let Err(error) = read {
            return Err(LoadError::Password { path, problem: error.to_string() });
        }
        let line = text.split(|&b| b == b'\n').next().unwrap_or_default();
        let password = line.strip_suffix(b"\r").unwrap_or(line);
        if password.is_empty() {
            return Err(LoadError::Password { path, problem: "its first line is empty".to_owned() });
        }
        self.config.requirepass = password.to_vec();
        self.config.fetched_password = password.to_vec();
        Ok(())
    }
}

/// Reads a configuration from a text that includes no files, and names none with a password.
pub fn read_config(text: &[u8]) -> Result<Config, LoadError> {
    read_text(text)?.judge()
}

/// As [`read_config`], not judged yet.
pub(super) fn read_text(text: &[u8]) -> Result<Reading, LoadError> {
    let mut reading = Reading::default();
    load_text(&mut reading, text, &Source::Text, Includes::Refused)?;
    Ok(reading)
}

/// Obeys every line of a file.
pub(super) fn load_file(reading: &mut Reading, path: &Path) -> Result<(), LoadError> {
    load_nested(reading, path, Includes::FROM_TOP)
}

/// Obeys every line of standard input.
pub(super) fn load_stdin(reading: &mut Reading) -> Result<(), LoadError> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(LoadError::Stdin)?;
    load_text(reading, &text, &Source::Stdin, Includes::FROM_TOP)
}

/// Obeys every line of a text. `at` names the place of a line by its number.
pub(super) fn load_text(
    reading: &mut Reading,
    text: &[u8],
    at: &dyn Fn(usize) -> Source,
    includes: Includes,
) -> Result<(), LoadError> {
    for (i, line) in text.split(|&b| b == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let located =
            |problem: String| LoadError::Line { at: at(i + 1), line: without_secrets(line), problem };
        let words = split_args(line).ok_or_else(|| {
            located(
                "unbalanced quotes; close every quote, and leave a space after the closing one".to_owned(),
            )
        })?;
        if let [name, values @ ..] = words.as_slice() {
            obey(reading, name, values, includes, located)?;
        }
    }
    Ok(())
}

/// Obeys one line, given as words. `located` makes an error of a problem with the line itself.
pub(super) fn obey(
    reading: &mut Reading,
    name: &[u8],
    values: &[Vec<u8>],
    includes: Includes,
    located: impl FnOnce(String) -> LoadError,
) -> Result<(), LoadError> {
    if name.eq_ignore_ascii_case(b"include") {
        include(reading, values, includes).map_err(|error| error.or_located(located))
    } else if name.eq_ignore_ascii_case(b"user") {
        add_user(&mut reading.config, values).map_err(located)
    } else if name.eq_ignore_ascii_case(b"rename-command") {
        add_rename(&mut reading.config, values).map_err(located)
    } else {
        set(reading, name, values, located)
    }
}

/// Notes a line that makes a user. Its rules are read when all commands are known.
fn add_user(config: &mut Config, values: &[Vec<u8>]) -> Result<(), String> {
    let Some(name) = values.first() else {
        return Err("wrong number of arguments; 'user' takes a name and rules".to_owned());
    };
    if config.orders.users.iter().any(|user| user.first() == Some(name)) {
        return Err("duplicate user; all rules of a user stand in one line".to_owned());
    }
    config.orders.users.push(values.to_vec());
    Ok(())
}

/// Notes a line that gives a command another name. The names are looked up when all commands are known.
fn add_rename(config: &mut Config, values: &[Vec<u8>]) -> Result<(), String> {
    let [old, new] = values else {
        return Err(
            "wrong number of arguments; 'rename-command' takes a command and its new name, which is \
                    empty for none"
                .to_owned(),
        );
    };
    config.orders.renames.push([old.clone(), new.clone()]);
    Ok(())
}

/// Sets one directive. The error says what is wrong and what to do.
fn set(
    reading: &mut Reading,
    name: &[u8],
    values: &[Vec<u8>],
    located: impl FnOnce(String) -> LoadError,
) -> Result<(), LoadError> {
    let Some(directive) = find_directive(name) else { return Err(located(unknown(name))) };
    reading.named.insert(directive.name);
    reading.refused.remove(directive.name);
    let value = match values {
        // A directive without any value is a slip of the pen, even where "" would be a list of nothing.
        [] => Err(super::ValueError::ArgumentCount),
        values => directive.shape.read(values),
    };
    match value.and_then(|value| directive.store(&mut reading.config, value, Phase::Load)) {
        Ok(()) => Ok(()),
        Err(error @ super::ValueError::Unsupported { .. }) => {
            let refusal = located(format!("'{}' is {error}", directive.name));
            reading.refused.insert(directive.name, refusal);
            Ok(())
        }
        Err(error) => Err(located(format!("{error}; '{}' is: {}", directive.name, directive.doc))),
    }
}

fn load_nested(reading: &mut Reading, path: &Path, includes: Includes) -> Result<(), LoadError> {
    let text = std::fs::read(path).map_err(|error| LoadError::Unreadable { path: path.to_owned(), error })?;
    load_text(reading, &text, &|line| Source::File(path.to_owned(), line), includes)
}

/// An error of an `include` line: of the line itself, or inside the included file.
enum IncludeError {
    Here(String),
    Inside(LoadError),
}

impl IncludeError {
    fn or_located(self, located: impl FnOnce(String) -> LoadError) -> LoadError {
        match self {
            Self::Here(problem) => located(problem),
            Self::Inside(error) => error,
        }
    }
}

fn include(reading: &mut Reading, values: &[Vec<u8>], includes: Includes) -> Result<(), IncludeError> {
    let [pattern] = values else {
        return Err(IncludeError::Here("wrong number of arguments; 'include' takes one path".to_owned()));
    };
    let Includes::Followed(depth) = includes else {
        return Err(IncludeError::Here("this text cannot include files".to_owned()));
    };
    if depth >= INCLUDE_DEPTH_MAX {
        let problem =
            format!("files include one another more than {INCLUDE_DEPTH_MAX} deep; is there a circle?");
        return Err(IncludeError::Here(problem));
    }
    for path in expand(pattern) {
        load_nested(reading, &path, Includes::Followed(depth + 1)).map_err(IncludeError::Inside)?;
    }
    Ok(())
}

/// The files an `include` means. A pattern in the last part of the path stands for the files that match it,
/// in order of name, possibly none.
fn expand(pattern: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = Path::new(std::ffi::OsStr::from_bytes(pattern));
    let Some(last) = path.file_name().map(OsStrExt::as_bytes) else { return vec![path.to_owned()] };
    if !last.iter().any(|b| b"*?[".contains(b)) {
        return vec![path.to_owned()];
    }
    let parent = path.parent().unwrap_or(Path::new(""));
    let listed = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let Ok(entries) = std::fs::read_dir(listed) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name());
    let visible = |name: &[u8]| !name.starts_with(b".") || last.starts_with(b".");
    let mut paths: Vec<PathBuf> = names
        .filter(|name| visible(name.as_bytes()) && crate::glob::matches(last, name.as_bytes()))
        .map(|name| parent.join(name))
        .collect();
    paths.sort();
    paths
}

fn unknown(name: &[u8]) -> String {
    let lower = name.to_ascii_lowercase();
    if let Some((order, why)) = REFUSED_ORDERS.iter().find(|(order, _)| order.as_bytes() == lower) {
        return format!("'{order}' is not supported by Tarn: {why}");
    }
    let shown = without_secrets(name);
    if let Some((before, _)) = shown.split_once('=')
        && find_directive(before.as_bytes()).is_some()
    {
        return format!("unknown directive '{shown}' (write '{before}' and its value with a space between)");
    }
    let shown = shown.trim_end_matches(" ...");
    match nearest_name(name) {
        Some(nearest) => format!("unknown directive '{shown}' (did you mean '{nearest}'?)"),
        None => format!("unknown directive '{shown}'; see 'serve --help' for the directives there are"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{ClientClass, LogLevel};
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let mut reading = Reading::default();
        let at = |line| Source::File(PathBuf::from("tarn.conf"), line);
        load_text(&mut reading, text.as_bytes(), &at, Includes::FROM_TOP)
            .map_err(|error| error.to_string())?;
        reading.judge().map_err(|error| error.to_string())
    }

    #[test]
    fn repeated_directives_add_up_or_the_last_one_counts() {
        let config =
            read("hz 20\nHZ 30\nsave 60 1\nsave 30 2\nclient-output-buffer-limit replica 1mb 2kb 3\n")
                .unwrap();
        assert_eq!(config.hz, 30);
        assert_eq!(config.save.rules.len(), 2);
        let replica = config.client_output_buffer_limit.of(ClientClass::Replica);
        assert_eq!((replica.hard_bytes, replica.soft_bytes, replica.soft_s), (1 << 20, 2 << 10, 3));
        assert_eq!(config.client_output_buffer_limit.of(ClientClass::PubSub).hard_bytes, 32 << 20);
        assert!(read("save 60 1\nsave \"\"\n").unwrap().save.rules.is_empty());
    }

    #[test]
    fn comments_blank_lines_and_windows_line_ends_are_fine() {
        let config = read("# one\r\n\r\n  loglevel WARNING\r\n").unwrap();
        assert_eq!(config.loglevel, LogLevel::Warning);
    }

    #[test]
    fn an_error_names_file_line_and_remedy() {
        assert_eq!(
            read("port 1\nappendfsnyc no\n").unwrap_err(),
            "tarn.conf:2: in 'appendfsnyc no': unknown directive 'appendfsnyc' (did you mean 'appendfsync'?)"
        );
        assert_eq!(
            read("dir \"/tmp").unwrap_err(),
            "tarn.conf:1: in 'dir \"/tmp': unbalanced quotes; close every quote, and leave a space after the \
             closing one"
        );
        assert!(read("appendonly no # why").unwrap_err().contains("wrong number of arguments"));
        assert!(read("xyzzyxyzzy 1").unwrap_err().contains("see 'serve --help'"));
        assert!(read("save 60").unwrap_err().contains("Invalid save parameters"));
    }

    #[test]
    fn an_error_shows_no_password() {
        let quoted = read("\"requirepass\" s3cret x").unwrap_err();
        assert!(
            quoted.starts_with("tarn.conf:1: in 'requirepass ...': wrong number of arguments"),
            "{quoted}"
        );
        for line in ["requirepass=s3cret", "requirepas s3cret", "requirepass s3cret\""] {
            let error = read(line).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert!(read("requirepas s3cret").unwrap_err().contains("(did you mean 'requirepass'?)"));
    }

    #[test]
    fn the_configuration_that_redis_ships_is_understood_up_to_what_tarn_lacks() {
        let shipped = "bind 127.0.0.1 -::1\nprotected-mode yes\nport 6379\ndaemonize no\nsave \"\"\n\
            appendfilename \"appendonly.aof\"\nreplica-serve-stale-data yes\nnotify-keyspace-events \"\"\n";
        read(shipped).unwrap();
        assert!(read("cluster-enabled yes").unwrap_err().contains("there is no cluster mode yet"));
    }

    #[test]
    fn what_a_later_line_takes_back_is_not_refused() {
        assert!(read("socket-mark-id 1\nsocket-mark-id 0\n").is_ok());
        let error = read("socket-mark-id 0\n\nSOCKET-MARK-ID 1\nhz 20\n").unwrap_err();
        let refusal = "tarn.conf:3: in 'SOCKET-MARK-ID 1': 'socket-mark-id' is not supported";
        assert!(error.starts_with(refusal), "{error}");
    }

    #[test]
    fn without_a_log_and_without_a_word_about_it_redis_rules_are_in_force() {
        let rules = |text: &str| {
            let rules = read(text).unwrap().save.rules;
            rules.iter().map(|rule| (rule.after_s, rule.changes)).collect::<Vec<_>>()
        };
        assert_eq!(rules("appendonly no"), [(3600, 1), (300, 100), (60, 10_000)]);
        assert_eq!(rules("appendonly yes"), []);
        assert_eq!(rules(""), []);
        assert_eq!(rules("appendonly no\nsave \"\"\n"), []);
        assert_eq!(rules("save 5 6\nappendonly no\n"), [(5, 6)]);
        assert!(read("appendonly no\nsave \"\"").unwrap().keeps_nothing());
        assert!(!read("appendonly no").unwrap().keeps_nothing());
    }

    #[test]
    fn includes_are_read_in_place_and_a_circle_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let shown = |name: &str| path(name).display().to_string();
        std::fs::write(path("a.inc"), "hz 20\n").unwrap();
        std::fs::write(path("b.inc"), "hz 30\ntimeout 7\n").unwrap();
        std::fs::write(path("circle"), format!("include {}\n", shown("circle"))).unwrap();

        let config = read(&format!("include {}\nport 1\n", shown("*.inc"))).unwrap();
        assert_eq!((config.hz, config.timeout_s, config.port), (30, 7, 1));
        let error = read(&format!("include {}", shown("circle"))).unwrap_err();
        assert!(error.starts_with(&format!("{}:1:", shown("circle"))), "{error}");
        assert!(error.contains("circle?"), "{error}");
        assert!(read(&format!("include {}", shown("nothing.conf"))).unwrap_err().contains("nothing.conf"));
    }
}
