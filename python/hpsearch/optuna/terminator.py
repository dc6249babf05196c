"""Optuna's terminators, which there are not."""

from ._missing import missing

__getattr__ = missing(
    "terminator",
    "`n_trials` and `timeout` end a search, and a callback that calls `study.stop()`",
)
