"""The distributions of parameters."""

import json
import math
import random
from typing import Any, Dict, Optional, Sequence, Union

from ._missing import missing

#: The largest bound of an integer, in either direction: the store's spaces have no larger ones.
_LARGEST_INT = 1 << 52

CategoricalChoiceType = Union[None, bool, int, float, str]


class BaseDistribution:
    """What values a parameter may have."""

    def _parameter(self, name: str) -> Dict[str, Any]:
        raise NotImplementedError

    def single(self) -> bool:
        """Whether there is one value only."""
        raise NotImplementedError

    def _contains(self, value: Any) -> bool:
        raise NotImplementedError

    def _draw(self, rng: random.Random) -> Any:
        raise NotImplementedError

    def _asdict(self) -> Dict[str, Any]:
        return dict(vars(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


class FloatDistribution(BaseDistribution):
    """A real number."""

    def __init__(
        self, low: float, high: float, log: bool = False, step: Optional[float] = None
    ) -> None:
        if log and step is not None:
            raise ValueError("`log` and `step` cannot be given together")
        _check(low, high, step, log)
        self.low, self.high, self.log, self.step = float(low), float(high), log, step

    def _parameter(self, name: str) -> Dict[str, Any]:
        parameter = {"name": name, "type": "float", "low": self.low, "high": self.high}
        return _with(parameter, self.log, self.step)

    def single(self) -> bool:
        return self.low == self.high

    def _contains(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)

    def _draw(self, rng: random.Random) -> float:
        if self.log:
            return math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        if self.step is None:
            return rng.uniform(self.low, self.high)
        # The last one may be a hair too small in binary.
        count = int((self.high - self.low) / self.step + 1e-8)
        return min(self.low + rng.randint(0, count) * self.step, self.high)


class IntDistribution(BaseDistribution):
    """An integer."""

    def __init__(self, low: int, high: int, log: bool = False, step: int = 1) -> None:
        if log and step != 1:
            raise ValueError("`log` and `step` cannot be given together")
        _check(low, high, step, log)
        self.low, self.high, self.log, self.step = int(low), int(high), log, int(step)

    def _parameter(self, name: str) -> Dict[str, Any]:
        if max(abs(self.low), abs(self.high)) > _LARGEST_INT:
            raise ValueError(
                f"`{name}`: the bounds of an integer must lie between -{_LARGEST_INT} and "
                f"{_LARGEST_INT} (2^52), not low={self.low} and high={self.high}: search an offset "
                "or an exponent instead"
            )
        parameter = {"name": name, "type": "int", "low": self.low, "high": self.high}
        return _with(parameter, self.log, None if self.step == 1 else self.step)

    def single(self) -> bool:
        return self.low == self.high

    def _contains(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high and value == int(value))

    def _draw(self, rng: random.Random) -> int:
        if self.log:
            drawn = math.exp(rng.uniform(math.log(self.low - 0.5), math.log(self.high + 0.5)))
            return min(max(round(drawn), self.low), self.high)
        return rng.randrange(self.low, self.high + 1, self.step)


class CategoricalDistribution(BaseDistribution):
    """One of several choices: None, strings, numbers, booleans, and tuples or lists of these."""

    def __init__(self, choices: Sequence[Any]) -> None:
        self.choices = tuple(choices)
        if not self.choices:
            raise ValueError("the list of choices is empty")

    def _parameter(self, name: str) -> Dict[str, Any]:
        choices = [_plain(choice) for choice in self.choices]
        for choice in choices:
            if choice is not None and not _is_choice(choice):
                raise ValueError(
                    f"`{name}`: {choice!r} cannot be a choice: None, strings, numbers, booleans, "
                    "and tuples or lists of these can"
                )
        return {"name": name, "type": "cat", "choices": choices}

    def single(self) -> bool:
        return len(self.choices) == 1

    def _contains(self, value: Any) -> bool:
        return any(_listed(choice) == _listed(value) for choice in self.choices)

    def _draw(self, rng: random.Random) -> Any:
        return rng.choice(self.choices)

    def _own(self, value: Any) -> Any:
        """The program's own object for a choice as JSON has it: a tuple, not a list; 1, not 1.0."""
        for choice in self.choices:
            own, given = _plain(choice), _plain(value)
            is_bool = isinstance(own, bool), isinstance(given, bool)
            if _listed(own) == _listed(given) and is_bool[0] == is_bool[1]:
                return choice
        return value


_KINDS = {kind.__name__: kind
          for kind in (FloatDistribution, IntDistribution, CategoricalDistribution)}


def own(distribution: Any) -> BaseDistribution:
    """A distribution of Optuna as one of these, which stay as they are."""
    kind = _KINDS.get(type(distribution).__name__)
    if isinstance(distribution, BaseDistribution) or kind is None:
        return distribution  # type: ignore[no-any-return]
    made: BaseDistribution = kind(**distribution._asdict())
    return made


def distribution_to_json(dist: BaseDistribution) -> str:
    """A distribution as JSON."""
    own = {"name": type(dist).__name__, "attributes": dist._asdict()}
    return json.dumps(own, default=_plain)


def json_to_distribution(json_str: str) -> BaseDistribution:
    """The distribution that `distribution_to_json` wrote."""
    told = json.loads(json_str)
    kind = _KINDS.get(told.get("name"))
    if kind is None:
        raise ValueError(f"{told.get('name')!r} is not one of {', '.join(_KINDS)}")
    made: BaseDistribution = kind(**told["attributes"])
    return made


def check_distribution_compatibility(
    dist_old: BaseDistribution, dist_new: BaseDistribution
) -> None:
    """Raises ValueError if one name cannot have both distributions in a study."""
    if type(dist_old) is not type(dist_new):
        raise ValueError("Cannot set different distribution kind to the same parameter name.")
    if isinstance(dist_old, CategoricalDistribution):
        if _listed(dist_old.choices) != _listed(dist_new.choices):  # type: ignore[attr-defined]
            raise ValueError("CategoricalDistribution does not support dynamic value space.")
    elif dist_old.log != dist_new.log:  # type: ignore[attr-defined]
        raise ValueError("Cannot set different log configuration to the same parameter name.")


def of_store(told: Dict[str, Any]) -> BaseDistribution:
    """A distribution as the specification of a study has it."""
    kind, own = next(iter(told.items()))
    if kind == "choice":
        return CategoricalDistribution(own["choices"])
    is_log, step = own["scale"] == "log", own["step"]
    if kind == "int":
        return IntDistribution(own["low"], own["high"], is_log, step or 1)
    return FloatDistribution(own["low"], own["high"], is_log, step)


def _check(low: Any, high: Any, step: Any, log: bool) -> None:
    if low > high:
        raise ValueError(f"`low <= high` must hold, but got (low={low}, high={high})")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"the bounds must be finite, but got (low={low}, high={high})")
    if log and low <= 0:
        raise ValueError(
            f"`low > 0` must hold for `log=True`, but got (low={low}, high={high})"
        )
    if step is not None and step <= 0:
        raise ValueError(f"`step > 0` must hold, but got step={step}")


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if hasattr(value, "item") else value


def _is_choice(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_choice(one) for one in value)
    return isinstance(value, (str, int, float, bool))


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, (list, tuple)) else value


def _with(parameter: Dict[str, Any], log: bool, step: Optional[float]) -> Dict[str, Any]:
    if log:
        parameter["log"] = True
    if step is not None:
        parameter["step"] = step
    return parameter


#: What to use for distributions that there are not.
_INSTEAD = {
    "UniformDistribution": "FloatDistribution(low, high)",
    "LogUniformDistribution": "FloatDistribution(low, high, log=True)",
    "DiscreteUniformDistribution": "FloatDistribution(low, high, step=q)",
    "IntUniformDistribution": "IntDistribution(low, high)",
    "IntLogUniformDistribution": "IntDistribution(low, high, log=True)",
}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        return missing("distributions", f"use {_INSTEAD[name]}")(name)
    raise AttributeError(
        f"hpsearch.optuna has no `distributions.{name}`: there are FloatDistribution, "
        "IntDistribution and CategoricalDistribution"
    )
