#!/usr/bin/env bash
# Sends two studies to a real server of MLflow while one of the two is killed again and again, compares them value by value, imports
# them and compares again. Needs python3 and the package index; run by hand: tests/peers/mlflow.sh [KILLS OF EACH]
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
url=http://127.0.0.1:$port
serve() {
    setsid "$venv/bin/mlflow" server --backend-store-uri sqlite:///server.db --host 127.0.0.1 --port $port --workers 1 >server.log 2>&1 &
    server=$!
    for _ in $(seq 120); do
        curl --silent --output /dev/null "$url/health" && return
        sleep 0.5
    done
    echo "the server does not start" >&2
    exit 1
}
trap 'kill -9 -- -$server 2>/dev/null; rm -rf "$work"' EXIT
source "$here/logged_study.sh"
sed -i 's/^to = .*/to = []/' study.toml
"$hpsearch" run study.toml --plain -q
# Tracked runs with names, groups, parents, notes, tags, and names that the server refuses.
cat >logs.sh <<'SH'
for step in 1 2 3; do echo "@hpsearch {\"step\":$step,\"recall@5\":0.$step,\"recall#5\":$step,\"speed\":NaN}"; done
echo '@hpsearch {"epoch":2,"speed":Infinity}'
exit "$1"
SH
track() { "$hpsearch" track --study named --system off "${@:2}" -- sh logs.sh "$1" >track.log 2>&1 || true; }
track 0 --name "läuft ä/b" --group g --tag odd --tag other --note $'two\nlines' --param 'a@b=1' --param 'a#b=2' --param size=1.0
track 3 --parent 0 --param 'text="12"' --param none=null --param 'long=[1, 2.5, "z"]'
for trial in 0 3 5; do "$hpsearch" note logged $trial -m "note of $trial" && "$hpsearch" tag logged $trial +kept "+t$trial"; done 2>notes.log
data() {
    "$hpsearch" export-data "$1" --series --format jsonl >"$1.series.jsonl"
    "$hpsearch" export-data "$1" --format jsonl >"$1.trials.jsonl"
}
send() {
    "$hpsearch" sync logged --to "mlflow:$url"
    "$hpsearch" sync named --to "mlflow:$url"
}
check() {
    for study in logged named; do "$venv/bin/python" "$here/mlflow_check.py" server $url $study; done
}
data logged
data named
serve
# Only kills that hit a sync at work count; once all is sent, it is compared, and a new server begins.
killed=0 killed_server=0 rounds=0
while ((killed < each || killed_server < each)); do
    "$hpsearch" sync --all --to "mlflow:$url" >sync.log 2>&1 &
    sync=$!
    sleep "$((RANDOM % 2)).$((RANDOM % 10))"
    if ! kill -0 $sync 2>/dev/null; then
        wait $sync || { cat sync.log >&2; exit 1; }
        check
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
send
check
# What is said later arrives, too.
"$hpsearch" note named 1 -m "later"
"$hpsearch" tag named 0 +late -odd
data named
send
check
for study in logged named; do
    for _ in 1 2; do "$hpsearch" import "mlflow:$url" --experiment $study --study "$study-back"; done
    data "$study-back"
    "$venv/bin/python" "$here/mlflow_check.py" same $study "$study-back"
done
echo "$killed kills of hpsearch and $killed_server of the server while something was sent; $((rounds + 1)) servers compared"
