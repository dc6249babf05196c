"""Compares a directory of offline runs with the store's own words: python wandb_check.py DIR (see wandb.sh)."""

import collections
import glob
import json
import math
import os
import subprocess
import sys

root = sys.argv[1]
wandb = os.path.join(os.path.dirname(sys.executable), "wandb")
same = lambda one, other: one == other or (math.isnan(one) and math.isnan(other))

stored = collections.defaultdict(list)
for line in open("series.jsonl"):
    row = json.loads(line)
    if not row["metric"].startswith("system/"):
        stored[row["trial"], row["metric"], row["clock"]].append((float(row["step"]), float(row["value"])))
if root == "--uploaded":
    # Runs have other names there: all that was stored has to arrive, once.
    there = collections.Counter()
    for line in open(sys.argv[2]):
        row = json.loads(line).get("row", {})
        clock = next((clock for clock in ("step", "epoch", "samples", "seconds") if clock in row), None)
        for metric, value in row.items():
            if not metric.startswith(("_", "system/")) and metric != clock:
                there[metric, clock, float(row[clock]), str(float(value))] += 1
    expected = collections.Counter(
        (metric, clock, step, str(value)) for (_, metric, clock), points in stored.items() for step, value in points)
    assert there == expected, (list((expected - there).items())[:3], list((there - expected).items())[:3])
    print(f"`wandb sync` uploaded all {sum(expected.values())} points")
    sys.exit()
trials = {trial["number"]: trial for trial in json.load(open("trials.json"))["trials"]}
points, seen = 0, set()
for directory in glob.glob(f"{root}/offline-run-*"):
    text = subprocess.run([wandb, "leet", "inspect", "--json", directory], capture_output=True, text=True, check=True).stdout
    records = [json.loads(line) for line in text.splitlines()]
    run = next(record["run"] for record in records if record["type"] == "run")
    number = int(run["display_name"].removeprefix("trial-"))
    seen.add(number)
    assert run["config"]["update"] == trials[number]["params"], run
    there, last = collections.defaultdict(list), -1
    for record in records:
        if record["type"] != "history":
            continue
        item = record["history"]["item"]
        assert item["_step"] > last, (number, item)
        last = item["_step"]
        clock = next(clock for clock in ("step", "epoch", "samples", "seconds") if clock in item)
        for metric, value in item.items():
            if not metric.startswith(("_", "system/")) and metric != clock:
                there[number, metric, clock].append((float(item[clock]), float(value)))
    for key, expected in stored.items():
        if key[0] != number:
            continue
        assert len(there[key]) == len(expected), (key, len(there[key]), len(expected))
        for (step, value), (other, other_value) in zip(sorted(there[key], key=lambda point: point[0]), expected):
            assert step == other and same(value, other_value), (key, step, value, other_value)
        points += len(expected)
    code = next(record["exit"].get("exit_code", 0) for record in records if record["type"] == "exit")
    assert (code != 0) == (trials[number]["state"] == "failed"), (number, code)
assert seen == set(trials), (seen, set(trials))
print(f"{root}: {len(seen)} runs, {points} points and all parameters as they are in the store")
