//! The costs of decoding and encoding, in nanoseconds an operation, on one thread and in the cache.
//!
//! `cargo bench -p tarn-resp` measures; `cargo test -p tarn-resp` runs each once, so that they keep working.
//! The server's whole budget for a pipelined command is about 100 ns. `-- SET` measures only the benchmarks
//! with `SET` in their names.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tarn_resp::{FrameDecoder, Limits, Protocol, ReplySkimmer, RequestDecoder, Writer, encode_command};

/// Commands or replies in the buffer that is worked through again and again.
const BATCH: usize = 64;

/// Times that the buffer is decoded between two readings of the clock, and the length of the measurement.
const RUNS_A_SAMPLE: usize = 20;
const MEASUREMENT: Duration = Duration::from_millis(400);

fn main() {
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let value = vec![b'v'; 64];
    let key = b"key:000000012345";

    decode("decode SET, 64 B", measuring, &batch(|_, out| encode_command(out, [b"SET", &key[..], &value])));
    decode("decode GET", measuring, &batch(|_, out| encode_command(out, [b"GET", &key[..]])));
    decode(
        "decode MSET of 10 keys",
        measuring,
        &batch(|_, out| {
            let args = (0..21).map(|index| if index % 2 == 1 { &key[..] } else { &value });
            encode_command(out, args);
        }),
    );
    decode(
        "decode SET, 20 kB",
        measuring,
        &batch(|_, out| encode_command(out, [b"SET", &key[..], &[b'v'; 20_000]])),
    );
    decode(
        "decode inline GET",
        measuring,
        &batch(|_, out| out.extend_from_slice(b"GET key:000000012345\r\n")),
    );

    encode("encode bulk, 64 B", measuring, |writer, _| writer.bulk(&value));
    encode("encode integer, small", measuring, |writer, index| writer.integer(index as i64));
    encode("encode integer, large", measuring, |writer, index| writer.integer(-1_234_567_890 - index as i64));
    encode("encode OK", measuring, |writer, _| writer.ok());
    encode("encode double, whole", measuring, |writer, index| writer.double(index as f64));
    encode("encode double, fraction", measuring, |writer, index| writer.double(index as f64 / 10.0 + 0.05));

    let values = batch(|_, out| Writer::new(out, Protocol::Resp2).bulk(&value));
    let integers = batch(|index, out| Writer::new(out, Protocol::Resp2).integer(index as i64 * 1000));
    for (name, replies) in [("bulks, 64 B", values), ("integers", integers)] {
        let mut skimmer = ReplySkimmer::new();
        measure(&format!("skim {name}"), measuring, || {
            let skimmed = skimmer.skim(black_box(&replies)).expect("these replies are valid");
            assert_eq!(skimmed.replies, BATCH as u64);
        });
        let mut decoder = FrameDecoder::default();
        measure(&format!("decode frames: {name}"), measuring, || {
            let mut pos = 0;
            while let Some(frame) = decoder.decode(black_box(&replies), &mut pos).expect("these are valid") {
                black_box(frame);
            }
        });
    }
}

fn batch(mut encode: impl FnMut(usize, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    (0..BATCH).for_each(|index| encode(index, &mut bytes));
    bytes
}

fn decode(name: &str, measuring: bool, requests: &[u8]) {
    let mut decoder = RequestDecoder::new(Limits::default());
    measure(name, measuring, || {
        let (mut pos, mut decoded, mut bytes) = (0, 0, 0);
        let requests = black_box(requests);
        while let Some(args) = decoder.decode(requests, &mut pos).expect("these requests are valid") {
            decoded += 1;
            bytes += args[args.len() - 1].len();
        }
        black_box(bytes);
        assert_eq!(decoded, BATCH);
    });
}

fn encode(name: &str, measuring: bool, mut reply: impl FnMut(&mut Writer<'_>, usize)) {
    let mut out = Vec::new();
    measure(name, measuring, || {
        out.clear();
        let mut writer = Writer::new(&mut out, Protocol::Resp2);
        (0..BATCH).for_each(|index| reply(&mut writer, black_box(index)));
        black_box(&out);
    });
}

/// Prints the nanoseconds of one of the `BATCH` operations that `run` does.
fn measure(name: &str, measuring: bool, mut run: impl FnMut()) {
    let chosen = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    if chosen.is_some_and(|chosen| !name.contains(&chosen)) {
        return;
    }
    run();
    if !measuring {
        return;
    }
    // Many short samples, of which the best one counts: the others were interrupted.
    let (begin, mut best_ns) = (Instant::now(), f64::INFINITY);
    while begin.elapsed() < MEASUREMENT {
        let sample = Instant::now();
        (0..RUNS_A_SAMPLE).for_each(|_| run());
        best_ns = best_ns.min(sample.elapsed().as_nanos() as f64 / (RUNS_A_SAMPLE * BATCH) as f64);
    }
    println!("{name:32} {best_ns:8.1} ns");
}
