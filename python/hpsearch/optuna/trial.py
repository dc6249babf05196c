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
    _plain,
    check_distribution_compatibility,
    own,
)
from .exceptions import TrialPruned

if TYPE_CHECKING:
    from ._study import Study

__all__ = ["BaseTrial", "FixedTrial", "FrozenTrial", "Trial", "TrialPruned", "TrialState",
           "create_trial"]


class TrialState(enum.IntEnum):
    """How far a trial is."""

    RUNNING = 0
    COMPLETE = 1
    PRUNED = 2
    FAIL = 3
    WAITING = 4

    # Python's own is the number.
    __str__ = enum.Enum.__str__

    def is_finished(self) -> bool:
        """Whether it has ended."""
        return self not in (TrialState.RUNNING, TrialState.WAITING)


class BaseTrial:
    """What is given to objectives."""

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

    def _suggest(self, name: str, distribution: BaseDistribution) -> Any:
        raise NotImplementedError


class FrozenTrial(BaseTrial):
    """A trial as it is, or was; an objective that is given it gets its parameters again."""

    def __init__(
        self,
        number: int,
        state: TrialState = TrialState.RUNNING,
        value: Optional[float] = None,
        datetime_start: Optional[datetime.datetime] = None,
        datetime_complete: Optional[datetime.datetime] = None,
        params: Optional[Dict[str, Any]] = None,
        distributions: Optional[Dict[str, BaseDistribution]] = None,
        user_attrs: Optional[Dict[str, Any]] = None,
        system_attrs: Optional[Dict[str, Any]] = None,
        intermediate_values: Optional[Dict[int, float]] = None,
        trial_id: Optional[int] = None,
        *,
        values: Optional[Sequence[float]] = None,
        constraints: Optional[Dict[str, float]] = None,
    ) -> None:
        if value is not None and values is not None:
            raise ValueError("give one of `value` and `values`")
        self.number = number
        self.state = state
        self.values: Optional[List[float]] = None if values is None else list(values)
        self.params: Dict[str, Any] = params or {}
        self.distributions: Dict[str, BaseDistribution] = distributions or {}
        self.user_attrs: Dict[str, Any] = user_attrs or {}
        self.system_attrs: Dict[str, Any] = system_attrs or {}
        self.intermediate_values: Dict[int, float] = intermediate_values or {}
        self.datetime_start = datetime_start
        self.datetime_complete = datetime_complete
        #: Its limits, which it satisfies with values of at most 0.
        self.constraints: Dict[str, float] = constraints or {}
        if value is not None:
            self.value = value

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
        """How long it took."""
        if self.datetime_start is None or self.datetime_complete is None:
            return None
        return self.datetime_complete - self.datetime_start

    @property
    def last_step(self) -> Optional[int]:
        """The step of its last report."""
        return max(self.intermediate_values, default=None)

    def report(self, value: float, step: int) -> None:
        """Does nothing: the trial has its reports."""

    def should_prune(self) -> bool:
        """No: it runs to its end when it is evaluated again."""
        return False

    def set_user_attr(self, key: str, value: Any) -> None:
        """Sets an attribute of this copy, not of the study's trial."""
        self.user_attrs[key] = value

    def _suggest(self, name: str, distribution: BaseDistribution) -> Any:
        if name not in self.params:
            raise ValueError(
                f"trial {self.number} has no parameter `{name}`: it has {', '.join(self.params)}"
            )
        if name in self.distributions:
            check_distribution_compatibility(self.distributions[name], distribution)
        value = self.params[name]
        if isinstance(distribution, CategoricalDistribution):
            # A store has lists for tuples.
            value = distribution._own(value)
        return _within(name, value, distribution)

    def set_constraint(self, key: str, value: float) -> None:
        """Sets a limit's value in this copy."""
        self.constraints[key] = float(value)

    def _is_infeasible(self) -> bool:
        return any(value > 0 for value in self.constraints.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenTrial) and vars(self) == vars(other)

    def __lt__(self, other: "FrozenTrial") -> bool:
        return self.number < other.number

    def __le__(self, other: "FrozenTrial") -> bool:
        return self.number <= other.number

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: Dict[int, Any]) -> "FrozenTrial":
        other = FrozenTrial(self.number)
        for name, value in vars(self).items():
            # Its thread may be adding to a dictionary.
            value = dict(value) if isinstance(value, dict) else value
            setattr(other, name, copy.deepcopy(value, memo))
        return other

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"FrozenTrial({shown})"


