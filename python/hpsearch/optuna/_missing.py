"""What Optuna has and hpsearch has not: it is imported, and says what to take when it is used."""

from typing import Any, Callable


def missing(module: str, instead: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names raise NotImplementedError with `instead` when they
    are called."""

    def named(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"hpsearch.optuna has no `{module}.{name}`")

        def refuse(self: Any, *_args: Any, **_options: Any) -> None:
            raise NotImplementedError(f"hpsearch.optuna has no `{module}.{name}`: {instead}")

        return type(name, (), {"__init__": refuse})

    return named
