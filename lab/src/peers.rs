//! Peers: other servers of Redis's protocol, by a name that the laboratory knows or by their command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dialect::Dialect;
use crate::error::{LabError, Result};
use crate::server::{PeerName, Product, Subject, is_peer};

/// A server that the laboratory knows how to start.
struct Preset {
    name: &'static str,
    /// The name of its program on the PATH.
    program: &'static str,
    /// The beginning of its version, which `--version` prints after `v=`.
    version: Option<&'static str>,
    dialect: Dialect,
    /// True if a child process takes its checkpoints.
    forks: bool,
    /// Arguments that come before those of an experiment.
    arguments: &'static [&'static str],
}

const REDIS: Preset = Preset {
    name: "redis-7",
    program: "redis-server",
    version: Some("7."),
    dialect: Dialect::Redis,
    forks: true,
    arguments: &[],
};
const VALKEY: Preset = Preset { name: "valkey-9", program: "valkey-server", version: Some("9."), ..REDIS };
/// A server with its own command line, whose checkpoints are taken by its threads.
const OTHER: Preset = Preset { version: None, forks: false, ..REDIS };

const PRESETS: [Preset; 10] = [
    REDIS,
    Preset { name: "redis-8", version: Some("8."), ..REDIS },
    Preset { name: "valkey-8", version: Some("8."), ..VALKEY },
    VALKEY,
    // A build without it ends with a word about the directive.
    Preset {
        name: "valkey-forkless",
        version: None,
        forks: false,
        arguments: &["--forkless-options-supported", "yes", "--default-bgsave-method", "forkless"],
        ..VALKEY
    },
    Preset { name: "keydb", program: "keydb-server", version: None, ..REDIS },
    Preset { name: "dragonfly", program: "dragonfly", dialect: Dialect::Dragonfly, ..OTHER },
    Preset { name: "garnet", program: "garnet-server", dialect: Dialect::Garnet, ..OTHER },
    Preset { name: "kvrocks", program: "kvrocks", dialect: Dialect::Kvrocks, ..OTHER },
    Preset { name: "tarantool", program: "tarantool", dialect: Dialect::Tarantool, ..OTHER },
];

/// The peer that `NAME`, of those that are known, or `NAME=COMMAND` describes. Spaces part the words of a
/// command. A known name keeps its ways with a command too.
pub fn peer(text: &str) -> Result<Subject> {
    let refused = |why: String| LabError::Arguments(format!("--peer {text}: {why}"));
    let (name, command) = text.split_once('=').map_or((text, None), |(name, own)| (name, Some(own)));
    let preset = PRESETS.iter().find(|own| own.name == name);
    let command = command.or(preset.map(|own| own.program)).ok_or_else(|| {
        let known: Vec<_> = PRESETS.iter().map(|own| own.name).collect();
        refused(format!("NAME=COMMAND is expected, or one of {}", known.join(", ")))
    })?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(refused("a name has letters, digits and -".to_owned()));
    }
    if !is_peer(name) {
        return Err(refused(format!("the name {name} is taken")));
    }
    let peer = PeerName::from(name).map_err(|_| refused("a name has 32 characters at most".to_owned()))?;
    let mut words = command.split_whitespace().map(str::to_owned);
    let program = words.next().ok_or_else(|| refused("a command is expected".to_owned()))?;
    // A name with a slash is a path, of which the PATH says nothing.
    let is_path = program.contains('/');
    let found = if is_path { Some(program.clone().into()) } else { on_path(&program) };
    let binary = found.filter(|path: &PathBuf| path.is_file());
    let binary = binary.ok_or_else(|| match is_path {
        true => refused(format!("there is no file {program}")),
        false => {
            refused(format!("{program} is not on the PATH; --peer {name}=/the/path/of/it says where it is"))
        }
    })?;
    let Preset { version, dialect, forks, arguments, .. } =
        preset.unwrap_or(&Preset { version: None, ..REDIS });
    if let Some(version) = version {
        check_version(&binary, version).map_err(refused)?;
    }
    let arguments = arguments.iter().map(|&own| own.to_owned()).chain(words).collect();
    Ok(Subject {
        name: name.to_owned(),
        product: Product::RedisServer,
        peer: Some(peer),
        dialect: *dialect,
        forks: *forks,
        binary,
        arguments,
    })
}

