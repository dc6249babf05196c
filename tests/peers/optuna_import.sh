#!/usr/bin/env bash
# Imports random studies of Optuna and compares them with what Optuna reads in the store afterwards. Needs python3 and the package
# index; run by hand: tests/peers/optuna_import.sh [STUDIES]
# HPSEARCH=path/to/hpsearch (default: target/release/hpsearch), PEER_VENV=DIR keeps the virtual environment there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import optuna' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check optuna==5.0.0
cd "$work"
"$venv/bin/python" "$here/optuna_import.py" make optuna.db "${1:-100}"
for _ in 1 2; do
    "$hpsearch" --store hpsearch.db import optuna.db 2>&1 | tail -n 1
    "$venv/bin/python" "$here/optuna_import.py" check optuna.db hpsearch.db
done
for study in s0 s1 s2; do "$hpsearch" --store hpsearch.db verify "$study"; done
