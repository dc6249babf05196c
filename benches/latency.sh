#!/bin/sh
# How long the program takes to say its version, and from `run` to the first training step on cached data.
#
#   benches/latency.sh [ROUNDS]        HPSEARCH=path/to/hpsearch (default: target/release/hpsearch)
#
# POSIX sh, awk, grep and a date that knows %N. Medians; each round of the second has a store and a study of its own and finds the data
# prepared by a run before: the cache lies in `[checkpoints] dir`, which they share.
set -eu
cd "$(dirname "$0")/.."
hpsearch=${HPSEARCH:-target/release/hpsearch}
rounds=${1:-7}
[ -x "$hpsearch" ] || { echo "there is no program at \`$hpsearch\`: cargo build --release, or set HPSEARCH" >&2; exit 2; }

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
now() { date +%s%N; }
# Milliseconds on stdin: their median, least and greatest.
median() {
    sort -n | awk '{ value[NR] = $1 } END { middle = NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2
        printf "%.1f ms (median of %d, from %.1f to %.1f)\n", middle, NR, value[1], value[NR] }'
}

# What taking the time costs by itself: two dates and the start of a program.
i=0
while [ $i -lt 20 ]; do
    began=$(now); /bin/true; ended=$(now)
    echo "$began $ended"; i=$((i + 1))
done | awk '{ printf "%.3f\n", ($2 - $1) / 1e6 }' | median | sed 's/^/nothing (\/bin\/true):       /'

i=0
while [ $i -lt 20 ]; do
    began=$(now); "$hpsearch" --version >/dev/null; ended=$(now)
    echo "$began $ended"; i=$((i + 1))
done | awk '{ printf "%.3f\n", ($2 - $1) / 1e6 }' | median | sed 's/^/hpsearch --version:       /'

# One trial of two training steps. The first is logged, and followed by an evaluation, a checkpoint and a report: it is
# the pruner's first rung.
run() {
    "$hpsearch" run studies/quickstart.toml --events --store "$directory/$1.db" --fork "$1" --set budget.trials=1 \
        --set trainer.max_steps=2 --set trainer.logging_steps=1 --set study.step=step \
        --set "checkpoints.dir=\"$directory/files\"" 2>"$directory/$1.err" || { cat "$directory/$1.err" >&2; exit 1; }
}

# The first run prepares the data, which every later one finds.
began=$(now); run prepare >"$directory/prepare.events"
echo "$began" | awk 'NR == FNR { began = $1 / 1e3; next } /"type":"reported"/ { match($0, /"at":[0-9]+/)
    printf "data not cached, run to first report: %.0f ms\n", (substr($0, RSTART + 5, RLENGTH - 5) - began) / 1e3; exit }' - "$directory/prepare.events"

i=0
: >"$directory/steps"; : >"$directory/reports"; : >"$directory/launches"
while [ $i -lt "$rounds" ]; do
    log=$directory/files/round-$i/trial-0/attempt-0.log
    began=$(now)
    run "round-$i" >"$directory/events" &
    # The log has no times: it is looked at until the first step is there. This costs some of the time it measures.
    until grep -q 'step 1/2 ' "$log" 2>/dev/null; do
        kill -0 $! 2>/dev/null || break
        sleep 0.005
    done
    stepped=$(now)
    wait $!
    echo "$began $stepped" | awk '{ printf "%.3f\n", ($2 - $1) / 1e6 }' >>"$directory/steps"
    # The journal has: when the trial was given to its worker, and when its report was taken.
    for what in attempt_started:launches reported:reports; do
        echo "$began" | awk -v type="\"type\":\"${what%:*}\"" 'NR == FNR { began = $1 / 1e3; next } index($0, type) { match($0, /"at":[0-9]+/)
            printf "%.3f\n", (substr($0, RSTART + 5, RLENGTH - 5) - began) / 1e3; exit }' - "$directory/events" >>"$directory/${what#*:}"
    done
    i=$((i + 1))
done
printf 'run to the first trial given to a worker: '; median <"$directory/launches"
printf 'run to the first training step in the log: '; median <"$directory/steps"
printf 'run to the first report (step, evaluation, checkpoint): '; median <"$directory/reports"
