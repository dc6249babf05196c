"""Which parameters matter, by `hpsearch importance`."""

import os
import tempfile
from typing import Any, Callable, Dict, List, Optional

from .._binary import HpsearchError, json_of
from ._missing import missing
from ._study import Study
from .distributions import BaseDistribution
from .study import create_study
from .trial import FrozenTrial, TrialState, create_trial

__all__ = ["FanovaImportanceEvaluator", "PedAnovaImportanceEvaluator", "get_param_importances"]


class PedAnovaImportanceEvaluator:
    """What separates the best tenth of the trials from the rest."""

    _name = "ped-anova"


class FanovaImportanceEvaluator:
    """Shares of the variance of a random forest, which has its own size and random numbers."""

    _name = "fanova"

    def __init__(self, *, n_trees: int = 64, max_depth: int = 64,
                 seed: Optional[int] = None) -> None:
        pass


def get_param_importances(
    study: Study,
    *,
    evaluator: Any = None,
    params: Optional[List[str]] = None,
    target: Optional[Callable[[FrozenTrial], float]] = None,
    normalize: bool = True,
) -> Dict[str, float]:
    """The share of each parameter, largest first.

    Raises ValueError if there are too few trials.
    """
    if not normalize:
        raise NotImplementedError("hpsearch.optuna has no `normalize=False`: shares have the sum 1")
    if target is None and len(study.directions) > 1:
        raise ValueError("a study with several objectives needs `target`: `lambda t: t.values[0]`")
    evaluator = PedAnovaImportanceEvaluator() if evaluator is None else evaluator
    name = getattr(evaluator, "_name", None)
    if name is None:
        raise NotImplementedError(
            f"hpsearch.optuna has no evaluator {evaluator!r}: there are "
            "PedAnovaImportanceEvaluator and FanovaImportanceEvaluator"
        )
    if target is None and params is None and study._path is not None:
        return _shares(study._path, study.study_name, name)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "importance.db")
        # Values of a target are compared, whichever way is better.
        direction = "minimize" if target is not None else study.direction
        copied = create_study(study_name="importance", storage=path, direction=direction)
        try:
            copied.add_trials(_trials(study, params, target or (lambda trial: trial.value)))
        finally:
            copied._search.close()
        return _shares(path, "importance", name)


def _trials(study: Study, params: Optional[List[str]],
            target: Callable[[FrozenTrial], Any]) -> List[FrozenTrial]:
    chosen = []
    for trial in study.get_trials(states=[TrialState.COMPLETE]):
        if params is not None and not set(params) <= set(trial.params):
            continue
        names = trial.params if params is None else params
        distributions: Dict[str, BaseDistribution] = {
            name: trial.distributions[name] for name in names
        }
        chosen.append(create_trial(value=float(target(trial)), distributions=distributions,
                                   params={name: trial.params[name] for name in names}))
    return chosen


def _shares(path: str, study: str, evaluator: str) -> Dict[str, float]:
    try:
        told = json_of(["importance", "--evaluator", evaluator], path, [study])
    except HpsearchError as error:
        raise ValueError(error.reason) from error
    if told.get("reason") and not told["importances"]:
        raise ValueError(told["reason"])
    shares = {one["name"]: one["importance"] for one in told["importances"]}
    return dict(sorted(shares.items(), key=lambda one: -one[1]))


__getattr__ = missing(
    "importance", "there are PedAnovaImportanceEvaluator and FanovaImportanceEvaluator"
)
