"""No-op trials a second of Optuna 5 on SQLite, in the shape of benches/throughput.rs: 10 parameters, 10 reports a trial.

    pip install optuna==5.0.0
    python benches/peers/optuna_throughput.py [TRIALS]      (default 200)

With HPSEARCH_BENCH=path/to/throughput-<hash> (the program that `cargo bench --bench throughput --no-run` names) both run in turns,
three times, and the ratio of their medians is printed. The number of trials is the same for both.
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)
REPORTS = 10


def objective(trial):
    for index in range(4):
        trial.suggest_float(f"parameter_{index}", 1e-6, 1.0, log=True)
    for index in range(4, 7):
        trial.suggest_float(f"parameter_{index}", 0.0, 1.0)
    for index in range(7, 9):
        trial.suggest_int(f"parameter_{index}", 1, 64, log=True)
    trial.suggest_categorical("parameter_9", ["sgd", "adamw", "lion", "adagrad"])
    value = trial.params["parameter_4"]
    for step in range(1, REPORTS + 1):
        trial.report(value + 1 / step, step)
        # What a study with a pruner asks at each report; the pruner here never says yes.
        trial.should_prune()
    return value


def optuna_rate(trials):
    with tempfile.TemporaryDirectory() as directory:
        study = optuna.create_study(
            storage=f"sqlite:///{directory}/optuna.db", sampler=optuna.samplers.RandomSampler(seed=1), pruner=optuna.pruners.NopPruner()
        )
        began = time.perf_counter()
        study.optimize(objective, n_trials=trials)
        return trials / (time.perf_counter() - began)


def hpsearch_rate(program, trials):
    output = subprocess.run([program, "random,none", str(trials)], capture_output=True, text=True, check=True).stdout
    return float(re.split(r"\s+", output.strip())[2])


def main():
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    program = os.environ.get("HPSEARCH_BENCH")
    rounds = 3 if program else 1
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(optuna_rate(trials))
        print(f"optuna {optuna.__version__}: {theirs[-1]:.1f} trials/s ({trials} trials)", flush=True)
        if program:
            ours.append(hpsearch_rate(program, trials))
            print(f"hpsearch: {ours[-1]:.1f} trials/s ({trials} trials)", flush=True)
    if program:
        print(f"hpsearch / optuna: {statistics.median(ours) / statistics.median(theirs):.0f}")


if __name__ == "__main__":
    main()
