//! `tarn-lab demo`: one server, a million records, a hard kill, and everything that was acknowledged is there
//! again.
//!
//! The server runs with `appendfsync always`: a reply means that the write is on the disk. Updates increment
//! a field of a record, so that the number of acknowledged updates of every record can be compared with the
//! restored value.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{IoContext, LabError, Result};
use crate::interrupt;
use crate::load::{
    Arg, Group, KeyChoice, Keys, Load, LoadResult, Mix, Pace, Request, Tally, Until, key_text,
};
use crate::report::thousands;
use crate::server::{Persistence, Plan, Product, Server, Subject};
use crate::setting::{fill, program_beside, progress};
use crate::{device, machine, process};
use tarn_resp::client::{Client, elements, text};

/// Connections of the load.
const CLIENTS: usize = 50;
/// The latency is measured at this share of the server's throughput.
const OPEN_SHARE: f64 = 0.5;
/// Bytes of a record's text.
const TEXT_BYTES: usize = 64;
/// Bytes of a record: key, field names and values.
const RECORD_BYTES: usize = 17 + 4 + TEXT_BYTES + 6 + 1;
/// Records that are asked for at once when all are checked.
const CHECK_BATCH: u64 = 1000;
const KEY: Arg = Arg::Key { prefix: "user:", digits: 12, scattered: false };
const PATIENCE: Duration = Duration::from_secs(600);

/// The numbers of records that `--records` takes.
fn records_allowed() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=100_000_000)
}

/// The arguments of `tarn-lab demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// Leave the server running at the end, and say where it listens.
    #[arg(long)]
    pub keep: bool,
    /// Load this many records.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = records_allowed())]
    pub records: u64,
    /// Update for this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub seconds: f64,
    /// Make the data directory under this one instead of the system's directory for temporary files.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The server to start. By default `tarn` in the directory of this program.
    #[arg(long, value_name = "FILE", hide = true)]
    pub tarn: Option<PathBuf>,
}

/// The number of acknowledged updates, in words.
fn acknowledged(tally: &Tally) -> String {
    thousands(tally.acknowledged.iter().map(|&count| f64::from(count)).sum())
}

/// Runs the demonstration. Fails if something that was acknowledged did not come back.
pub(crate) fn show(args: &DemoArgs) -> Result<()> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(LabError::Arguments("--seconds is between 0 and 3600".to_owned()));
    }
    let seed: u64 = rand::random();
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = interrupt::temporary("tarn-demo-", &parent).at(parent)?;
    let binary = args.tarn.clone().map_or_else(|| program_beside("tarn"), Ok)?;
    let mut plan = Plan::new(Subject::new(Product::Tarn, &binary), dir.path());
    plan.persistence = Persistence::Always;
    plan.threads = process::cores_allowed().len();
    let mut server = plan.start()?;
    let place = machine::file_system(dir.path());
    show!("started    a server with appendfsync always: no reply before the write is on the disk ({place})");

    let loaded = load_records(&server, args.records, seed)?;
    let (records, rate) = (thousands(args.records as f64), thousands(loaded.rate()));
    let seconds = loaded.elapsed.as_secs_f64();
    show!("loaded     {records} records of {RECORD_BYTES} bytes in {seconds:.1} s, {rate} a second");
    let tally = work_and_kill(&mut server, args, seed)?;

    let (_, log_bytes) = device::data_files(&[dir.path()]);
    let mut server = plan.launch()?;
    let seconds = server.wait_until_ready(PATIENCE)?.as_secs_f64();
    let keys = server.key_count()? as f64;
    let (records, rate) = (thousands(keys), thousands(keys / seconds));
    show!(
        "restarted  {records} records back in {seconds:.2} s, {rate} a second, from log files of {} MB, free \
         room included",
        thousands(log_bytes as f64 / 1e6)
    );
    let unacknowledged = check(&mut server.client()?, args.records, &tally)?;
    show!(
        "checked    all {} acknowledged updates are there, and {unacknowledged} whose replies the kill cut \
         off",
        acknowledged(&tally)
    );
    say_what_next(args, server, dir)
}

fn load_records(server: &Server, records: u64, seed: u64) -> Result<LoadResult> {
    let insert = Request::new(&[
        Arg::Text("HSET"),
        KEY,
        Arg::Text("text"),
        Arg::Value(TEXT_BYTES),
        Arg::Text("visits"),
        Arg::Text("0"),
    ]);
    fill(server, "load records", records, Mix::in_order(insert, records), seed)
}

