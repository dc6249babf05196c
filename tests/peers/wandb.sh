#!/usr/bin/env bash
# Writes a study for Weights & Biases and reads it back with its own reader, value by value. Needs python3 and the package index;
# run by hand: tests/peers/wandb.sh
# HPSEARCH=path/to/hpsearch (default: target/release/hpsearch), PEER_VENV=DIR keeps the virtual environment there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import wandb' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check wandb
cd "$work"
source "$here/logged_study.sh"
"$hpsearch" run study.toml --plain -q
"$hpsearch" sync logged --to wandb:again
"$hpsearch" export-data logged --series --format jsonl > series.jsonl
"$hpsearch" trials logged --json > trials.json
for directory in live-wandb again; do
    "$venv/bin/python" "$here/wandb_check.py" "$directory/logged"
done
# What `wandb sync` uploads, to a server of ours.
port=18099
python3 "$here/wandb_server.py" "$port" uploaded.jsonl &
server=$!
trap 'kill "$server"; rm -rf "$work"' EXIT
sleep 1
WANDB_BASE_URL="http://127.0.0.1:$port" WANDB_API_KEY="local-$(printf 'a%.0s' {1..40})" \
    "$venv/bin/wandb" sync again/logged/offline-run-* 2>&1 | grep -c 'Finished syncing'
"$venv/bin/python" "$here/wandb_check.py" --uploaded uploaded.jsonl
