#!/usr/bin/env bash
# Sends a study to a real server of MLflow while one of the two is killed again and again, and compares them value by value. Needs
# python3 and the package index; run by hand: tests/peers/mlflow.sh [KILLS]
# HPSEARCH=path/to/hpsearch, built with --features mlflow (default: target/release/hpsearch), PEER_VENV=DIR keeps the environment.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
kills=${1:-50}
work=$(mktemp -d)
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import mlflow' 2>/dev/null || "$venv/bin/pip" install --quiet --disable-pip-version-check mlflow
cd "$work"
port=18098
serve() {
    setsid "$venv/bin/mlflow" server --backend-store-uri sqlite:///server.db --host 127.0.0.1 --port $port --workers 1 >server.log 2>&1 &
    server=$!
    for _ in $(seq 120); do
        curl --silent --output /dev/null "http://127.0.0.1:$port/health" && return
        sleep 0.5
    done
    echo "the server does not start" >&2
    exit 1
}
trap 'kill -9 -- -$server 2>/dev/null; rm -rf "$work"' EXIT
source "$here/logged_study.sh"
sed -i 's/^to = .*/to = []/' study.toml
"$hpsearch" run study.toml --plain -q
serve
for kill in $(seq "$kills"); do
    "$hpsearch" sync logged --to "mlflow:http://127.0.0.1:$port" >sync.log 2>&1 &
    sync=$!
    sleep "$((RANDOM % 3)).$((RANDOM % 10))"
    if ((kill % 10 == 0)); then
        kill -9 -- -$server
        wait $sync || true
        serve
    else
        kill -9 $sync 2>/dev/null || true
        wait $sync 2>/dev/null || true
    fi
done
"$hpsearch" sync logged --to "mlflow:http://127.0.0.1:$port"
"$hpsearch" export-data logged --series --format jsonl >series.jsonl
"$hpsearch" trials logged --json >trials.json
"$venv/bin/python" "$here/mlflow_check.py" "http://127.0.0.1:$port" logged
"$hpsearch" sync logged --to "mlflow:http://127.0.0.1:$port"
