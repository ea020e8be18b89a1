//! Builds Lua 5.1 from the sources of the crate `lua-src`, with the patches in `patches/`.
//!
//! Those sources lack fixes of known holes; each patch says which one it closes. The hash of all patched
//! files is known: another version of the crate, or a patch that applies at another place, does not get in
//! unseen.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use diffy::Patch;
use serde_json::Value;
use sha1_smol::Sha1;

/// The hash of the names and contents of all patched sources.
const PATCHED: &str = "6c5a5872b1b56b6d0d13211c900b85da797fb1b8";

/// Files of the sources that are not part of the interpreter: loading of libraries and files, the debugger.
const LEFT_OUT: &[&str] = &["print.c", "luac.c", "lua.c"];

type Sources = BTreeMap<String, String>;

fn main() -> Result<(), Box<dyn Error>> {
    let own = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let patches = own.join("patches");
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_LUA").is_none() {
        return Ok(());
    }
    println!("cargo:rerun-if-changed={}", patches.display());
    let mut sources = read(&sources_dir(&own)?)?;
    let mut names: Vec<PathBuf> =
        fs::read_dir(&patches)?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    names.sort();
    for name in names {
        apply(&fs::read_to_string(&name)?, &mut sources)
            .map_err(|error| format!("{}: {error}", name.display()))?;
    }
    let hash = hash(&sources);
    if hash != PATCHED {
        return Err(format!(
            "the patched sources of Lua have the hash {hash}, not {PATCHED}: see lua/README.md"
        )
        .into());
    }
    compile(&sources)
}

/// The folder with the sources of Lua 5.1 in the crate `lua-src`, as cargo has unpacked it.
fn sources_dir(own: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = Command::new(env::var("CARGO")?);
    // Other packages of the workspace may need crates that this build has not fetched, but none of other
    // systems.
    let platform = env::var("TARGET")?;
    cargo
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform])
        .arg("--manifest-path")
        .arg(own.join("Cargo.toml"));
    let output = cargo.output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let found = packages.iter().find(|package| package["name"] == "lua-src");
    let manifest = found
        .and_then(|package| package["manifest_path"].as_str())
        .ok_or("lua-src is not among the packages")?;
    let dir = Path::new(manifest).parent().ok_or("lua-src has no folder")?;
    Ok(dir.join("lua-5.1.5"))
}

fn read(dir: &Path) -> Result<Sources, Box<dyn Error>> {
    let mut sources = Sources::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a name that is no text")?;
        if !LEFT_OUT.contains(&name) {
            sources.insert(name.to_owned(), fs::read_to_string(&path)?);
        }
    }
    Ok(sources)
}

/// Applies the changes in a patch, which begin with `--- name` for each file, to the sources.
fn apply(patch: &str, sources: &mut Sources) -> Result<(), Box<dyn Error>> {
    let mut parts = patch.split("\n--- ");
    // The reason of the patch.
    parts.next();
    for part in parts {
        let text = format!("--- {}\n", part.trim_end_matches('\n'));
        let name = part.lines().next().unwrap_or_default();
        let source = sources.get_mut(name).ok_or_else(|| format!("there is no {name}"))?;
        *source = diffy::apply(source, &Patch::from_str(&text)?)?;
    }
    Ok(())
}

fn hash(sources: &Sources) -> String {
    let mut hash = Sha1::new();
    for (name, text) in sources {
        hash.update(format!("{name} {}\n", text.len()).as_bytes());
        hash.update(text.as_bytes());
    }
    hash.digest().to_string()
}

fn compile(sources: &Sources) -> Result<(), Box<dyn Error>> {
    let dir = PathBuf::from(env::var("OUT_DIR")?).join("lua");
    fs::create_dir_all(&dir)?;
    let mut build = cc::Build::new();
    for (name, text) in sources {
        let path = dir.join(name);
        fs::write(&path, text)?;
        if name.ends_with(".c") {
            build.file(path);
        }
    }
    // Fast also in builds for tests: the interpreter is not their subject.
    build
        .include(&dir)
        .warnings(false)
        .opt_level(2)
        .cargo_metadata(false)
        .define("LUA_USE_LINUX", None)
        .define("_GNU_SOURCE", None);
    build.flag_if_supported("-fno-common").out_dir(&dir).try_compile("tarnlua")?;
    println!("cargo:rustc-link-search=native={}", dir.display());
    println!("cargo:rustc-link-lib=static:+whole-archive=tarnlua");
    Ok(())
}
