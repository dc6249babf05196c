"""The distributions of parameters."""

from typing import Any, Dict, Optional, Sequence


class BaseDistribution:
    """What values a parameter may have."""

    def _parameter(self, name: str) -> Dict[str, Any]:
        raise NotImplementedError

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
        self.low, self.high, self.log, self.step = float(low), float(high), log, step

    def _parameter(self, name: str) -> Dict[str, Any]:
        parameter = {"name": name, "type": "float", "low": self.low, "high": self.high}
        return _with(parameter, self.log, self.step)


class IntDistribution(BaseDistribution):
    """An integer."""

    def __init__(self, low: int, high: int, log: bool = False, step: int = 1) -> None:
        if log and step != 1:
            raise ValueError("`log` and `step` cannot be given together")
        self.low, self.high, self.log, self.step = int(low), int(high), log, int(step)

    def _parameter(self, name: str) -> Dict[str, Any]:
        parameter = {"name": name, "type": "int", "low": self.low, "high": self.high}
        return _with(parameter, self.log, None if self.step == 1 else self.step)


class CategoricalDistribution(BaseDistribution):
    """One of several choices: None, strings, numbers, booleans, and tuples or lists of these."""

    def __init__(self, choices: Sequence[Any]) -> None:
        self.choices = tuple(choices)
        if not self.choices:
            raise ValueError("the list of choices is empty")

    def _parameter(self, name: str) -> Dict[str, Any]:
        for choice in self.choices:
            if choice is not None and not _is_choice(choice):
                raise ValueError(
                    f"`{name}`: {choice!r} cannot be a choice: None, strings, numbers, booleans, "
                    "and tuples or lists of these can"
                )
        return {"name": name, "type": "cat", "choices": list(self.choices)}

    def _own(self, value: Any) -> Any:
        """The program's own object for a choice as JSON has it: a tuple, not a list; 1, not 1.0."""
        for choice in self.choices:
            if _listed(choice) == value and isinstance(choice, bool) == isinstance(value, bool):
                return choice
        return value


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
