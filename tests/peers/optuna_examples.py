"""Runs Optuna's own examples with `import hpsearch.optuna as optuna` in place of `import optuna`, beside the originals.

    python tests/peers/optuna_examples.py DIR      DIR: a clone of github.com/optuna/optuna-examples

Needs Python with optuna, scikit-learn, pandas, lightgbm, xgboost and hpsearch on PYTHONPATH (or installed); HPSEARCH_BINARY names the
program. Run by hand. Each example is run as it is, with one line changed in the way that a person would change it; then objectives
are optimised by both with the same number of trials and several seeds, and the medians of the best values are compared.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile

EXAMPLES = [
    "basic/quadratic.py",
    "basic/pruning.py",
    "faq/enqueue_trial.py",
    "sklearn/sklearn_simple.py",
    "sklearn/sklearn_additional_args.py",
    "lightgbm/lightgbm_simple.py",
    "xgboost/xgboost_simple.py",
]

root = sys.argv[1]


def changed(text):
    """The one line: `import optuna`, and what is imported from it."""
    text = re.sub(r"^import optuna$", "import hpsearch.optuna as optuna", text, flags=re.M)
    return re.sub(r"^from optuna(\.|\s)", r"from hpsearch.optuna\1", text, flags=re.M)


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", text)]


with tempfile.TemporaryDirectory() as directory:
    for name in EXAMPLES:
        with open(os.path.join(root, name)) as file:
            text = file.read()
        path = os.path.join(directory, os.path.basename(name))
        ends = []
        for program in (text, changed(text)):
            with open(path, "w") as file:
                file.write(program)
            ended = subprocess.run([sys.executable, path], cwd=directory, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, f"{name}:\n{ended.stdout}\n{ended.stderr}"
            ends.append(ended.stdout.strip().splitlines())
        assert len(ends[0]) > 0 and ends[0][0].split("=")[0] == ends[1][0].split("=")[0] or "Frozen" in ends[1][0], ends
        print(f"{name}: runs; last lines {ends[0][-1][:70]!r} and {ends[1][-1][:70]!r}")


def rosenbrock(trial):
    x = trial.suggest_float("x", -2, 2)
    y = trial.suggest_float("y", -2, 2)
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


def conditional(trial):
    if trial.suggest_categorical("kind", ["a", "b"]) == "a":
        return (trial.suggest_float("u", 1e-4, 1, log=True) - 0.01) ** 2 + 0.1
    return (trial.suggest_int("v", 0, 20) - 13) ** 2 / 100 + trial.suggest_float("w", 0, 1)


def mixed(trial):
    depth = trial.suggest_int("depth", 1, 4)
    widths = [trial.suggest_int(f"width{index}", 4, 128, log=True) for index in range(depth)]
    rate = trial.suggest_float("rate", 1e-5, 1, log=True)
    return abs(depth - 3) + sum(abs(width - 32) / 128 for width in widths) / depth + (rate - 0.003) ** 2


import optuna  # noqa: E402

import hpsearch.optuna  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)
hpsearch.optuna.logging.set_verbosity(hpsearch.optuna.logging.ERROR)
for objective in (rosenbrock, conditional, mixed):
    medians = []
    for module in (optuna, hpsearch.optuna):
        best = []
        for seed in range(10):
            study = module.create_study(sampler=module.samplers.TPESampler(seed=seed))
            study.optimize(objective, n_trials=60)
            trial = study.best_trial
            fixed = optuna.trial.FixedTrial(trial.params)
            assert objective(fixed) == trial.value, (trial.params, trial.value)
            best.append(trial.value)
        medians.append(statistics.median(best))
    print(f"{objective.__name__}: median best of 60 trials {medians[0]:.4g} (optuna), {medians[1]:.4g} (hpsearch.optuna)")
