"""Makes the database of tests/it/optuna/demo.sql: optuna_demo.py optuna.db > demo.sql"""
import sqlite3
import sys

import optuna

optuna.logging.disable_default_handler()


def objective(trial):
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 4)
    if trial.suggest_categorical("opt", ["sgd", "adam", None, True, 3]) == "adam":
        trial.suggest_float("b", 0, 1, step=0.1)
    trial.set_user_attr("who", "me")
    for step in range(5):
        trial.report(lr * step + layers, step)
        if trial.should_prune():
            raise optuna.TrialPruned()
    if trial.number == 7:
        raise ValueError
    return lr + layers


study = optuna.create_study(
    storage=f"sqlite:///{sys.argv[1]}", study_name="demo", direction="maximize",
    pruner=optuna.pruners.MedianPruner())
study.optimize(objective, n_trials=12, catch=(ValueError,))
study.enqueue_trial({"lr": 0.01})
study.set_user_attr("note", "x")
print("\n".join(sqlite3.connect(sys.argv[1]).iterdump()))
