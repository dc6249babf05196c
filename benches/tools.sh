#!/bin/sh
# How long runs of other tools take: 1,000 runs of 1,000 points to TensorBoard, and a W&B run of a million rows, out and in.
#
#   benches/tools.sh [ROUNDS]        HPSEARCH=path/to/hpsearch (default: target/release/hpsearch)
#
# POSIX sh, awk and a date that knows %N. Both studies come from tables that awk writes; the quickest and the slowest of the rounds are
# printed, each round into a directory or store that is new.
set -eu
cd "$(dirname "$0")/.."
hpsearch=$(realpath "${HPSEARCH:-target/release/hpsearch}")
rounds=${1:-5}
[ -x "$hpsearch" ] || { echo "there is no program at \`$hpsearch\`: cargo build --release, or set HPSEARCH" >&2; exit 2; }

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
cd "$directory"
now() { date +%s%N; }
# Runs the words so often, after removing what they make; the seconds that they took.
rounds_of() {
    name=$1 made=$2
    shift 2
    i=0
    while [ $i -lt "$rounds" ]; do
        rm -rf "$made"
        began=$(now); "$@" 2>/dev/null; ended=$(now)
        echo "$began $ended"; i=$((i + 1))
    done | awk '{ printf "%.2f\n", ($2 - $1) / 1e9 }' | sort -n |
        awk -v name="$name" '{ value[NR] = $1 } END { printf "%-46s %s to %s s\n", name, value[1], value[NR] }'
}

awk 'BEGIN { print "run,step,loss"; for (run = 0; run < 1000; run++) for (step = 1; step <= 1000; step++)
    printf "r%d,%d,%.6f\n", run, step, 1 / step + run / 1000 }' >many.csv
awk 'BEGIN { print "run,step,loss"; for (step = 1; step <= 1000000; step++) printf "long,%d,%.6f\n", step, 1 / step }' >long.csv
for study in many long; do
    "$hpsearch" import $study.csv --metric loss --step step --run run 2>/dev/null
done
"$hpsearch" sync long --to wandb:w 2>/dev/null
rounds_of "1,000 runs of 1,000 points to TensorBoard" tb "$hpsearch" sync many --to tensorboard:tb
rounds_of "a run of a million points to W&B" w2 "$hpsearch" sync long --to wandb:w2
rounds_of "a W&B run of a million rows imported" in "$hpsearch" import w --study in --store in/hpsearch.db
