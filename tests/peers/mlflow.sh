#!/usr/bin/env bash
# Sends a study to a real server of MLflow while one of the two is killed again and again, and compares them value by value. Needs
# python3 and the package index; run by hand: tests/peers/mlflow.sh [KILLS OF EACH]
# HPSEARCH=path/to/hpsearch, built with --features mlflow (default: target/release/hpsearch), PEER_VENV=DIR keeps the environment.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/release/hpsearch}")
each=${1:-25}
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
"$hpsearch" export-data logged --series --format jsonl >series.jsonl
"$hpsearch" trials logged --json >trials.json
serve
# Only kills that hit a sync at work count; once all is sent, it is compared, and a new server begins.
killed=0 killed_server=0 rounds=0
while ((killed < each || killed_server < each)); do
    "$hpsearch" sync logged --to "mlflow:http://127.0.0.1:$port" >sync.log 2>&1 &
    sync=$!
    sleep "$((RANDOM % 2)).$((RANDOM % 10))"
    if ! kill -0 $sync 2>/dev/null; then
        wait $sync
        "$venv/bin/python" "$here/mlflow_check.py" "http://127.0.0.1:$port" logged
        rounds=$((rounds + 1))
        kill -9 -- -$server
        rm -f server.db*
        serve
    elif ((killed_server < each && killed_server <= killed)); then
        kill -9 -- -$server
        wait $sync || true
        killed_server=$((killed_server + 1))
        serve
    else
        kill -9 $sync
        wait $sync 2>/dev/null || true
        killed=$((killed + 1))
    fi
done
"$hpsearch" sync logged --to "mlflow:http://127.0.0.1:$port"
"$venv/bin/python" "$here/mlflow_check.py" "http://127.0.0.1:$port" logged
"$hpsearch" sync logged --to "mlflow:http://127.0.0.1:$port"
echo "$killed kills of hpsearch and $killed_server of the server while something was sent; $((rounds + 1)) servers compared"
