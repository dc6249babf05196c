"""Optuna's interface to hpsearch: `import hpsearch.optuna as optuna`.

    study = optuna.create_study(direction="minimize")
    study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=100)
    print(study.best_params)

What there is not raises an error that names it.
"""

from typing import Any

from . import distributions, exceptions, logging, pruners, samplers, study, trial
from .exceptions import TrialPruned
from .study import Study, create_study, load_study
from .trial import Trial

__all__ = [
    "Study",
    "Trial",
    "TrialPruned",
    "create_study",
    "distributions",
    "exceptions",
    "load_study",
    "logging",
    "pruners",
    "samplers",
    "study",
    "trial",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"hpsearch.optuna has no `{name}`: it has {', '.join(__all__)}")
