"""Compares an experiment of a server with the store's own words, and those of two studies (see mlflow.sh).

mlflow_check.py server URL STUDY     reads STUDY.trials.jsonl and STUDY.series.jsonl
mlflow_check.py same STUDY STUDY     after an import: times to the millisecond, whole steps
"""
import collections
import datetime
import json
import math
import sys


def rows(name):
    return [json.loads(line) for line in open(name)]


def millis(text):
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


def series(study, trials):
    """By trial, metric and clock: by whole step the values and moments, to the millisecond."""
    points = collections.defaultdict(list)
    for row in rows(f"{study}.series.jsonl"):
        began = datetime.datetime.fromisoformat(trials[row["trial"]]["started"].replace("Z", "+00:00")).timestamp()
        at = (began + row["seconds"]) * 1000
        points[row["trial"], row["metric"], row["clock"]].append((int(float(row["step"])), str(float(row["value"])), at))
    return points


def assert_points(there, expected, where):
    """The same steps and values as often, at the same moments: the store's end between two milliseconds."""
    assert len(there) == len(expected), (where, len(there), len(expected))
    for one, other in zip(sorted(there), sorted(expected)):
        assert one[:2] == other[:2] and abs(one[2] - other[2]) < 1.5, (where, one, other)


def server(url, study):
    from mlflow import MlflowClient

    trials = {row["number"]: row for row in rows(f"{study}.trials.jsonl")}
    stored = series(study, trials)
    client = MlflowClient(url)
    experiment = client.get_experiment_by_name(study)
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    assert sorted(int(run.data.tags["hpsearch.trial"]) for run in runs) == sorted(trials), "runs, each once"
    by_id = {run.info.run_id: int(run.data.tags["hpsearch.trial"]) for run in runs}
    points = 0
    for run in runs:
        number, tags = by_id[run.info.run_id], run.data.tags
        trial, tracked = trials[number], trials[number]["origin"].get("tracked", {})
        usual = f"run-{number}" if tracked else f"trial-{number}"
        assert run.info.run_name == tracked.get("name", usual), run.info
        names = {there: name for there, (name, _) in json.loads(tags.get("hpsearch.params", "{}")).items()}
        params = {names.get(there, there): text for there, text in run.data.params.items()}
        assert params.keys() == trial["params"].keys(), params
        for name, value in trial["params"].items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            words = str(value).lower() if isinstance(value, bool) or value is None else value
            words = "null" if value is None else words
            assert float(params[name]) == value if is_number else params[name] == words, (name, params[name], value)
        assert (run.info.status == "FAILED") == (trial["state"] == "failed"), run.info
        assert tags["hpsearch.state"] == trial["state"]
        assert run.info.start_time in range(millis(trial["started"]) - 1, millis(trial["started"]) + 2), run.info
        assert run.info.end_time in range(millis(trial["finished"]) - 1, millis(trial["finished"]) + 2), run.info
        given = sorted(value for key, value in tags.items() if key.startswith("tag."))
        assert given == sorted(trial["tags"]), (given, trial["tags"])
        assert tags.get("mlflow.note.content", "") == "\n\n".join(trial["notes"]), tags
        assert tags.get("hpsearch.group") == tracked.get("group")
        assert by_id.get(tags.get("mlflow.parentRunId")) == tracked.get("parent")
        renamed = json.loads(tags.get("hpsearch.series", "{}"))
        clock = tags["hpsearch.clock"]
        own = {(metric, on): points for (owner, metric, on), points in stored.items() if owner == number}
        assert {tuple(renamed.get(key, (key, clock))) for key in run.data.metrics} == own.keys(), number
        for key in run.data.metrics:
            metric, on = renamed.get(key, (key, clock))
            there = [(point.step, str(infinite(point.value)), point.timestamp)
                     for point in client.get_metric_history(run.info.run_id, key)]
            assert_points(there, own[metric, on], (number, key))
            points += len(there)
    print(f"{study}: {len(runs)} runs, {points} points with their times, parameters, names, tags, notes and states as "
          "they are in the store, none twice")


def infinite(value):
    """The server itself keeps infinities as the largest numbers."""
    return math.copysign(math.inf, value) if abs(value) == sys.float_info.max else value


def same(study, back):
    trials, here = ({row["number"]: row for row in rows(f"{name}.trials.jsonl")} for name in (study, back))
    assert trials.keys() == here.keys()
    for number, trial in trials.items():
        other = here[number]
        tracked = trial["origin"].get("tracked", {})
        assert trial["params"] == other["params"], (trial["params"], other["params"])
        assert {type(value) for value in trial["params"].values()} == {type(value) for value in other["params"].values()}
        assert trial["tags"] == other["tags"] and "\n\n".join(trial["notes"]) == "\n\n".join(other["notes"])
        assert (trial["state"] == "failed") == (other["state"] == "failed"), other
        for name in ("name", "group", "parent"):
            assert tracked.get(name) == other["origin"]["tracked"].get(name), (name, other)
        for moment in ("started", "finished"):
            assert abs(millis(trial[moment]) - millis(other[moment])) <= 1, (trial, other)
    stored, points = series(study, trials), 0
    imported = series(back, here)
    assert stored.keys() == imported.keys(), stored.keys() ^ imported.keys()
    for key, expected in stored.items():
        # Of one whole step the last value stands.
        last = {step: (step, value, at) for step, value, at in expected}
        assert_points(imported[key], list(last.values()), key)
        points += len(last)
    print(f"{back}: {len(here)} runs and {points} points came back without a difference")


{"server": server, "same": same}[sys.argv[1]](*sys.argv[2:])
