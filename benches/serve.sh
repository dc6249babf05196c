#!/bin/sh
# Time to the first byte, time in all, and bytes of what the page of `hpsearch serve` asks for, with
# tables of 1,000, 10,000 and, given `100000`, more runs: benches/serve.sh [RUNS]..
# HPSEARCH names the program; DIR keeps the store for a second call.
set -eu
program=${HPSEARCH:-target/release/hpsearch}
directory=${DIR:-$(mktemp -d)}
store=$directory/scale.db
[ $# -gt 0 ] || set -- 1000 10000

table() {
    awk -v runs="$1" 'BEGIN {
        srand(7); print "name,learning_rate,layers,optimizer,dropout,width,loss"
        for (run = 0; run < runs; run++)
            printf "run-%d,%.6g,%d,%s,%.3f,%d,%.6f\n", run, exp(log(1e-5) + rand() * log(1e4)),
                1 + int(rand() * 8), rand() < .5 ? "adamw" : "sgd", rand() * .5,
                32 * (1 + int(rand() * 16)), .1 + rand() }'
}

for runs; do
    [ -s "$directory/$runs.csv" ] || {
        table "$runs" > "$directory/$runs.csv"
        "$program" import "$directory/$runs.csv" --metric loss --study "big-$runs" --store "$store"
    }
done

# A directory that was kept has the address of the server before.
rm -f "$directory/served.txt"
"$program" serve --listen 127.0.0.1:0 --store "$store" > "$directory/served.txt" 2> /dev/null &
server=$!
trap 'kill $server' EXIT
until [ -s "$directory/served.txt" ]; do sleep .05; done
url=$(head -1 "$directory/served.txt")
curl -s -o /dev/null -c "$directory/jar" "$url"

for runs; do
    for part in '?' 'api/studies?' 'api/study?' 'api/trials?limit=100' \
        'api/trials?limit=100&sort=learning_rate' \
        'api/trials?limit=100&where=learning_rate%3C1e-3+optimizer%3Dadamw' \
        'api/trials?limit=10000&sort=number' 'api/trial?trial=5' 'api/curves?trial=5' \
        'api/figures?kind=history'; do
        printf '%-7s %-68s ' "$runs" "$part"
        curl -s -b "$directory/jar" -o /dev/null \
            -w '%{time_starttransfer} s  %{time_total} s  %{size_download} bytes\n' \
            "${url%%\?*}$part&study=big-$runs"
    done
done
