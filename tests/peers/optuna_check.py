"""Compares what Optuna reads in a store with what `hpsearch trials --json` and the tables say; run by optuna.sh.

    optuna_check.py STORE STUDY TRIALS.json BEST.json    STORE: a path, or postgres://..

Prints `optuna agrees on N trials`, or the first difference, and exits 1.
"""
import json
import math
import sqlite3
import sys

import optuna
from optuna.trial import TrialState

# Paused has no counterpart in Optuna and is read as running.
STATES = {
    "queued": TrialState.WAITING,
    "running": TrialState.RUNNING,
    "paused": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}


class Server:
    """A database in PostgreSQL that is asked as sqlite3 is."""

    def __init__(self, url):
        import psycopg2

        self.connection = psycopg2.connect(url)

    def execute(self, sql, values=()):
        cursor = self.connection.cursor()
        cursor.execute(sql.replace("?", "%s"), values)
        return cursor


def agree(what, ours, optunas):
    if ours != optunas or type(ours) is not type(optunas):
        sys.exit(f"{what}: hpsearch says {ours!r}, optuna {optunas!r}")


def number(value):
    """A number of our JSON, in which NaN and infinities are words."""
    return None if value is None else float(value)


def reports(connection, study, trial):
    rows = connection.execute(
        "SELECT step, value FROM report JOIN trial ON trial.id = report.trial_id JOIN study ON study.id = trial.study_id "
        "JOIN objective ON objective.study_id = study.id JOIN metric ON metric.id = report.metric_id AND metric.name = objective.metric "
        "WHERE study.name = ? AND trial.number = ? AND objective.idx = 0",
        (study, trial),
    )
    return {step: float("nan") if value is None else value for step, value in rows}


def compare(trial, ours, connection, study):
    name = f"trial {ours['number']}"
    values = [number(value) for value in ours.get("values") or [ours["value"]]]
    # Optuna has no complete trials with NaN.
    is_nan = ours["state"] == "complete" and any(math.isnan(value) for value in values)
    agree(f"{name} state", TrialState.FAIL if is_nan else STATES[ours["state"]], trial.state)
    agree(f"{name} params", dict(sorted(ours["params"].items())), dict(sorted(trial.params.items())))
    for parameter, value in ours["params"].items():
        agree(f"{name} type of {parameter}", type(value), type(trial.params[parameter]))
        if not trial.distributions[parameter]._contains(trial.distributions[parameter].to_internal_repr(value)):
            sys.exit(f"{name}: {parameter} = {value!r} is not in {trial.distributions[parameter]}")
    if ours["state"] == "complete" and not is_nan:
        agree(f"{name} values", values, trial.values)
    # repr: NaN is equal to itself there.
    agree(f"{name} reports", repr(reports(connection, study, ours["number"])), repr(dict(sorted(trial.intermediate_values.items()))))
    if trial.intermediate_values and len(values) == 1:
        agree(f"{name} last step", ours["last_step"], trial.last_step)
        agree(f"{name} last value", repr(number(ours["last_value"])), repr(trial.intermediate_values[trial.last_step]))
    violated = [max(value, 0.0) for value in trial.constraints.values()]
    if ours["state"] == "complete":
        agree(f"{name} violation", number(ours.get("violation")) or 0.0, sum(violated, 0.0))
    else:
        agree(f"{name} constraints", {}, trial.constraints)
    if is_nan:
        agree(f"{name} values", None, trial.values)
    if ours["reason"] is not None:
        agree(f"{name} reason", ours["reason"], trial.user_attrs.get("reason"))
    if trial.state.is_finished():
        if trial.datetime_start is None or trial.datetime_complete is None or trial.datetime_start > trial.datetime_complete:
            sys.exit(f"{name}: it began at {trial.datetime_start} and ended at {trial.datetime_complete}")


def main():
    path, name, trials_json, best_json = sys.argv[1:]
    with open(trials_json) as file:
        ours = sorted(json.load(file)["trials"], key=lambda trial: trial["number"])
    with open(best_json) as file:
        answer = json.load(file)
    best = answer["trial"]
    connection = Server(path) if "://" in path else sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    storage = path.replace("postgres://", "postgresql+psycopg2://") if "://" in path else f"sqlite:///{path}"
    study = optuna.load_study(study_name=name, storage=storage)

    sql = "SELECT direction, metric FROM objective JOIN study ON study.id = objective.study_id WHERE study.name = ? ORDER BY idx"
    objectives = list(connection.execute(sql, (name,)))
    agree("directions", [row[0].upper() for row in objectives], [d.name for d in study.directions])
    names = [row[1] for row in objectives]
    # Without names Optuna has `value` in its tables.
    defaults = ["value"] if len(names) == 1 else [f"value_{index}" for index in range(len(names))]
    agree("metric names", None if names == defaults else names, study.metric_names)
    trials = study.get_trials()
    agree("number of trials", len(ours), len(trials))
    agree("numbers", [trial["number"] for trial in ours], [trial.number for trial in trials])
    for mine, trial in zip(ours, trials):
        compare(trial, mine, connection, name)
    starts = [trial.datetime_start for trial in trials if trial.datetime_start is not None]
    if starts != sorted(starts):
        sys.exit("trials did not begin in the order of their numbers")
    frame = study.trials_dataframe()
    agree("rows of the data frame", len(ours), len(frame))
    if len(names) == 1:
        agree("column of the value", True, ("value" if names == defaults else f"value_{names[0]}") in frame.columns)
    if len(study.directions) > 1:
        front = sorted(trial.number for trial in study.best_trials)
        agree("trials on the front", sorted(trial["number"] for trial in answer["front"]), front)
        print(f"optuna {optuna.__version__} has {len(front)} best trials")
        print(f"optuna agrees on {len(trials)} trials")
        return
    agree("best trial", best["number"], study.best_trial.number)
    agree("best value", number(best["value"]), study.best_value)
    agree("best params", dict(sorted(best["params"].items())), dict(sorted(study.best_params.items())))

    importances = optuna.importance.get_param_importances(study, evaluator=optuna.importance.PedAnovaImportanceEvaluator())
    agree("parameters with an importance", sorted(best["params"]), sorted(importances))
    shown = ", ".join(f"{parameter} {share:.2f}" for parameter, share in importances.items())
    states = {state: sum(trial["state"] == state for trial in ours) for state in STATES}
    counts = ", ".join(f"{count} {state}" for state, count in states.items() if count)
    infeasible = sum(trial.get("violation") is not None for trial in ours)
    counts += f", {infeasible} infeasible" if infeasible else ""
    print(f"optuna {optuna.__version__} reads: {counts}; best {study.best_trial.number}; importances {shown}")
    print(f"optuna agrees on {len(trials)} trials")


if __name__ == "__main__":
    main()
