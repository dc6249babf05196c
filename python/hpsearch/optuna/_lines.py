"""Lines of `ask-tell`: the results that it is sent, and its answers."""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .._binary import HpsearchError
from .distributions import CategoricalDistribution
from .trial import FrozenTrial, TrialState

STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "running": TrialState.RUNNING,
    "queued": TrialState.WAITING,
    "paused": TrialState.WAITING,
}


class Done(HpsearchError):
    """There is no trial to run."""


def number_in(answer: Mapping[str, Any]) -> int:
    """The trial that an answer to `ask` gives."""
    number: int = answer["resume"] if "resume" in answer else answer["id"]
    return number


def last_report(trial: FrozenTrial) -> Optional[float]:
    """The value of a pruned trial; NaN is none."""
    last = trial.last_step
    value = None if last is None else trial.intermediate_values[last]
    return None if value != value else value


def common_numbers(trials: Sequence[FrozenTrial]) -> List[Dict[str, Any]]:
    """The parameters that are numbers and that all trials have."""
    common = set.intersection(*(set(trial.distributions) for trial in trials))
    return [
        distribution._parameter(name)
        for name, distribution in trials[0].distributions.items()
        if name in common and not isinstance(distribution, CategoricalDistribution)
    ]


def as_list(values: Any) -> List[Any]:
    """The values of a trial, of which one may stand alone."""
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    return list(values) if is_list else [values]


def default_names(count: int) -> List[str]:
    """The names that metrics have in a store where none are given."""
    return ["value"] if count == 1 else [f"value_{index}" for index in range(count)]


def end_line(number: int, state: TrialState, values: Optional[List[float]],
          constraints: Mapping[str, float], reason: Optional[str]) -> Dict[str, Any]:
    """A request that ends a trial."""
    request: Dict[str, Any] = {"cmd": "tell", "id": number}
    if state != TrialState.COMPLETE:
        request["state"] = "pruned" if state == TrialState.PRUNED else "failed"
        if state == TrialState.FAIL and reason is not None:
            request["reason"] = reason
        return request
    assert values is not None
    request.update({"values": values} if len(values) > 1 else {"value": values[0]})
    if constraints:
        request["metrics"] = dict(constraints)
    return request
