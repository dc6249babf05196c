"""Makes src/core/pruners/optuna.json: what Optuna 5's own pruners decide about fixed curves.

    python3 -m venv .venv && .venv/bin/pip install optuna==5.0.0 scipy && .venv/bin/python tests/peers/pruners_golden.py > src/core/pruners/optuna.json

Each case: a direction, the curves of completed trials (the last report is the value), one running trial, and for each
pruner the words of Optuna's decisions after each of its reports (1: stop). Values are finite: where they are not, the
pruners' own pages say what differs.
"""
import json
import warnings

import numpy as np
import optuna
from optuna.pruners import MedianPruner, PatientPruner, PercentilePruner, ThresholdPruner, WilcoxonPruner
from optuna.trial import TrialState, create_trial

warnings.filterwarnings("ignore")
optuna.logging.set_verbosity(optuna.logging.ERROR)
PRUNERS = [
    ("median", {}, MedianPruner()),
    ("percentile", {}, PercentilePruner(25.0)),
    ("percentile", {"percentile": 62.5, "n_startup_trials": 0, "n_warmup_steps": 3, "interval_steps": 4, "n_min_trials": 3},
     PercentilePruner(62.5, 0, 3, 4, n_min_trials=3)),
    ("threshold", {"lower": 0.3}, ThresholdPruner(lower=0.3)),
    ("threshold", {"lower": 0.25, "upper": 0.9, "n_warmup_steps": 2, "interval_steps": 3}, ThresholdPruner(0.25, 0.9, 2, 3)),
    ("patient", {"patience": 0}, PatientPruner(None, 0)),
    ("patient", {"patience": 2}, PatientPruner(None, 2)),
    ("patient", {"patience": 1, "min_delta": 0.0625}, PatientPruner(None, 1, 0.0625)),
    ("patient", {"patience": 1, "wrapped": "median"}, PatientPruner(MedianPruner(), 1)),
    ("wilcoxon", {}, WilcoxonPruner()),
    ("wilcoxon", {"p_threshold": 0.3, "n_startup_steps": 5}, WilcoxonPruner(p_threshold=0.3, n_startup_steps=5)),
]


def curve(rng, length, coarse):
    """Around a level of its own, some steps left out; coarse values make ties and zeros."""
    values = rng.uniform(0.3, 0.7) + rng.normal(0, 0.12, length)
    values = np.round(values * 16) / 16 if coarse else np.round(values, 6)
    return [[step, float(value)] for step, value in enumerate(values, 1) if rng.uniform() > 0.1]


def decide(pruner, direction, others, running):
    study = optuna.create_study(direction=direction, pruner=pruner)
    for reports in others:
        study.add_trial(create_trial(state=TrialState.COMPLETE, value=reports[-1][1], intermediate_values=dict(map(tuple, reports))))
    decisions = []
    for upto in range(1, len(running) + 1):
        trial = create_trial(state=TrialState.RUNNING, intermediate_values=dict(map(tuple, running[:upto])))
        trial.number = len(others)
        decisions.append(int(pruner.prune(study, trial)))
    return decisions


rng = np.random.RandomState(7)
cases = []
for index in range(24):
    direction = ["minimize", "maximize"][index % 2]
    length = 60 if index % 8 == 5 else 18
    others = [curve(rng, length, index % 3 == 0) for _ in range([1, 4, 6, 9][index % 4])]
    running = curve(rng, length, index % 3 == 0)
    decisions = [decide(pruner, direction, others, running) for _, _, pruner in PRUNERS]
    cases.append({"direction": direction, "others": others, "running": running, "decisions": decisions})
pruners = [{"name": name, "options": options} for name, options, _ in PRUNERS]
lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
print(f'{{"optuna":"{optuna.__version__}","pruners":{json.dumps(pruners)},"cases":[\n{lines}\n]}}')
