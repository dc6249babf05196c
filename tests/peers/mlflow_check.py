"""Compares an experiment of a server with the store's own words: mlflow_check.py URL STUDY (see mlflow.sh)."""
import collections
import json
import math
import sys

from mlflow import MlflowClient

client = MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name(sys.argv[2])
runs = client.search_runs([experiment.experiment_id], max_results=1000)
trials = {trial["number"]: trial for trial in json.load(open("trials.json"))["trials"]}
stored = collections.defaultdict(collections.Counter)
clocks = collections.defaultdict(set)
rows = [json.loads(line) for line in open("series.jsonl")]
for row in rows:
    clocks[row["trial"], row["metric"]].add(row["clock"])
for row in rows:
    key = row["metric"]
    if len(clocks[row["trial"], key]) > 1 and row["clock"] != "epoch":
        key += " by " + row["clock"]
    # The server itself keeps infinities as the largest numbers.
    value = float(row["value"])
    value = math.copysign(sys.float_info.max, value) if math.isinf(value) else value
    stored[row["trial"], key][int(float(row["step"])), str(value)] += 1
assert sorted(int(run.data.tags["hpsearch.trial"]) for run in runs) == sorted(trials), "runs, each once"
points = 0
for run in runs:
    number = int(run.data.tags["hpsearch.trial"])
    trial = trials[number]
    assert run.data.params.keys() == trial["params"].keys(), run.data.params
    for name, value in trial["params"].items():
        there = run.data.params[name]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        words = str(value).lower() if isinstance(value, bool) else value
        assert float(there) == value if is_number else there == words, (name, there, value)
    assert (run.info.status == "FAILED") == (trial["state"] == "failed"), run.info
    names = {metric for owner, metric in stored if owner == number}
    assert run.data.metrics.keys() == names, (number, run.data.metrics.keys() ^ names)
    for (owner, metric), expected in stored.items():
        if owner != number:
            continue
        there = collections.Counter(
            (point.step, str(point.value)) for point in client.get_metric_history(run.info.run_id, metric))
        assert there == expected, (number, metric, list((expected - there).items())[:3], list((there - expected).items())[:3])
        points += sum(expected.values())
print(f"{len(runs)} runs, {points} points and all parameters as they are in the store, none twice")
