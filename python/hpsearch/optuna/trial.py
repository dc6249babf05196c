"""Trials: the one an objective is given, and those that have ended."""

import copy
import datetime
import enum
import warnings
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

from .._binary import HpsearchError
from .distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from .exceptions import TrialPruned

if TYPE_CHECKING:
    from .study import Study

__all__ = ["BaseTrial", "FrozenTrial", "Trial", "TrialPruned", "TrialState"]


class TrialState(enum.IntEnum):
    """How far a trial is."""

    RUNNING = 0
    COMPLETE = 1
    PRUNED = 2
    FAIL = 3
    WAITING = 4

    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self not in (TrialState.RUNNING, TrialState.WAITING)


class FrozenTrial:
    """A trial as it is, or was."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = TrialState.RUNNING
        self.values: Optional[List[float]] = None
        self.params: Dict[str, Any] = {}
        self.distributions: Dict[str, BaseDistribution] = {}
        self.user_attrs: Dict[str, Any] = {}
        self.system_attrs: Dict[str, Any] = {}
        self.intermediate_values: Dict[int, float] = {}
        self.datetime_start: Optional[datetime.datetime] = None
        self.datetime_complete: Optional[datetime.datetime] = None

    @property
    def value(self) -> Optional[float]:
        """The value of the one objective."""
        if self.values is not None and len(self.values) > 1:
            raise RuntimeError("a trial of several objectives has no `value`: use `values`")
        return None if self.values is None else self.values[0]

    @value.setter
    def value(self, value: Optional[float]) -> None:
        self.values = None if value is None else [value]

    @property
    def duration(self) -> Optional[datetime.timedelta]:
        """How long it took, of one that this program ran."""
        if self.datetime_start is None or self.datetime_complete is None:
            return None
        return self.datetime_complete - self.datetime_start

    @property
    def last_step(self) -> Optional[int]:
        """The step of its last report."""
        return max(self.intermediate_values, default=None)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "FrozenTrial":
        other = FrozenTrial(self.number)
        for name, value in vars(self).items():
            # Its thread may be adding to a dictionary.
            value = dict(value) if isinstance(value, dict) else value
            setattr(other, name, copy.deepcopy(value, memo))
        return other

    def __repr__(self) -> str:
        return (
            f"FrozenTrial(number={self.number}, state={self.state.name}, values={self.values}, "
            f"params={self.params})"
        )


class BaseTrial:
    """What is given to objectives."""


class Trial(BaseTrial):
    """A trial that runs."""

    def __init__(
        self, study: "Study", frozen: FrozenTrial, proposed: Mapping[str, Any],
        fixed: Mapping[str, Any],
    ) -> None:
        self.study = study
        self._frozen = frozen
        self._proposed = dict(proposed)
        self._fixed = dict(fixed)
        self._should_prune = False

    number = property(lambda self: self._frozen.number, doc="Its number.")
    params = property(lambda self: dict(self._frozen.params), doc="What was suggested so far.")
    distributions = property(lambda self: dict(self._frozen.distributions), doc="Of `params`.")
    user_attrs = property(lambda self: dict(self._frozen.user_attrs), doc="What was set.")
    system_attrs = property(lambda self: {}, doc="There are none.")
    datetime_start = property(lambda self: self._frozen.datetime_start, doc="Its beginning.")

    @property
    def relative_params(self) -> Dict[str, Any]:
        """What the sampler proposed when the trial began."""
        return dict(self._proposed)

    def suggest_float(
        self, name: str, low: float, high: float, *, step: Optional[float] = None,
        log: bool = False,
    ) -> float:
        """A real number from `low` to `high`."""
        return float(self._suggest(name, FloatDistribution(low, high, log=log, step=step)))

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int:
        """An integer from `low` to `high`."""
        return int(self._suggest(name, IntDistribution(low, high, log=log, step=step)))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """One of `choices`."""
        return self._suggest(name, CategoricalDistribution(choices))

    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        """The same as `suggest_float(name, low, high)`."""
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        """The same as `suggest_float(name, low, high, log=True)`."""
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> float:
        """The same as `suggest_float(name, low, high, step=q)`."""
        return self.suggest_float(name, low, high, step=q)

    def report(self, value: float, step: int) -> None:
        """Reports the objective's value at a step; the first one of a step stands."""
        if len(self.study.directions) > 1:
            raise NotImplementedError(
                "`Trial.report` is for one objective: `hpsearch.study` reports several"
            )
        step = int(step)
        if step in self._frozen.intermediate_values:
            return
        self._frozen.intermediate_values[step] = float(value)
        try:
            answer = self.study._say(
                {"cmd": "report", "id": self.number, "step": step, "value": float(value)}
            )
        except HpsearchError:
            if not (self._should_prune and self.study._was_pruned(self.number)):
                raise
            # By the `ask` of another thread, after an earlier report was answered with `stop`.
            del self._frozen.intermediate_values[step]
            return
        self._should_prune = answer["verdict"] != "continue"

    def should_prune(self) -> bool:
        """Whether the last report was answered with `stop`."""
        return self._should_prune

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keeps something that JSON has with the trial, in the store of a stored study."""
        self.study._keep(self.number, key, value)
        self._frozen.user_attrs[key] = value

    def _suggest(self, name: str, distribution: BaseDistribution) -> Any:
        known = self._frozen.params
        if name in known:
            self._compare(name, distribution)
            return known[name]
        request = {"cmd": "suggest", "id": self.number, "param": distribution._parameter(name)}
        if name in self._fixed:
            request["value"] = [self._fixed[name]]
        value = self.study._say(request)["value"]
        if isinstance(distribution, CategoricalDistribution):
            value = distribution._own(value)
        known[name] = value
        self._frozen.distributions[name] = distribution
        return value

    def _compare(self, name: str, distribution: BaseDistribution) -> None:
        """Compares a distribution with the first of the name, whose value stands, as Optuna does.

        Raises ValueError for another kind, another scale, or other choices.
        """
        first = self._frozen.distributions.get(name)
        if first is None or first == distribution:
            return
        if (
            type(first) is not type(distribution)
            or isinstance(first, CategoricalDistribution)
            or first.log != distribution.log  # type: ignore[attr-defined]
        ):
            raise ValueError(
                f"`{name}` was suggested from {first!r} in this trial, and cannot be suggested "
                f"from {distribution!r}"
            )
        warnings.warn(
            f"`{name}` was suggested from {first!r} in this trial: its value stays "
            f"{self._frozen.params[name]!r}, and {distribution!r} is ignored",
            RuntimeWarning,
            stacklevel=4,
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"hpsearch.optuna has no `Trial.{name}`")
