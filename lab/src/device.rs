//! Measures the disk under a directory: flushes a second with several in flight, and sequential reading.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use crate::error::{IoContext, Result};

/// Bytes of one write, and of the alignment of all.
const BLOCK: usize = 4096;
/// Each flight writes over its own part of the file, of this size, again and again.
const PART: usize = 4 << 20;
/// The files of a directory are counted again no more often than this.
const COUNTS_MAX: u32 = 1000;
/// Bytes of one sequential read.
const READ_BYTES: usize = 1 << 20;

/// Flushes a second, by how many are in flight at once.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct FlushRates {
    /// One after the other.
    pub one: f64,
    /// Two at once.
    pub two: f64,
    /// Four at once.
    pub four: f64,
}

impl FlushRates {
    /// True where flushes that overlap cost much less than as many one after the other.
    pub fn overlap_helps(&self) -> bool {
        self.four >= 2.0 * self.one
    }
}

/// Measures writes of 4 KB, each followed by `fdatasync`, into a file that was written before, so that no
/// flush changes metadata. The file lies in `dir` and goes away.
pub fn flush_rates(dir: &Path, time: Duration) -> Result<FlushRates> {
    let file = tempfile::tempfile_in(dir).at(dir)?;
    file.write_all_at(&vec![0xA5; 4 * PART], 0).and_then(|()| file.sync_all()).at(dir)?;
    let rate = |flights| flush_rate(&file, flights, time).at(dir);
    Ok(FlushRates { one: rate(1)?, two: rate(2)?, four: rate(4)? })
}

fn flush_rate(file: &File, flights: usize, time: Duration) -> std::io::Result<f64> {
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let counts = std::thread::scope(|scope| {
        let flights: Vec<_> = (0..flights)
            .map(|flight| {
                let stop = &stop;
                scope.spawn(move || -> std::io::Result<u64> {
                    let block = [flight as u8; BLOCK];
                    let mut count = 0u64;
                    // Once at least, however busy the machine is.
                    loop {
                        let at = flight * PART + (count as usize * BLOCK) % PART;
                        file.write_all_at(&block, at as u64)?;
                        file.sync_data()?;
                        count += 1;
                        if stop.load(Ordering::Relaxed) {
                            return Ok(count);
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let join =
            |flight: std::thread::ScopedJoinHandle<'_, _>| flight.join().expect("a flight does not panic");
        flights.into_iter().map(join).collect::<std::io::Result<Vec<u64>>>()
    })?;
    Ok(counts.iter().sum::<u64>() as f64 / begun.elapsed().as_secs_f64())
}

/// All files in a directory and below, each with its length. Looks again when a file disappears meanwhile, as
/// a server renames files and removes old ones.
fn files_below(dir: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut again = COUNTS_MAX;
    loop {
        match look_below(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound && dir.exists() && again > 0 => again -= 1,
            counted => return counted.at(dir),
        }
    }
}

fn look_below(dir: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                dirs.push(entry.path());
            } else if metadata.is_file() {
                files.push((entry.path(), metadata.len()));
            }
        }
    }
    Ok(files)
}

/// The data files below some directories, and their bytes: all but the printed output of a server.
pub fn data_files(dirs: &[impl AsRef<Path>]) -> (Vec<PathBuf>, u64) {
    let of = |dir: &_| files_below(AsRef::as_ref(dir)).unwrap_or_default();
    let mut files: Vec<(PathBuf, u64)> = dirs.iter().flat_map(of).collect();
    files.retain(|(file, _)| file.extension().is_none_or(|extension| extension != "output"));
    // The directories of a log may lie below that of the data.
    files.sort();
    files.dedup_by(|one, other| one.0 == other.0);
    let bytes = files.iter().map(|(_, bytes)| bytes).sum();
    (files.into_iter().map(|(file, _)| file).collect(), bytes)
}

/// The way in which the operating system was made to forget files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forgetting {
    /// The whole page cache was dropped.
    DropCaches,
    /// It was advised to drop the pages of these files, which it may ignore.
    Advice,
}

/// Makes the operating system forget the content of files, so that the next read comes from the device.
pub fn forget(files: &[PathBuf]) -> Result<Forgetting> {
    for path in files {
        let file = File::open(path).at(path)?;
        // Dirty pages cannot be dropped.
        file.sync_all().at(path)?;
        fadvise(&file, 0, None, Advice::DontNeed).at(path)?;
    }
    let dropped = fs::write("/proc/sys/vm/drop_caches", "1");
    Ok(if dropped.is_ok() { Forgetting::DropCaches } else { Forgetting::Advice })
}

/// Reads files from front to back, 1 MiB at a time. Returns the bytes and the time.
pub fn read_through(files: &[PathBuf]) -> Result<(u64, Duration)> {
    let mut buffer = vec![0; READ_BYTES];
    let begun = Instant::now();
    let mut bytes = 0;
    for path in files {
        let mut file = File::open(path).at(path)?;
        fadvise(&file, 0, None, Advice::Sequential).at(path)?;
        loop {
            match file.read(&mut buffer).at(path)? {
                0 => break,
                count => bytes += count as u64,
            }
        }
    }
    Ok((bytes, begun.elapsed()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_device_is_measured_and_its_files_are_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let rates = flush_rates(dir.path(), Duration::from_millis(30)).unwrap();
        assert!(rates.one > 0.0 && rates.two > 0.0 && rates.four > 0.0);
        fs::create_dir(dir.path().join("deep")).unwrap();
        fs::write(dir.path().join("a"), [1; 5]).unwrap();
        fs::write(dir.path().join("deep/b"), vec![2; READ_BYTES + 1]).unwrap();
        let (files, bytes) = data_files(&[dir.path()]);
        assert_eq!((files.len(), bytes), (2, READ_BYTES as u64 + 6));
        assert_eq!(read_through(&files).unwrap().0, bytes);
    }

    #[test]
    fn a_file_that_is_renamed_meanwhile_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        fs::write(&one, [1; 5]).unwrap();
        let rename = |is_over: &AtomicBool| {
            while !is_over.load(Ordering::Relaxed) {
                fs::rename(&one, &two).unwrap();
                fs::rename(&two, &one).unwrap();
            }
        };
        let count = || (0..2000).map(|_| data_files(&[dir.path()]).1).collect::<Vec<u64>>();
        let ((), counts) = crate::process::beside(rename, count);
        let lost = counts.iter().filter(|bytes| **bytes == 0).count();
        assert_eq!(lost, 0, "of {} counts", counts.len());
    }
}
