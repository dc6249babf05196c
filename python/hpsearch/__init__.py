"""hpsearch for Python programs: log runs, take part in a search, read results.

    import hpsearch

    with hpsearch.init(study="digits", config={"lr": 0.1}) as run:
        for step in range(100):
            run.log({"loss": train(run.params["lr"])}, step=step)
            if run.should_stop:
                break

Inside a trial of a search the same program gets its parameters from the search and reports to it.
By itself its run goes into the store (`runs/hpsearch.db`, or HPSEARCH_STORE).
"""

from typing import TYPE_CHECKING, Any

from ._binary import HpsearchError
from ._init import artifact, checkpoint, finish, image, init, log, summary, table, text
from ._rows import series, studies, trials
from ._run import Run

if TYPE_CHECKING:
    from ._search import AskedTrial, Search, study

__all__ = [
    "AskedTrial",
    "HpsearchError",
    "Run",
    "Search",
    "artifact",
    "checkpoint",
    "finish",
    "image",
    "init",
    "log",
    "series",
    "studies",
    "study",
    "summary",
    "table",
    "text",
    "trials",
]

# Programs that only log do not wait for what a search needs.
_LATER = frozenset(("AskedTrial", "Search", "study"))
_MODULES = frozenset(("integrations", "optuna"))


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from . import _search

        return getattr(_search, name)
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module `hpsearch` has no attribute `{name}`")


def __dir__() -> "list[str]":
    return sorted({*globals(), *_LATER, *_MODULES})
