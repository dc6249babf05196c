"""Optuna's interface to hpsearch: `import hpsearch.optuna as optuna`.

    study = optuna.create_study(direction="minimize")
    study.optimize(lambda trial: (trial.suggest_float("x", -10, 10) - 2) ** 2, n_trials=100)
    print(study.best_params)

What there is not raises an error that names it.
"""

from typing import Any

from . import (
    artifacts,
    distributions,
    exceptions,
    importance,
    integration,
    logging,
    pruners,
    samplers,
    search_space,
    storages,
    study,
    terminator,
    trial,
    visualization,
)
from .exceptions import TrialPruned
from .study import (
    Study,
    copy_study,
    create_study,
    delete_study,
    get_all_study_names,
    get_all_study_summaries,
    load_study,
)
from .trial import Trial, create_trial

#: The version of Optuna whose interface this is, for programs that compare it.
__version__ = "5.0.0"

__all__ = [
    "Study",
    "Trial",
    "TrialPruned",
    "artifacts",
    "copy_study",
    "create_study",
    "create_trial",
    "delete_study",
    "distributions",
    "exceptions",
    "get_all_study_names",
    "get_all_study_summaries",
    "importance",
    "integration",
    "load_study",
    "logging",
    "pruners",
    "samplers",
    "search_space",
    "storages",
    "study",
    "terminator",
    "trial",
    "visualization",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"hpsearch.optuna has no `{name}`: it has {', '.join(__all__)}")
