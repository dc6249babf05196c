"""Optuna's callbacks for training libraries, which there are not."""

from ._missing import missing

__getattr__ = missing(
    "integration",
    "call `trial.report` and `trial.should_prune` in a callback of the library; a command that "
    "`hpsearch run` starts uses `hpsearch.integrations`",
)
