#!/usr/bin/env python3
"""Writes tests/it/importance/optuna.json: small studies with the importances that Optuna 5 computes for them.

    python3 -m venv .venv && .venv/bin/pip install optuna==5.0.0 scikit-learn
    .venv/bin/python tests/peers/importance_golden.py

PED-ANOVA has no randomness: its values are exact. fANOVA's forests are random: mean and standard deviation over 20 seeds.
All values are normalised to a sum of 1, as `optuna.importance.get_param_importances` gives them.
"""
import json
import math
import pathlib
import statistics
import warnings

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.importance import FanovaImportanceEvaluator, PedAnovaImportanceEvaluator, get_param_importances

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore")


def numbers(t):
    x, y = t.suggest_float("x", -3, 5), t.suggest_float("y", 0, 1)
    n, k = t.suggest_int("n", 1, 8), t.suggest_int("k", 0, 40, step=5)
    s, c = t.suggest_float("s", 0, 1, step=0.25), t.suggest_float("constant", 2, 2)
    return (x - 1) ** 2 + 3 * y + 0.3 * (n - 4) ** 2 + 0.01 * k * y + 0.2 * s + 0 * c


def logarithms(t):
    lr, wd = t.suggest_float("lr", 1e-5, 1e-1, log=True), t.suggest_float("wd", 1e-6, 1e-2, log=True)
    width, drop = t.suggest_int("width", 8, 512, log=True), t.suggest_float("drop", 0, 0.6)
    return -((math.log10(lr) + 2.5) ** 2) - 0.2 * (math.log2(width) - 6) ** 2 - drop - 0.01 * math.log10(wd)


def words(t):
    o = t.suggest_categorical("optim", ["sgd", "adam", "lion", "adagrad"])
    b, f = t.suggest_categorical("bias", [True, False]), t.suggest_categorical("fold", [1, 2, 4])
    x = t.suggest_float("x", 0, 1)
    return {"sgd": 0.0, "adam": 1.0, "lion": 1.6, "adagrad": 3.0}[o] + 0.5 * b + 0.1 * f + 2 * x * (o == "sgd")


def conditions(t):
    o = t.suggest_categorical("optim", ["sgd", "adam", "plain"])
    lr = t.suggest_float("lr", 0, 1)
    value = (lr - 0.3) ** 2 * 4
    if o == "sgd":
        value += 2 * (t.suggest_float("momentum", 0, 1) - 0.9) ** 2
    if o == "adam":
        value += 0.5 + (t.suggest_float("beta", 0, 1) - 0.5) ** 2 + 0.1 * t.suggest_int("warmup", 0, 4)
    return value + (1.0 if o == "plain" else 0.0)


def spoilt(t):
    x, y = t.suggest_float("x", 0, 1), t.suggest_float("y", 0, 1)
    return math.inf if x > 0.9 else round(4 * x + y)


def dimension(name, d):
    if isinstance(d, FloatDistribution):
        return {"name": name, "type": "float", "low": d.low, "high": d.high, "log": d.log, "step": d.step}
    if isinstance(d, IntDistribution):
        return {"name": name, "type": "int", "low": d.low, "high": d.high, "log": d.log, "step": d.step}
    assert isinstance(d, CategoricalDistribution)
    return {"name": name, "type": "cat", "choices": list(d.choices)}


def case(objective, trials, direction, seed):
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=seed))
    study.optimize(objective, n_trials=trials)
    space = {}
    for trial in study.trials:
        space.update({name: dimension(name, d) for name, d in trial.distributions.items()})
    forests = [get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=seed)) for seed in range(20)]
    rows = [{"params": t.params, "value": t.value if math.isfinite(t.value) else "Infinity"} for t in study.trials]
    fanova = {n: [statistics.fmean(f[n] for f in forests), statistics.stdev(f[n] for f in forests)] for n in forests[0]}
    return {"name": objective.__name__, "direction": direction, "space": list(space.values()), "rows": rows,
            "ped_anova": get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()), "fanova": fanova}


def main():
    cases = [case(numbers, 120, "minimize", 0), case(logarithms, 120, "maximize", 1), case(words, 100, "minimize", 2),
             case(conditions, 150, "minimize", 3), case(spoilt, 60, "minimize", 4)]
    path = pathlib.Path(__file__).parent.parent / "it" / "importance" / "optuna.json"
    path.parent.mkdir(exist_ok=True)
    body = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    path.write_text(f'{{"optuna":"{optuna.__version__}","cases":[\n{body}\n]}}\n')
    for c in cases:
        print(c["name"], {n: round(v, 4) for n, v in c["ped_anova"].items()}, {n: [round(x, 3) for x in v] for n, v in c["fanova"].items()})


if __name__ == "__main__":
    main()
