#!/bin/sh
# The page of `hpsearch report` in what it is made for: its filter in Node, and its pages in headless
# Chromium at 390 and 1,440 pixels, light and dark, with pictures.
#
#     sh tests/peers/report.sh target/debug/hpsearch STORE STUDY PICTURES
#
# Needs node, chromium and Python without packages; AXE as for tests/peers/page.py.
set -eu
here=$(dirname "$0")
node "$here/report_filter.js"
[ $# -eq 4 ] || exit 0
file=$(mktemp -d)/report.html
"$1" report "$3" --store "$2" -o "$file" -q
python3 "$here/report_walk.py" "$file" "$4"
rm -r "$(dirname "$file")"
