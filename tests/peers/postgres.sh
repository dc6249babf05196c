#!/usr/bin/env bash
# Stores in a real PostgreSQL server: the conformance suite; writers that are stopped and continued past the end of their lease while
# connections are cut and the server is killed and restarted; then the program: studies in parallel, fail-over, kills of the server,
# copies, the page. Needs PostgreSQL 13 or later (apt-get install postgresql) and python3; as root it runs the server as user `postgres`.
# Run by hand: tests/peers/postgres.sh [ROUNDS]; with 0 rounds only what the program does.
# HPSEARCH=path/to/hpsearch, built with --features postgres (default: target/debug/hpsearch); FEATURES for `cargo test`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hpsearch=$(realpath "${HPSEARCH:-$here/../../target/debug/hpsearch}")
rounds=${1:-1000}
bin=${PGBIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)}
work=$(mktemp -d)
chmod 755 "$work"
port=${PGTESTPORT:-15432}
as_server() { if [[ $(id -u) == 0 ]]; then runuser -u postgres -- "$@"; else "$@"; fi; }
mkdir "$work/server"
[[ $(id -u) != 0 ]] || chown postgres "$work/server"
cd "$work"
as_server "$bin/initdb" -D "$work/server/data" -A trust -U postgres -E UTF8 --locale=C --no-sync >/dev/null
pg() { as_server "$bin/pg_ctl" -D "$work/server/data" -w -l "$work/server/log" "$@" >/dev/null; }
options="-k $work/server -c listen_addresses=127.0.0.1 -p $port -c fsync=off -c max_connections=200 -c timezone=Asia/Kathmandu"
pg -o "$options" start
trap 'pg -m immediate stop; rm -rf "$work"' EXIT
url=postgres://postgres@127.0.0.1:$port/postgres
sql() { "$bin/psql" -X -q -At -h 127.0.0.1 -p "$port" -U postgres "$@"; }
say() { printf '\n== %s\n' "$*"; }

suite() {
    (cd "$here/../.." && HPSEARCH_TEST_POSTGRES=$url cargo test --no-default-features --features \
        "${FEATURES:-postgres}" --lib -- "$@" --ignored --nocapture 2>&1 | grep -E "^test |rounds|panicked|test result: (F|ok. [1-9])")
}
restart="$work/restart"
{
    echo '#!/bin/sh'
    echo "exec 2>/dev/null >/dev/null"
    declare -f as_server | sed '1s/.*/as_server()/' | sed 's/\[\[ \$(id -u) == 0 \]\]/[ "$(id -u)" = 0 ]/'
    echo "as_server '$bin/pg_ctl' -D '$work/server/data' -w -m immediate stop"
    echo "as_server '$bin/pg_ctl' -D '$work/server/data' -w -l '$work/server/log' -o \"$options\" start"
} >"$restart"
if ((rounds > 0)); then
say "the conformance suite"
suite storage::postgres --skip chaos
say "$rounds rounds of stop and continue, with a lease of 1 s, while connections are cut"
HPSEARCH_TEST_ROUNDS=$rounds suite chaos::writers
say "the same while the server is killed and started again"
HPSEARCH_TEST_RESTART="sh $restart" HPSEARCH_TEST_ROUNDS=$((rounds / 5)) suite chaos::writers
fi

export HPSEARCH_STORE=$url
study() {
    mkdir -p "$work/$1"
    cat >"$work/$1/study.toml" <<TOML
[study]
name = "$1"
metric = "loss"
direction = "minimize"
step = "step"
[budget]
trials = $2
[space]
x = { float = [-5.0, 5.0] }
mode = ["a", "b"]
[command]
run = ["sh", "trial.sh", "{x}"]
[devices]
trials_per_device = 2
[pruner]
type = "asha"
min_resource = 1
max_resource = 4
TOML
    cat >"$work/$1/trial.sh" <<'SH'
for step in 1 2 3 4; do
    sleep "${PAUSE:-0.05}"
    echo "@hpsearch {\"step\": $step, \"loss\": $(echo "$1" | awk -v s=$step '{ print ($1 - 1) ^ 2 + 1 / s }'), \"speed\": NaN}"
    read -r answer
    case $answer in *stop* | *pause*) exit 0 ;; esac
