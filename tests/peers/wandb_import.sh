#!/usr/bin/env bash
# Imports random runs of W&B's own client and compares them with what was logged; then writes them as W&B runs and imports those.
# Needs python3 and the package index; run by hand: tests/peers/wandb_import.sh [RUNS]
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
"$venv/bin/python" "$here/wandb_import.py" make "${1:-100}"
data() {
    "$hpsearch" export-data "$1" --series --format jsonl >"$1.jsonl"
    "$hpsearch" trials "$1" --sort number --json >"$1.json"
}
for _ in 1 2; do
    "$hpsearch" import wandb --study in 2>&1 | tail -n 1
    data in
    "$venv/bin/python" "$here/wandb_import.py" check in.json in.jsonl
done
"$hpsearch" sync in --to wandb:again 2>&1 | tail -n 1
"$hpsearch" import again --study out 2>&1 | tail -n 1
data out
"$venv/bin/python" "$here/wandb_import.py" same in.jsonl out.jsonl
