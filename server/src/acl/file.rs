//! The file that `aclfile` names: a line for each user, as `ACL LIST` shows them.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use crate::acl::catalog::Catalog;
use crate::acl::registry::Users;
use crate::acl::rules::{RuleError, has_spaces, merge_selectors, without_password};
use crate::acl::user::{User, UserId};

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The longest text about mistakes, in bytes.
const ERRORS_BYTES_MAX: usize = 16 << 10;

/// The end of what is told about a file with mistakes.
const NOTHING_CHANGED: &str =
    "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";

/// The users of a file; an error tells of all its mistakes in one line. It shows no password.
pub fn read(path: &Path, catalog: &Catalog, all_channels: bool) -> Result<Vec<User>, String> {
    let mut text = Vec::new();
    if let Err(error) = read_into(path, &mut text) {
        return Err(format!("Error loading ACLs, opening file '{}': {error}", path.display()));
    }
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("Error loading ACLs: the file '{}' is too large", path.display()));
    }
    parse(&text, &path.display().to_string(), catalog, all_channels)
}

fn read_into(path: &Path, text: &mut Vec<u8>) -> io::Result<()> {
    // Before it is opened: a pipe would wait for who writes into it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(text)?;
    Ok(())
}

/// The users of a text; `name` is the place that mistakes are told to be at.
pub fn parse(text: &[u8], name: &str, catalog: &Catalog, all_channels: bool) -> Result<Vec<User>, String> {
    let (mut users, mut names, mut errors) = (Vec::new(), HashSet::new(), String::new());
    for (i, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let words: Vec<&[u8]> = line.trim_ascii().split(|byte| *byte == b' ').collect();
        if words == [b""] {
            continue;
        }
        match user_of(&words, &names, catalog, all_channels) {
            Ok(user) => {
                names.insert(user.name.clone());
                users.push(user);
            }
            Err(mistakes) if errors.len() < ERRORS_BYTES_MAX => {
                mistakes.into_iter().for_each(|mistake| errors.push_str(&mistake.tell(name, i + 1)));
            }
            Err(_) => {}
        }
    }
    if errors.is_empty() { Ok(users) } else { Err(errors + NOTHING_CHANGED) }
}

/// A mistake in a line.
enum Mistake {
    NoUser,
    Name(String),
    Twice(String),
    Parenthesis,
    /// A rule that names an unknown command or category, which is no secret.
    Unknown(String),
    Rule(RuleError),
}

impl Mistake {
    fn tell(&self, name: &str, line: usize) -> String {
        match self {
            Mistake::NoUser => {
                format!("{name}:{line} should start with user keyword followed by the username. ")
            }
            Mistake::Name(user) => {
                format!("'{name}:{line}: username '{user}' contains invalid characters. ")
            }
            Mistake::Twice(user) => format!("WARNING: Duplicate user '{user}' found on line {line}. "),
            Mistake::Parenthesis => {
                format!("{name}:{line}: Unmatched parenthesis in selector definition.")
            }
            Mistake::Unknown(rule) => {
                let error = RuleError::Unknown;
                format!("{name}:{line}: Error in applying operation '{rule}': {error}. ")
            }
            Mistake::Rule(error) => format!("{name}:{line}: {error}. "),
        }
    }
}

/// The user that the words of a line describe. Of mistakes that may follow from others the first is told.
fn user_of(
    words: &[&[u8]],
    others: &HashSet<Arc<[u8]>>,
    catalog: &Catalog,
    all_channels: bool,
) -> Result<User, Vec<Mistake>> {
    let [b"user", name, rules @ ..] = words else {
        return Err(vec![Mistake::NoUser]);
    };
    let shown = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
    if has_spaces(name) {
        return Err(vec![Mistake::Name(shown)]);
    }
    if others.contains(*name) {
        return Err(vec![Mistake::Twice(shown)]);
    }
    let mut user = User::new(name, UserId::default(), catalog, all_channels);
    let rules = merge_selectors(rules.iter().copied()).map_err(|_| vec![Mistake::Parenthesis])?;
    let (mut mistakes, mut has_other) = (Vec::new(), false);
    for rule in &rules {
        match user.apply(rule.trim_ascii(), catalog, all_channels) {
            Ok(()) => {}
            Err(RuleError::Unknown) => {
                let rule = without_password(rule);
                let rule = String::from_utf8_lossy(&rule[..rule.len().min(128)]).into_owned();
                mistakes.push(Mistake::Unknown(rule));
            }
            Err(error) if !has_other => {
                has_other = true;
                mistakes.push(Mistake::Rule(error));
            }
            Err(_) => {}
        }
    }
    if mistakes.is_empty() { Ok(user) } else { Err(mistakes) }
}

/// The lines of all users.
pub fn text_of(users: &Users, catalog: &Catalog) -> Vec<u8> {
    let mut text = Vec::new();
    for user in users.values() {
        text.extend_from_slice(&user.line(catalog));
        text.push(b'\n');
    }
    text
}