done
SH
}
run() { (cd "$work/$1" && "$hpsearch" run study.toml --plain -q "${@:2}"); }

say "10 studies in parallel"
for n in $(seq 10); do study "p$n" 12; done
pids=()
for n in $(seq 10); do run "p$n" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid"; done
"$hpsearch" ls
for n in $(seq 10); do "$hpsearch" verify "p$n" -q; done
echo "10 studies verified"

say "the verbs"
"$hpsearch" trials p1 | head -4
"$hpsearch" best p1 | head -3
"$hpsearch" show p1 0 | head -5
"$hpsearch" events p1 | head -3
"$hpsearch" trials p1 --where 'x > 0' --sort x | head -3
"$hpsearch" importance p1 | head -3
"$hpsearch" curves p1 0 >/dev/null
"$hpsearch" note p1 -m 'a note' && "$hpsearch" tag p1 +kept && "$hpsearch" ls | grep -c kept >/dev/null || true
"$hpsearch" plot history p1 -o "$work/history.svg"
"$hpsearch" report p1 -o "$work/report.html"
"$hpsearch" export-data p1 | head -2
(cd "$work" && "$hpsearch" track --study tracked -- sh -c 'echo "@hpsearch {\"step\":1,\"loss\":0.5}"' && "$hpsearch" trials tracked)

say "the page"
"$hpsearch" serve --listen 127.0.0.1:15480 >"$work/serve.log" 2>&1 & page=$!
for _ in $(seq 50); do grep -q http "$work/serve.log" && break; sleep 0.1; done
python3 - "$(grep -o 'http[^ ]*' "$work/serve.log" | head -1)" <<'PY'
import http.cookiejar, json, sys, urllib.request
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
opener.open(sys.argv[1]).read()
base = sys.argv[1].split("/?")[0].split("?")[0].rstrip("/")
for path in ("/api/studies", "/api/trials?study=p1"):
    answer = opener.open(base + path)
    print(path, answer.status, len(answer.read()), "bytes")
PY
kill $page

say "fail-over: the holder is stopped, another process takes over; then the first one continues"
study failover 400
(cd "$work/failover" && exec env PAUSE=0.2 setsid "$hpsearch" run study.toml --plain >"$work/first.log" 2>&1) & sleep 4
first=$(sql -c "SELECT pid FROM lease l JOIN study s ON s.id = l.study_id WHERE s.name = 'failover'")
kill -STOP "$first"
began=$(date +%s.%N)
(cd "$work/failover" && exec env PAUSE=0.2 setsid "$hpsearch" run study.toml --plain >"$work/second.log" 2>&1) &
until [[ $(sql -c "SELECT coalesce(pid, $first) FROM lease l JOIN study s ON s.id = l.study_id WHERE s.name = 'failover'") != "$first" ]]; do sleep 0.1; done
awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "taken over after %.1f s\n", b - a; exit !(b - a < 15) }'
sleep 2
before=$(sql -c "SELECT count(*) FROM event e JOIN study s ON s.id = e.study_id WHERE s.name = 'failover'")
kill -CONT "$first"
for _ in $(seq 100); do kill -0 "$first" 2>/dev/null || break; sleep 0.2; done
tail -2 "$work/first.log"
"$hpsearch" stop failover
wait || true
sql -c "SELECT count(*) FILTER (WHERE type = 'runner_started') AS runners, count(*) - $before AS events_after FROM event e JOIN study s ON s.id = e.study_id WHERE s.name = 'failover'"
"$hpsearch" verify failover

say "the server is killed during runs"
study killed 60
(cd "$work/killed" && PAUSE=0.1 "$hpsearch" run study.toml --plain -q) & pid=$!
for _ in 1 2 3; do sleep 2; sh "$restart"; done
wait $pid || echo "the run ended with exit code $?"
run killed
"$hpsearch" verify killed

