#!/usr/bin/env bash
# Writes tables as Parquet and as JSON lines, and has pyarrow, polars and DuckDB read them: the values must be the same.
# Needs python3 and the package index; run by hand: tests/peers/parquet.sh
# HPSEARCH=path/to/hpsearch, built with --features parquet (default: target/release/hpsearch), PEER_VENV=DIR keeps the environment.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import pyarrow, polars, duckdb' 2>/dev/null ||
    "$venv/bin/pip" install --quiet --disable-pip-version-check pyarrow polars duckdb
cd "$work"
source "$here/logged_study.sh"
sed -i 's/^to = .*/to = []/' study.toml
"$hpsearch" run study.toml --plain -q
"$hpsearch" run study.toml --plain -q --fork other --set budget.trials=3
"$hpsearch" tag logged 1 +kept 2>/dev/null
for table in "trials logged" "series logged --series" "reports logged --reports" "all --all" "points --all --series"; do
    read -r name words <<<"$table"
    # shellcheck disable=SC2086
    "$hpsearch" export-data $words -o "$name.parquet" && "$hpsearch" export-data $words -o "$name.jsonl"
    "$venv/bin/python" "$here/parquet_check.py" "$name"
done 2>&1 | grep -v "written to"