/// Finds the throughput in a closed loop and the latency in an open one, and kills the server in the middle
/// of that.
fn work_and_kill(server: &mut Server, args: &DemoArgs, seed: u64) -> Result<Tally> {
    let half = Duration::from_secs_f64(args.seconds / 2.0);
    let read = Request::new(&[Arg::Text("HGET"), KEY, Arg::Text("text")]);
    let update = Request::new(&[Arg::Text("HINCRBY"), KEY, Arg::Text("visits"), Arg::Text("1")]).tallied();
    let mix = Mix::weighted(&[(1, read), (1, update)], Keys::new(KeyChoice::Zipfian, args.records));
    let group = |pace| Group { name: "clients", connections: CLIENTS, pace, mix: mix.clone() };
    let until = Until::Time { warmup: half / 10, measured: half * 9 / 10 };

    let closed = group(Pace::Closed { pipeline: 1 });
    let mut load = Load::new(server.address(), vec![closed], until, seed);
    load.tallied_keys = args.records;
    let busy = work(load, half, "half reads, half updates")?.check()?;
    let busy_rate = thousands(busy.rate());
    show!("worked     {CLIENTS} connections, half reads, half updates: {busy_rate} requests a second");

    let rate = (busy.rate() * OPEN_SHARE).max(1.0);
    // The load would continue for ever; the kill ends it.
    let until = Until::Time { warmup: half / 10, measured: PATIENCE };
    let mut load = Load::new(server.address(), vec![group(Pace::Open { rate })], until, seed.wrapping_add(1));
    load.tallied_keys = args.records;
    let killed = Arc::new(AtomicBool::new(false));
    load.killed = Some(killed.clone());
    let pid = server.pid();
    let open = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < half && !interrupt::asked() {
                std::thread::sleep(Duration::from_millis(10));
            }
            killed.store(true, Ordering::SeqCst);
            server.kill()
        });
        let open = work(load, half, "the same at half that rate");
        killer.join().expect("the killer does not panic")?;
        open
    })?;
    interrupt::check()?;
    let latency = &open.groups[0];
    let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|of| latency.latency_us(of) / 1000.0);
    show!(
        "latency    at {} requests a second: p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms, max \
         {max:.2} ms",
        thousands(rate)
    );
    let mut tally = busy.tally;
    tally.add(&open.tally);
    show!("killed     kill -9 {pid}, under load, after {} acknowledged updates", acknowledged(&tally));
    Ok(tally)
}

/// Runs a load with a progress bar over the time that it will take.
fn work(load: Load, time: Duration, what: &str) -> Result<LoadResult> {
    let bar = progress(time.as_millis() as u64, what);
    let begun = Instant::now();
    let result = load.run(|_| bar.set_position(begun.elapsed().min(time).as_millis() as u64));
    bar.finish_and_clear();
    result
}

/// Compares every record with the tally. Returns how many updates are there that were not acknowledged.
fn check(client: &mut Client, records: u64, tally: &Tally) -> Result<u64> {
    let bar = progress(records, "check every record");
    let mut unacknowledged = 0;
    for begin in (0..records).step_by(CHECK_BATCH as usize) {
        interrupt::check()?;
        let end = (begin + CHECK_BATCH).min(records);
        for number in begin..end {
            client.queue(&["HMGET", &key_text("user:", 12, false, number), "text", "visits"]);
        }
        client.send()?;
        for number in begin..end {
            let reply = client.receive()?;
            let fields = elements(&reply)?;
            let whole = fields
                .first()
                .and_then(|field| field.as_bytes())
                .is_some_and(|text| text.len() == TEXT_BYTES);
            let visits = fields.get(1).map(text).transpose()?.and_then(|text| text.parse::<u32>().ok());
            let (acknowledged, sent) = (tally.acknowledged[number as usize], tally.sent[number as usize]);
            match visits {
                Some(visits) if whole && (acknowledged..=sent).contains(&visits) => {
                    unacknowledged += u64::from(visits - acknowledged);
                }
                _ => {
                    return Err(LabError::Reply(format!(
                        "record {number} came back as {reply}; {acknowledged} of {sent} updates acknowledged"
                    )));
                }
            }
        }
        bar.set_position(end);
    }
    bar.finish_and_clear();
    Ok(unacknowledged)
}

fn say_what_next(args: &DemoArgs, server: Server, dir: tempfile::TempDir) -> Result<()> {
    show!();
    if args.keep {
        let address = server.address();
        let pid = server.release();
        show!(
            "The server goes on, on port {}, with its data in {}.",
            address.port(),
            interrupt::keep(dir).display()
        );
        show!("  redis-cli -p {} hgetall user:000000000042", address.port());
        show!("  kill {pid}                                  ends it cleanly");
        return Ok(());
    }
    server.stop()?;
    show!("What next:");
    show!("  tarn demo --keep                 leaves the server running, to look around with redis-cli");
    show!("  tarn serve --dir DIR             your own server, on port 6379");
    show!("  tarn lab run durability --quick  more kills, more data types, a stricter judge");
    show!("  tarn lab run throughput --quick  side by side with redis-server, if it is installed");
    Ok(())
}