say "Optuna"
venv=${PEER_VENV:-$work/venv}
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import optuna, pandas, psycopg2' 2>/dev/null ||
    "$venv/bin/pip" install --quiet --disable-pip-version-check optuna==5.0.0 pandas psycopg2-binary
sql -c "CREATE DATABASE optuna"
optuna=postgres://postgres@127.0.0.1:$port/optuna
(cd "$work/p1" && "$hpsearch" --store "$optuna" run study.toml --plain -q --set budget.trials=30)
"$hpsearch" --store "$optuna" trials p1 --json --sort number >"$work/trials.json"
"$hpsearch" --store "$optuna" best p1 --json >"$work/best.json"
"$venv/bin/python" "$here/optuna_check.py" "$optuna" p1 "$work/trials.json" "$work/best.json"

say "copies there and back"
"$hpsearch" copy p1 failover tracked --to "$work/copy.db"
"$hpsearch" --store "$work/copy.db" verify p1
"$hpsearch" --store "$work/copy.db" ls
sql -c "CREATE SCHEMA second"
"$hpsearch" --store "$work/copy.db" copy p1 tracked --to "$url?options=-csearch_path%3Dsecond"
diff <("$hpsearch" export-data p1 --format jsonl) <("$hpsearch" --store "$url?options=-csearch_path%3Dsecond" export-data p1 --format jsonl) && echo "the same table"

say "passwords stay out of messages and of the store"
sql -c "CREATE USER secretive PASSWORD 'hunter2' SUPERUSER"
(cd "$work/p1" && "$hpsearch" --store "postgres://secretive:hunter2@127.0.0.1:$port/postgres" run study.toml --plain --set budget.trials=14 >"$work/password.log" 2>&1 || true)
"$hpsearch" --store "postgres://secretive:hunter2@127.0.0.1:1/postgres" ls >>"$work/password.log" 2>&1 || true
"$bin/pg_dump" -h 127.0.0.1 -p "$port" -U postgres postgres >"$work/dump.sql"
for secret in 'hunter2/x' 'hunter2?x' 'hunter2#x' 'x:hunter2 @x'; do
    if (cd "$work/p1" && "$hpsearch" --store "postgres://secretive:$secret@127.0.0.1:$port/postgres" run study.toml --plain) >>"$work/password.log" 2>&1
    then echo "an address with a raw $secret is accepted"; exit 1; fi
done
! grep -r hunter2 "$work/password.log" "$work/dump.sql" "$work"/*/runs && echo "nowhere"
say "a reader and a writer are told what they need, and then have it"
sql -c "CREATE USER reader" -c "CREATE USER writer" -c "REVOKE CREATE ON SCHEMA public FROM public"
as_user() { "$hpsearch" --store "postgres://$1@127.0.0.1:$port/postgres" "${@:2}"; }
! as_user reader ls 2>"$work/grants.log" && grep -c 'GRANT SELECT ON ALL TABLES' "$work/grants.log"
sql -c "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"
as_user reader ls | head -2 && as_user reader trials p1 >/dev/null && as_user reader verify p1 -q
! as_user reader note p1 -m no 2>>"$work/grants.log"
sql -c "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer"
sql -c "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO writer"
study shared 4
(cd "$work/shared" && as_user writer run study.toml --plain -q) && as_user writer verify shared -q && as_user writer rm shared --yes

say "trials of a killed runner are interrupted, also after the end of its lease"
study lost 2
(cd "$work/lost" && exec env PAUSE=60 setsid "$hpsearch" run study.toml --plain >"$work/lost.log" 2>&1) &
until [[ $("$hpsearch" trials lost --where state:running --json 2>/dev/null) == *'"running"'* ]]; do sleep 0.2; done
kill -9 "$(sql -c "SELECT pid FROM lease l JOIN study s ON s.id = l.study_id WHERE s.name = 'lost'")"
until [[ $(sql -c "SELECT expires_at < clock_timestamp() FROM lease l JOIN study s ON s.id = l.study_id WHERE s.name = 'lost'") == t ]]; do sleep 0.2; done
"$hpsearch" ls | grep '^lost .*interrupted' && "$hpsearch" trials lost | grep -c interrupted
say "done"
