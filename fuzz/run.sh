#!/usr/bin/env bash
# usage: fuzz/run.sh TARGET [SECONDS [SEED]]
# Builds a fuzz target, instrumented, and runs it: on what is in fuzz/seeds/TARGET and fuzz/corpus/TARGET and on what it
# finds. Exits with an error, and leaves the input in fuzz/artifacts/TARGET, at the first panic. The same SEED tries the
# same inputs again, as far as the corpus is the same; 0, the default, draws one.
set -eu
target=$1 seconds=${2:-60} seed=${3:-0}
cd "$(dirname "$0")"
mkdir -p "corpus/$target" "artifacts/$target" "seeds/$target"
cargo run --quiet --release --bin "$target" -- \
    -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
    -print_final_stats=1 -verbosity=0 -reload=0 -artifact_prefix="artifacts/$target/" "corpus/$target" "seeds/$target"
