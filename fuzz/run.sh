#!/usr/bin/env bash
# usage: fuzz/run.sh TARGET [SECONDS]
# Builds a fuzz target, instrumented, and runs it: on what is in fuzz/seeds/TARGET and fuzz/corpus/TARGET and on what it
# finds. Exits with an error, and leaves the input in fuzz/artifacts/TARGET, at the first panic.
set -eu
target=$1 seconds=${2:-60}
cd "$(dirname "$0")"
mkdir -p "corpus/$target" "artifacts/$target" "seeds/$target"
cargo run --quiet --release --bin "$target" -- \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="artifacts/$target/" "corpus/$target" "seeds/$target"
