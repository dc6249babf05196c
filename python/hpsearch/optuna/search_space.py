"""The parameters that all trials have, for samplers of the program's own."""

from typing import Dict, Iterable, List, Optional, Tuple

from ._study import Study
from .distributions import BaseDistribution
from .trial import FrozenTrial, TrialState


def intersection_search_space(
    trials: Iterable[FrozenTrial], include_pruned: bool = False
) -> Dict[str, BaseDistribution]:
    """The parameters with the same distribution in all complete trials, sorted by name."""
    counted: Tuple[TrialState, ...] = (TrialState.COMPLETE,)
    if include_pruned:
        counted += (TrialState.PRUNED,)
    common: Optional[List[Tuple[str, BaseDistribution]]] = None
    for trial in trials:
        if trial.state in counted:
            own = trial.distributions
            common = list(own.items()) if common is None else [
                (name, distribution) for name, distribution in common
                if own.get(name) == distribution
            ]
    return dict(sorted(common or [], key=lambda one: one[0]))


class IntersectionSearchSpace:
    """The same of a study."""

    def __init__(self, include_pruned: bool = False) -> None:
        self._include_pruned = include_pruned

    def calculate(self, study: Study) -> Dict[str, BaseDistribution]:
        """The parameters that all trials of the study have."""
        return intersection_search_space(study.get_trials(deepcopy=False), self._include_pruned)
