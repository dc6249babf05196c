"""Compares a directory that hpsearch wrote with the store's own words: python tensorboard_check.py DIR (see tensorboard.sh)."""

import collections
import json
import math
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import plugin_data_pb2

root = sys.argv[1]
single = lambda value: struct.unpack("f", struct.pack("f", float(value)))[0]
same = lambda one, other: one == other or (math.isnan(one) and math.isnan(other))

stored = collections.defaultdict(list)
for line in open("series.jsonl"):
    row = json.loads(line)
    if not row["metric"].startswith("system/"):
        stored[row["trial"], row["metric"]].append((int(row["step"]), single(row["value"])))
trials = {trial["number"]: trial for trial in json.load(open("trials.json"))["trials"]}
points = 0
for number, trial in trials.items():
    read = EventAccumulator(f"{root}/trial-{number}", size_guidance={"scalars": 0})
    read.Reload()
    for (of, metric), expected in stored.items():
        if of != number:
            continue
        there = [(event.step, event.value) for event in read.Scalars(metric)]
        assert len(there) == len(expected), (number, metric, len(there), len(expected))
        for (step, value), (other, other_value) in zip(there, expected):
            assert step == other and same(value, other_value), (number, metric, step, value, other_value)
        points += len(there)
    metadata = read.summary_metadata
    start = plugin_data_pb2.HParamsPluginData.FromString(metadata["_hparams_/session_start_info"].plugin_data.content)
    of_value = lambda value: getattr(value, value.WhichOneof("kind"))
    there = {name: of_value(value) for name, value in start.session_start_info.hparams.items()}
    assert there == trial["params"], (there, trial["params"])
    end = plugin_data_pb2.HParamsPluginData.FromString(metadata["_hparams_/session_end_info"].plugin_data.content)
    assert end.session_end_info.status == (2 if trial["state"] == "failed" else 1), number
multiplexer = EventMultiplexer().AddRunsFromDirectory(root)
multiplexer.Reload()
runs = sorted(multiplexer.Runs())
assert runs == sorted([".", *(f"trial-{number}" for number in trials)]), runs
print(f"{root}: {len(trials)} trials, {points} points and all parameters as they are in the store")
