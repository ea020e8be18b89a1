//! A compacted log with any byte damaged is repaired once, and can be opened and written again.

#![allow(clippy::unwrap_used)]

mod histories;

use std::path::Path;
use std::sync::Arc;

use histories::{DATABASES, Store, contents_of, options, seed_count};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::io::{Crash, Disk, SimDisk, SimOptions};
use tarn_engine::log::OpenError;
use tarn_engine::record::Lsn;
use tarn_engine::renewal::{Renewal, Step};
use tarn_engine::repair::Repair;

#[test]
fn one_repair_is_enough_whatever_is_spoilt() {
    let (mut repairs, mut killed, mut compactions, mut renewals) = (0, 0, 0, 0);
    for seed in tarn_engine::io::seeds(seed_count()) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = options(&mut rng);
        let mut disk = SimDisk::new(seed, SimOptions::default());
        for _ in 0..rng.random_range(1..3) {
            let store = Store::open(&disk, &options).unwrap();
            let engine = store.engine.clone();
            let mut renewal: Option<Renewal<'_>> = None;
            for _ in 0..rng.random_range(20..200) {
                if rng.random_bool(0.2) {
                    // An entry is written again in pieces, which may be cut off later.
                    let goes_on =
                        renewal.as_mut().is_some_and(|renewal| matches!(renewal.step(), Step::Goes(_)));
                    if !goes_on {
                        drop(renewal.take());
                        let (db, name) =
                            (rng.random_range(0..DATABASES), format!("k{}", rng.random_range(0..12)));
                        renewal = Renewal::begin(engine.store(), db, name.as_bytes(), 1);
                        renewals += u64::from(renewal.is_some());
                    }
                } else if rng.random_bool(0.08) {
                    compactions += u64::from(store.compact_any(&mut rng));
                } else {
                    store.commit(&mut rng);
                }
            }
            drop(renewal);
            drop(engine);
            let Store { engine, _background, log, .. } = store;
            drop((engine, _background));
            log.close().unwrap();
        }
        let is_log = |path: &Path| path.extension().is_some_and(|ending| ending == "tarnlog");
        let files: Vec<_> = disk.paths().into_iter().filter(|path| is_log(path)).collect();
        for _ in 0..rng.random_range(1..3) {
            let file = &files[rng.random_range(0..files.len())];
            let length = disk.contents(file).unwrap().len();
            disk.spoil(file, rng.random_range(0..length), |byte| byte ^ 1 << (seed % 8));
        }
        disk = disk.crash(Crash::Kill, seed, SimOptions::default());
        match Store::open(&disk, &options) {
            Ok(_) => continue,
            Err(OpenError::Damaged(_)) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
        repairs += 1;
        let begin = |disk: &SimDisk| {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            Repair::begin(&shared, &options.directories, 2).unwrap()
        };
        let repair = begin(&disk);
        // Without the first file nobody knows where the log began.
        let recovered = &repair.survey.recovered;
        let kept = if recovered.blocks > 0 { recovered.last } else { Lsn::ZERO };
        // Killed at any call, it is run again and keeps as much.
        let crash_at = rng.random_bool(0.5).then(|| disk.calls() + rng.random_range(1..60));
        disk.set_options(SimOptions { crash_at, ..SimOptions::default() });
        if let Err(error) = repair.truncate() {
            assert!(disk.is_dead(), "seed {seed}: {error}");
            disk = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
            killed += 1;
            let repair = begin(&disk);
            let recovered = &repair.survey.recovered;
            assert!(recovered.last >= kept, "seed {seed}: {kept} was kept, then {}", recovered.last);
            repair.truncate().unwrap();
        }
        disk.set_options(SimOptions::default());
        let mut left = None;
        for _ in 0..4 {
            let store = Store::open(&disk, &options).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(store.last >= kept, "seed {seed}: up to {kept} was kept, {} is there", store.last);
            let found = contents_of(&store.engine);
            assert_eq!(left.as_ref().unwrap_or(&found), &found, "seed {seed}");
            for _ in 0..20 {
                store.commit(&mut rng);
                compactions += u64::from(rng.random_bool(0.2) && store.compact_any(&mut rng));
            }
            left = Some(contents_of(&store.engine));
            let Store { engine, _background, log, .. } = store;
            drop((engine, _background));
            log.close().unwrap();
        }
    }
    let enough = renewals > seed_count()
        && repairs > seed_count() / 4
        && killed > seed_count() / 20
        && compactions > seed_count();
    assert!(enough, "{repairs} repairs, {killed} killed, {compactions} compactions");
}
