"""The parameters of a run: a dictionary that records what is set in it."""

from typing import Any, Callable, Dict, Tuple


class Params(Dict[str, Any]):
    """The parameters; `params["lr"] = 0.1`, `params.lr = 0.1` and `params.update(lr=0.1)` record.

    Attributes are those whose names are no methods of a dictionary. What is removed stays recorded.
    """

    __slots__ = ("_record",)

    def __init__(self, values: Dict[str, Any], record: Callable[[Dict[str, Any]], None]) -> None:
        super().__init__(values)
        object.__setattr__(self, "_record", record)

    def _learn(self, values: Dict[str, Any]) -> None:
        """Takes values that are recorded."""
        super().update(values)

    def __setitem__(self, name: str, value: Any) -> None:
        self._record({name: value})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the run has no parameter `{name}`") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *values: Any, **named: Any) -> None:  # type: ignore[override]
        """Records all of them at once."""
        found = dict(*values, **named)
        if found:
            self._record(found)

    def setdefault(self, name: str, value: Any = None) -> Any:  # type: ignore[override]
        """The parameter, which is recorded if there was none."""
        if name not in self:
            self[name] = value
        return self[name]

    def __ior__(self, values: Any) -> "Params":  # type: ignore[override,misc]
        self.update(values)
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        # A copy, or one in another process, records nothing.
        return dict, (dict(self),)