class FixedTrial(FrozenTrial):
    """Given parameters, to call an objective with: `objective(FixedTrial({"x": 1.0}))`."""

    def __init__(self, params: Mapping[str, Any], number: int = 0) -> None:
        super().__init__(number, datetime_start=datetime.datetime.now())
        self._given = dict(params)

    def _suggest(self, name: str, distribution: BaseDistribution) -> Any:
        if name not in self._given:
            raise ValueError(f"`{name}` is not one of the parameters of this FixedTrial")
        if name in self.distributions:
            check_distribution_compatibility(self.distributions[name], distribution)
        self.params[name] = self._given[name]
        self.distributions[name] = distribution
        return _within(name, self.params[name], distribution)

    def report(self, value: float, step: int) -> None:
        """Keeps the value."""
        self.intermediate_values.setdefault(_step(step), float(value))


def create_trial(
    *,
    state: TrialState = TrialState.COMPLETE,
    value: Optional[float] = None,
    values: Optional[Sequence[float]] = None,
    params: Optional[Mapping[str, Any]] = None,
    distributions: Optional[Mapping[str, BaseDistribution]] = None,
    user_attrs: Optional[Mapping[str, Any]] = None,
    system_attrs: Optional[Mapping[str, Any]] = None,
    intermediate_values: Optional[Mapping[int, float]] = None,
    constraints: Optional[Mapping[str, float]] = None,
) -> FrozenTrial:
    """A trial for `Study.add_trial`."""
    params, distributions = dict(params or {}), dict(distributions or {})
    if set(params) != set(distributions):
        raise ValueError(
            f"`params` has {sorted(params)}, and `distributions` has {sorted(distributions)}: "
            "each parameter needs its distribution"
        )
    for name, given in params.items():
        if not distributions[name]._contains(given):
            raise ValueError(f"`{name}` = {given!r} is not in {distributions[name]!r}")
    now = datetime.datetime.now()
    frozen = FrozenTrial(
        -1, state, value, None if state == TrialState.WAITING else now,
        now if state.is_finished() else None, params, distributions, dict(user_attrs or {}),
        dict(system_attrs or {}), dict(intermediate_values or {}), values=values,
        constraints=dict(constraints or {}),
    )
    if state == TrialState.COMPLETE and frozen.values is None:
        raise ValueError("a complete trial needs `value`, or `values`")
    if any(number != number for number in frozen.values or ()):
        raise ValueError("the value NaN is not acceptable")
    return frozen


def _within(name: str, value: Any, distribution: BaseDistribution) -> Any:
    if not distribution._contains(value):
        warnings.warn(f"`{name}` = {value!r} is not in {distribution!r}", stacklevel=4)
    return value


def _step(step: Any) -> int:
    try:
        whole = int(step)
    except (TypeError, ValueError):
        raise TypeError(f"`step` must be an integer, not {step!r}") from None
    if whole < 0:
        raise ValueError(f"`step` must be at least 0, not {step!r}")
    return whole


