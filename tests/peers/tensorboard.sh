#!/usr/bin/env bash
# Writes a study for TensorBoard and reads it back with TensorBoard, value by value: its event files, and what the HParams tab
# shows. Needs python3 and the package index; run by hand: tests/peers/tensorboard.sh
# HPSEARCH=path/to/hpsearch (default: target/release/hpsearch), PEER_VENV=DIR keeps the virtual environment there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import tensorboard' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check tensorboard
cd "$work"
source "$here/logged_study.sh"
"$hpsearch" run study.toml --plain -q
"$hpsearch" sync logged --to tensorboard:again
"$hpsearch" export-data logged --series --format jsonl > series.jsonl
"$hpsearch" trials logged --json > trials.json
for directory in live again; do
    "$venv/bin/python" "$here/tensorboard_check.py" "$directory/logged"
done