/// Puts all users into a file, so that a crash leaves the old content or the new. A link stays, and what it
/// points to is replaced. An error, and nothing is written, if that is no file, or is not there.
pub fn write(path: &Path, users: &Users, catalog: &Catalog) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let target = match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if std::fs::symlink_metadata(path).is_ok() {
                return Err(io::Error::new(error.kind(), "it is a link to what is not there"));
            }
            path.to_owned()
        }
        resolved => {
            let target = resolved?;
            if !std::fs::metadata(&target)?.is_file() {
                return Err(io::Error::other("it is no file"));
            }
            target
        }
    };
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = target.with_file_name(format!(".{name}.{:016x}.tmp", rand::random::<u64>()));
    // Hashes of passwords stand in it: no stranger reads it, unless the file was open to all before. It is a
    // new one, so nobody has it open, and it is no link of somebody else's.
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = write_durably(file, &target, &text_of(users, catalog))
        .and_then(|()| std::fs::rename(&temporary, &target));
    if let Err(error) = written {
        // The old file is still whole; a temporary file that cannot be removed harms nobody.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_durably(mut file: File, target: &Path, text: &[u8]) -> io::Result<()> {
    if let Ok(old) = std::fs::metadata(target) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::catalog::sample;
    use crate::acl::registry::Acl;

    #[test]
    fn users_that_are_written_are_read_back() {
        let acl = Acl::new(sample());
        acl.change(b"alice", &["on", ">secret", "~a*", "+@read", "(~b* +set)"], false).expect("rules");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users.acl");
        write(&path, &acl.all(), acl.catalog()).expect("a file");
        let users = read(&path, acl.catalog(), false).expect("its own text");
        let lines: Vec<Vec<u8>> = users.iter().map(|user| user.line(acl.catalog())).collect();
        let own: Vec<Vec<u8>> = acl.all().values().map(|user| user.line(acl.catalog())).collect();
        assert_eq!(lines, own);
    }

    #[test]
    fn a_link_stays_and_what_is_no_file_is_not_read() {
        let acl = Acl::new(sample());
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("users.acl"), folder.path().join("link.acl"));
        std::fs::write(&path, "").expect("a file");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        write(&link, &acl.all(), acl.catalog()).expect("a file");
        assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert!(std::fs::read_to_string(&path).expect("a file").starts_with("user default on"));
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("the folder").count(),
            2,
            "a temporary file stays"
        );
        let told = read(folder.path(), acl.catalog(), false).expect_err("no file");
        assert!(told.contains("it is no file"), "{told}");
    }

    #[test]
    fn what_is_no_file_is_not_written_over() {
        let acl = Acl::new(sample());
        let folder = tempfile::tempdir().expect("a folder");
        let [socket, link, lost] = ["socket", "link", "lost"].map(|name| folder.path().join(name));
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        std::os::unix::fs::symlink(&socket, &link).expect("a link");
        std::os::unix::fs::symlink(folder.path().join("nothing"), &lost).expect("a link");
        for (path, why) in [(&socket, "no file"), (&link, "no file"), (&lost, "a link to what is not there")]
        {
            let told = write(path, &acl.all(), acl.catalog()).expect_err("no file").to_string();
            assert!(told.contains(why), "{}: {told}", path.display());
        }
        assert!(!std::fs::metadata(&socket).expect("it stays").is_file());
        assert!(std::fs::symlink_metadata(&lost).expect("it stays").is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 3);
    }

    #[test]
    fn a_password_that_has_grown_together_with_a_rule_is_not_told() {
        for rules in ["on +nothing>s3cret", "(+nothing >s3cret)", "+nothing\t>s3cret", "+nothing#s3cret"] {
            let told = parse(format!("user alice {rules}\n").as_bytes(), "f", &sample(), false);
            let told = told.expect_err("a mistake");
            assert!(!told.contains("s3cret") && told.contains("f:1"), "{told}");
        }
        let told = parse(b"user alice\nuser alice\n", "f", &sample(), false).expect_err("twice");
        assert!(told.starts_with("WARNING: Duplicate user 'alice' found on line 2."), "{told}");
    }

    #[test]
    fn all_mistakes_are_told_and_no_password() {
        let text = "user alice on +nothing >s3cret\n\nnobody\nuser alice\nuser bob >s3cret on (+get\n\
                    user carol #s3cret ~*\n";
        let told = parse(text.as_bytes(), "f", &sample(), false).expect_err("mistakes");
        assert_eq!(
            told,
            "f:1: Error in applying operation '+nothing': Unknown command or category name in ACL. \
             f:3 should start with user keyword followed by the username. \
             f:5: Unmatched parenthesis in selector definition.\
             f:6: The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
             characters. WARNING: ACL errors detected, no change to the previously active ACL rules was \
             performed"
        );
    }
}