class _SystemAttributes:
    """Stands for Optuna's storage, of which there is nothing else."""

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Does nothing: only Optuna's terminator reads them."""


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
        #: What a sampler of the program's own proposes for all parameters together.
        self._relative: Dict[str, Any] = {}

    number = property(lambda self: self._frozen.number, doc="Its number.")
    params = property(lambda self: dict(self._frozen.params), doc="What was suggested so far.")
    distributions = property(lambda self: dict(self._frozen.distributions), doc="Of `params`.")
    user_attrs = property(lambda self: dict(self._frozen.user_attrs), doc="What was set.")
    system_attrs = property(lambda self: {}, doc="There are none.")
    constraints = property(lambda self: dict(self._frozen.constraints), doc="What was set.")
    datetime_start = property(lambda self: self._frozen.datetime_start, doc="Its beginning.")

    @property
    def relative_params(self) -> Dict[str, Any]:
        """What the sampler proposed when the trial began."""
        return dict(self._proposed)

    def report(self, value: float, step: int) -> None:
        """Reports the objective's value at a step; the first one of a step stands."""
        if len(self.study.directions) > 1:
            raise NotImplementedError(
                "`Trial.report` is for one objective: `hpsearch.study` reports several"
            )
        try:
            value = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"`value` must be a number, not {value!r}") from None
        step = _step(step)
        if step in self._frozen.intermediate_values:
            warnings.warn(
                f"step {step} was reported before: this value is ignored", stacklevel=2
            )
            return
        self._frozen.intermediate_values[step] = value
        try:
            answer = self.study._say(
                {"cmd": "report", "id": self.number, "step": step, "value": value}
            )
        except HpsearchError:
            if not (self._should_prune and self.study._was_pruned(self.number)):
                raise
            # After an earlier report was answered with `stop`.
            del self._frozen.intermediate_values[step]
            return
        self._should_prune = answer["verdict"] != "continue"

    def should_prune(self) -> bool:
        """Whether the last report was answered with `stop`; a pruner of the program's own is
        asked now."""
        pruner = self.study.pruner
        if pruner._is_own():
            return bool(pruner.prune(self.study, copy.deepcopy(self._frozen)))
        return self._should_prune

    def set_constraint(self, key: str, value: float) -> None:
        """Sets by how much the trial violates a limit: it satisfies one of at most 0."""
        if not key.isidentifier():
            raise ValueError(f"the name of a limit must be an identifier, not {key!r}")
        self._frozen.constraints[key] = float(value)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keeps something that JSON has with the trial, in the store of a stored study."""
        self.study._keep(self.number, key, value)
        self._frozen.user_attrs[key] = value

    @property
    def storage(self) -> "_SystemAttributes":
        """Takes the system attributes that callbacks of `optuna_integration` set."""
        return _SystemAttributes()

    @property
    def _trial_id(self) -> int:
        return self.number

    def _suggest(self, name: str, distribution: BaseDistribution) -> Any:
        distribution = own(distribution)
        known = self._frozen.params
        if name in known:
            self._compare(name, distribution)
            return known[name]
        request = {"cmd": "suggest", "id": self.number, "param": distribution._parameter(name)}
        given = self._given(name, distribution)
        if given:
            request["value"] = [_plain(given[0])]
        value = self.study._say(request)["value"]
        if isinstance(distribution, CategoricalDistribution):
            value = distribution._own(value)
        known[name] = value
        self._frozen.distributions[name] = distribution
        return value

    def _take_proposal(self) -> None:
        """Asks a sampler of the program's own for what it proposes together."""
        sampler, study = self.study.sampler, self.study
        sampler.before_trial(study, copy.deepcopy(self._frozen))
        space = sampler.infer_relative_search_space(study, copy.deepcopy(self._frozen))
        self._relative = dict(sampler.sample_relative(study, copy.deepcopy(self._frozen), space))
        self._proposed = dict(self._relative)

    def _given(self, name: str, distribution: BaseDistribution) -> List[Any]:
        """The value that is not for hpsearch to propose, if there is one: of a grid, a fixed one,
        or one of a sampler of the program's own."""
        enqueued = self.study._enqueued.get(self.number, {})
        if name in enqueued and not distribution._contains(enqueued[name]):
            raise ValueError(
                f"`{name}` was enqueued as {enqueued[name]!r}, which is not in {distribution!r}"
            )
        if name in self._fixed:
            return [self._fixed[name]]
        sampler = self.study.sampler
        if sampler._is_grid():
            raise ValueError(f"`{name}` is not in the grid: it has {', '.join(self._fixed)}")
        if not sampler._is_own():
            return []
        if name in self._relative and distribution._contains(self._relative[name]):
            return [self._relative[name]]
        frozen = copy.deepcopy(self._frozen)
        return [sampler.sample_independent(self.study, frozen, name, distribution)]

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
