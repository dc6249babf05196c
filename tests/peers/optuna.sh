#!/bin/sh
# Runs command studies to their ends, opens the store with Optuna 5 and compares every trial with `hpsearch trials --json`, and the best ones:
# one of one objective, one of two with a pruner, and one of each with a limit, NaN, a hidden trial that was the best, and ranges that
# their steps do not reach.
#
#   tests/peers/optuna.sh [TRIALS]        HPSEARCH=path/to/hpsearch (default: target/release/hpsearch)
#
# Needs Python 3 and the package index. Everything it makes is in a temporary directory, removed at the end.
# PEER_VENV=DIR keeps the virtual environment there, for the next time.
set -eu
cd "$(dirname "$0")/../.."
hpsearch=${HPSEARCH:-target/release/hpsearch}
trials=${1:-30}
[ -x "$hpsearch" ] || { echo "there is no program at \`$hpsearch\`: cargo build --release, or set HPSEARCH" >&2; exit 2; }

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
venv=${PEER_VENV:-$directory/venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import optuna, pandas' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check optuna==5.0.0 pandas

store=$directory/hpsearch.db
"$hpsearch" run studies/command.toml --plain --store "$store" --set "budget.trials=$trials" --set study.name=peers >"$directory/run.log" 2>&1 || {
    cat "$directory/run.log" >&2
    exit 1
}
cat >"$directory/front.py" <<'PY'
import sys

x, y = float(sys.argv[1]), int(sys.argv[2])
for step in range(1, 10):
    print(f'@hpsearch {{"step": {step}, "error": {(x - 0.3) ** 2 + 1 / (step * y)}, "size": {y * (1 + x)}}}', flush=True)
PY
cat >"$directory/front.toml" <<TOML
[study]
name = "front"
[[study.objective]]
metric = "error"
direction = "minimize"
[[study.objective]]
metric = "size"
direction = "maximize"
[budget]
trials = $trials
[space]
x = { float = [0.0, 1.0] }
y = { int = [1, 8] }
[command]
run = ["python3", "front.py", "{x}", "{y}"]
[pruner]
type = "asha"
min_resource = 3
max_resource = 9
TOML
"$hpsearch" run "$directory/front.toml" --plain --store "$store" >"$directory/run.log" 2>&1 || {
    cat "$directory/run.log" >&2
    exit 1
}
cat >"$directory/limits.py" <<'PY'
import os, sys

number, size = int(os.environ["HPSEARCH_TRIAL"]), int(sys.argv[2])
loss = "NaN" if number % 5 == 1 else (float(sys.argv[1]) - 0.3) ** 2 + size / 1000
print(f'@hpsearch {{"step": 1, "loss": {loss}, "value": {loss}, "time": {100 - size}, "size": {size}}}', flush=True)
PY
for objectives in value loss time; do
    case $objectives in
        time) metrics='[[study.objective]]
metric = "loss"
direction = "minimize"
[[study.objective]]
metric = "time"
direction = "minimize"' ;;
        *) metrics="metric = \"$objectives\"
direction = \"minimize\"" ;;
    esac
    cat >"$directory/limits.toml" <<TOML
[study]
name = "limits-$objectives"
$metrics
[budget]
trials = $trials
[space]
x = { float = [0.0, 1.0], step = 0.3 }
size = { int = [1, 60], step = 7 }
[[constraint]]
limit = "size >= 20"
[command]
run = ["python3", "limits.py", "{x}", "{size}"]
[sampler]
type = "random"
[pruner]
type = "none"
TOML
    "$hpsearch" run "$directory/limits.toml" --plain --store "$store" >"$directory/run.log" 2>&1 || {
        cat "$directory/run.log" >&2
        exit 1
    }
    best=$("$hpsearch" best "limits-$objectives" --json --store "$store" | "$venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["trial"]["number"])')
    "$hpsearch" rm "limits-$objectives" "$best" --yes --store "$store" >"$directory/run.log" 2>&1 || {
        cat "$directory/run.log" >&2
        exit 1
    }
done
for study in peers front limits-value limits-loss limits-time; do
    "$hpsearch" trials "$study" --json --sort number --store "$store" >"$directory/trials.json"
    "$hpsearch" best "$study" --json --store "$store" >"$directory/best.json"
    "$venv/bin/python" -W error::UserWarning tests/peers/optuna_check.py "$store" "$study" "$directory/trials.json" "$directory/best.json"
done
