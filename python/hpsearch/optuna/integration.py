"""Optuna's callbacks for training libraries, which the package `optuna-integration` has."""

from typing import Any

from ._missing import missing

_missing = missing(
    "integration",
    "install `optuna-integration`, whose callbacks take these trials, or call `trial.report` and "
    "`trial.should_prune` in a callback of the library; a command that `hpsearch run` starts uses "
    "`hpsearch.integrations`",
)


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        try:
            import optuna_integration
        except ImportError:
            pass
        else:
            return getattr(optuna_integration, name)
    return _missing(name)
