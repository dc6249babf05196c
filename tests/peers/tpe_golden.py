"""Makes src/core/samplers/tpe/optuna.json: what Optuna 5's own TPE says about a fixed history.

    python3 -m venv .venv && .venv/bin/pip install optuna==5.0.0 && .venv/bin/python tests/peers/tpe_golden.py > src/core/samplers/tpe/optuna.json

For a space with every kind of axis: trials (complete, pruned, running), which of them Optuna counts as good, and at some
points the logarithms of its two densities. Densities are those of Optuna's own units; the test compares their ratio.

Equal values of a parameter get their kernels' widths by their order among each other, which numpy's default sort leaves to
chance (it differs from processor to processor): here it is made stable, oldest first.
"""
import json
import sys
import warnings

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers._tpe.sampler import _split_trials, default_gamma
from optuna.trial import TrialState, create_trial

warnings.filterwarnings("ignore")
unstable = np.argsort
np.argsort = lambda values, **options: unstable(values, **{**options, "kind": "stable"})
optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = {
    "rate": FloatDistribution(1e-6, 1.0, log=True),
    "x": FloatDistribution(-5.0, 5.0),
    "drop": FloatDistribution(0.0, 0.5, step=0.05),
    "layers": IntDistribution(1, 12),
    "even": IntDistribution(2, 64, step=2),
    "width": IntDistribution(4, 2048, log=True),
    "optim": CategoricalDistribution(["sgd", "adamw", "lion", "adagrad"]),
}


def draw(rng):
    return {
        "rate": float(10 ** rng.uniform(-6, 0)),
        "x": float(rng.uniform(-5, 5)),
        "drop": round(0.05 * rng.randint(0, 11), 10),
        "layers": int(rng.randint(1, 13)),
        "even": int(2 * rng.randint(1, 33)),
        "width": int(np.clip(round(2 ** rng.uniform(2, 11)), 4, 2048)),
        "optim": ["sgd", "adamw", "lion", "adagrad"][rng.randint(4)],
    }


def case(trials, seed):
    rng = np.random.RandomState(seed)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    told = []
    for number in range(trials):
        params = draw(rng)
        state = ["complete", "complete", "complete", "pruned"][number % 4] if number < trials - 3 else "running"
        value = round(float(rng.rand()), 6)
        steps = {int(rng.randint(1, 6)): value} if state == "pruned" else {}
        told.append({"params": params, "state": state, "value": value, "step": next(iter(steps), None)})
        study._storage.create_new_trial(study._study_id, create_trial(
            params=params, distributions=SPACE, state=TrialState[state.upper()],
            value=value if state == "complete" else None, intermediate_values=steps))
    everything = study.get_trials(deepcopy=False)
    finished = sum(trial.state != TrialState.RUNNING for trial in everything)
    below, above = _split_trials(study, everything, default_gamma(finished))
    sampler = study.sampler
    good = sampler._build_parzen_estimator(study, SPACE, below, handle_below=True)
    bad = sampler._build_parzen_estimator(study, SPACE, above, handle_below=False)
    points = [draw(rng) for _ in range(12)] + [told[0]["params"], told[-1]["params"]]
    internal = {name: np.array([SPACE[name].to_internal_repr(point[name]) for point in points]) for name in SPACE}
    return {"trials": told, "good": [trial.number for trial in below], "points": [
        {"params": point, "good": float(one), "bad": float(other)}
        for point, one, other in zip(points, good.log_pdf(internal), bad.log_pdf(internal))]}


json.dump({"optuna": optuna.__version__, "cases": [case(12, 1), case(60, 2), case(300, 3)]}, sys.stdout, indent=0)
