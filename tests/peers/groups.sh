#!/bin/sh
# Trains networks of real programs on four processes, under torchrun, accelerate (FSDP), deepspeed and one process a device,
# also over two agents (per_device-nodes, torchrun-nodes),
# on the CPU; kills processes at random, and compares the results with those of undisturbed studies.
#
#   tests/peers/groups.sh [LAUNCHER..]     HPSEARCH=path/to/hpsearch (default: target/release/hpsearch)
#
# Needs Python 3, a C++ compiler and the package index (5 GB: torch). Everything it makes is in a temporary directory, removed at the end.
# PEER_VENV=DIR keeps the virtual environment there, for the next time.
set -eu
cd "$(dirname "$0")/../.."
hpsearch=${HPSEARCH:-target/release/hpsearch}
[ -x "$hpsearch" ] || { echo "there is no program at \`$hpsearch\`: cargo build --release, or set HPSEARCH" >&2; exit 2; }
hpsearch=$(cd "$(dirname "$hpsearch")" && pwd)/$(basename "$hpsearch")

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 130' INT TERM
venv=${PEER_VENV:-$directory/venv}
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import torch, accelerate, deepspeed, ninja' 2>/dev/null ||
    "$venv/bin/pip" install --quiet --disable-pip-version-check torch accelerate deepspeed ninja

"$venv/bin/python" tests/peers/groups_check.py "$hpsearch" "$@"