/// Fails, with a reason, unless a program says that it has a version.
fn check_version(binary: &Path, version: &str) -> std::result::Result<(), String> {
    let told = Command::new(binary).arg("--version").output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    match told.contains(&format!("v={version}")) {
        true => Ok(()),
        false => Err(format!("{} is not of version {version}x but says {told:?}", binary.display())),
    }
}

/// An executable on the PATH.
pub fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|dir| dir.join(Path::new(name.as_ref()))).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_peer_is_a_name_a_program_and_its_arguments() {
        let found = peer("other-9=/bin/sh --io-threads  1").unwrap();
        assert_eq!((found.name.as_str(), found.product), ("other-9", Product::RedisServer));
        assert_eq!(found.arguments, ["--io-threads", "1"]);
        assert!(found.is_peer() && found.forks && found.binary == Path::new("/bin/sh"));
        assert!(peer("b=sh").unwrap().binary.is_absolute());
    }

    #[test]
    fn a_known_peer_has_its_ways_and_its_version() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("stub");
        std::fs::write(&program, "#!/bin/sh\necho 'Valkey server v=9.1.2 sha=0'\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = program.display().to_string();
        let known = |name: &str| peer(&format!("{name}={program} --more 1"));
        let valkey = known("valkey-9").unwrap();
        assert!(valkey.forks && valkey.dialect == Dialect::Redis && valkey.arguments == ["--more", "1"]);
        let forkless = known("valkey-forkless").unwrap();
        assert!(!forkless.forks && forkless.arguments[..2] == ["--forkless-options-supported", "yes"]);
        assert_eq!(forkless.arguments[4..], ["--more", "1"]);
        assert_eq!(known("kvrocks").unwrap().dialect, Dialect::Kvrocks);
        let tarantool = known("tarantool").unwrap();
        assert!(!tarantool.forks && tarantool.dialect == Dialect::Tarantool);
        let error = known("valkey-8").unwrap_err().to_string();
        assert!(
            error.ends_with("stub is not of version 8.x but says \"Valkey server v=9.1.2 sha=0\""),
            "{error}"
        );
    }

    #[test]
    fn a_known_peer_that_is_not_there_is_refused_with_the_way_to_name_its_path() {
        let names = PRESETS.iter().filter(|own| on_path(own.program).is_none()).map(|own| own.name);
        let names: Vec<_> = names.collect();
        assert!(!names.is_empty(), "no machine has all of them");
        for name in names {
            let error = peer(name).unwrap_err().to_string();
            assert!(error.contains("is not on the PATH; --peer"), "{error}");
            assert!(error.contains(&format!("{name}=/the/path/of/it")), "{error}");
        }
    }

    #[test]
    fn a_peer_that_cannot_be_is_refused_with_the_reason() {
        for (text, why) in [
            ("=sh", "a name has letters, digits and -"),
            ("a b=sh", "a name has letters, digits and -"),
            ("tarn=sh", "the name tarn is taken"),
            ("redis-server=sh", "the name redis-server is taken"),
            ("a= ", "a command is expected"),
            ("a=/no/such/file", "there is no file /no/such/file"),
            ("a=/", "there is no file /"),
        ] {
            let error = peer(text).unwrap_err().to_string();
            assert_eq!(error, format!("--peer {text}: {why}"));
        }
        let unknown = peer("valkey").unwrap_err().to_string();
        assert!(unknown.contains("NAME=COMMAND is expected, or one of redis-7, redis-8"), "{unknown}");
        let missing = peer("a=no-such-program-anywhere").unwrap_err().to_string();
        assert!(missing.contains("no-such-program-anywhere is not on the PATH"), "{missing}");
        let long = format!("{}=sh", "a".repeat(33));
        assert!(peer(&long).unwrap_err().to_string().ends_with("32 characters at most"));
    }
}
