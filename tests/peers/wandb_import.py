"""Random runs of W&B's own client, and whether a store of hpsearch has the same.

wandb_import.py make COUNT                        offline runs in ./wandb
wandb_import.py check TRIALS.json SERIES.jsonl    compares them with what hpsearch imported
wandb_import.py same SERIES.jsonl SERIES.jsonl    compares two exports
"""
import glob
import json
import math
import os
import random
import sys


def scalars(number):
    """What a run has: its configuration, and rows by step."""
    chance = random.Random(number)
    config = {"lr": chance.uniform(0, 1), "layers": chance.randrange(9), "name": f"é {number}",
              "flag": chance.random() < 0.5, "nested": {"a": 1, "b": {"c": "x"}}, "list": [1, 2.5, "z"]}
    rows, step = [], 0
    for _ in range(chance.randrange(1, 60)):
        step += chance.randrange(1, 4)
        row = {}
        for name in ["loss", "val/acc", "epoch", "odd name.x"]:
            if chance.random() < 0.7:
                row[name] = chance.choice([chance.gauss(0, 1), step, 1e300, -1e-300, math.nan, math.inf, -math.inf, 0.1])
        if row:
            rows.append((step, row))
    return config, rows


def make(count):
    os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", WANDB_X_DISABLE_STATS="true")
    import wandb

    for number in range(count):
        config, rows = scalars(number)
        run = wandb.init(project="random", name=f"run {number}", id=f"id{number}", config=config,
                         tags=["t", f"n{number % 3}"], group=f"g{number % 4}", notes=f"note {number}", dir=".",
                         settings=wandb.Settings(x_disable_stats=True))
        for step, row in rows:
            run.log(row, step=step)
        run.finish(exit_code=number % 2)


def flat(config, before=""):
    for name, value in config.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def same(one, other):
    return one == other or (isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other))


def number_of(value):
    return float(value)


def points(path):
    found = {}
    for line in open(path, encoding="utf-8"):
        point = json.loads(line)
        key = (point["trial"], point["metric"], point["clock"], number_of(point["step"]))
        assert key not in found, key
        found[key] = number_of(point["value"])
    return found


def check(trials, series):
    trials = json.load(open(trials, encoding="utf-8"))["trials"]
    here = points(series)
    by_name = {trial["name"]: trial for trial in trials}
    runs = len(glob.glob("wandb/offline-run-*"))
    assert len(trials) == runs == len(by_name), (len(trials), runs)
    total = 0
    for number in range(runs):
        config, rows = scalars(number)
        trial = by_name[f"run {number}"]
        assert trial["state"] == ("failed" if number % 2 else "complete"), trial
        params = dict(flat(config))
        assert trial["params"] == params, (trial["params"], params)
        assert sorted(trial["tags"]) == ["n" + str(number % 3), "t"], trial["tags"]
        for step, row in rows:
            for name, value in row.items():
                # W&B takes parts of a name to be nested only where they are dictionaries.
                found = here.pop((trial["number"], name, "step", float(step)))
                assert same(float(value), found), (number, name, step, value, found)
                total += 1
    left = [key for key in here if not key[1].startswith("system/")]
    assert not left, left[:5]
    print(f"{runs} runs and {total} points are as they were logged")


def compare(one, other):
    one, other = points(one), points(other)
    assert one.keys() == other.keys(), list(one.keys() ^ other.keys())[:5]
    assert all(same(value, other[key]) for key, value in one.items())
    print(f"{len(one)} points are the same again")


if sys.argv[1] == "make":
    make(int(sys.argv[2]))
elif sys.argv[1] == "check":
    check(*sys.argv[2:])
else:
    compare(*sys.argv[2:])
