//! A start after a hard kill, with all data back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::device;
use crate::error::Result;
use crate::interrupt;
use crate::server::Server;

/// The longest that a start may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The longest time until the whole log is with the system.
const WRITING: Duration = Duration::from_secs(60);

/// The data files below some directories, and their bytes: all but the printed output of a server. Files may
/// disappear while they are counted, as a server removes old ones.
pub fn data_files(dirs: &[&Path]) -> (Vec<PathBuf>, u64) {
    let of = |dir: &&Path| device::files_below(dir).map(|(files, _)| files).unwrap_or_default();
    let mut files: Vec<PathBuf> = dirs.iter().flat_map(of).collect();
    files.retain(|file| file.extension().is_none_or(|extension| extension != "output"));
    // The directories of a log may lie below that of the data.
    files.sort();
    files.dedup();
    let bytes = files.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    (files, bytes)
}

/// Waits until a server has given all of its log to the system, which a kill does not take from it: under
/// `everysec` and `no` ours answers before.
fn wait_until_written(server: &Server) -> Result<()> {
    let deadline = Instant::now() + WRITING;
    while server.info_number("persistence", "log_backlog_bytes")?.is_some_and(|bytes| bytes > 0) {
        if Instant::now() > deadline {
            return Err(server.complaint(format!("its log was not written within {WRITING:?}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Kills a server and starts it again as it was started, from its files in some directories, which are read
/// before, so that they are in the page cache. Something may be done to the server as soon as it has been
/// started. Returns the seconds until it answers with as many keys.
pub fn after_kill(
    server: &mut Server,
    dirs: &[&Path],
    launched: impl FnOnce(&Server) -> Result<()>,
) -> Result<f64> {
    let keys = server.key_count()?;
    wait_until_written(server)?;
    server.kill()?;
    device::read_through(&data_files(dirs).0)?;
    interrupt::check()?;
    let plan = server.plan().clone();
    *server = plan.launch()?;
    launched(server)?;
    let took = server.wait_until_ready(PATIENCE)?;
    let back = server.key_count()?;
    if back != keys {
        return Err(server.complaint(format!("came back with {back} of {keys} keys")));
    }
    Ok(took.as_secs_f64())
}
