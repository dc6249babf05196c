#!/bin/sh
# Runs a command study to its end, opens the store with Optuna 5 and compares every trial with `hpsearch trials --json`.
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
"$hpsearch" trials peers --json --sort number --store "$store" >"$directory/trials.json"
"$hpsearch" best peers --json --store "$store" >"$directory/best.json"
"$venv/bin/python" tests/peers/optuna_check.py "$store" peers "$directory/trials.json" "$directory/best.json"
