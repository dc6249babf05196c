"""Optuna's stores of artifacts, which there are not."""

from ._missing import missing

__getattr__ = missing(
    "artifacts",
    "write the file yourself and keep its path, `trial.set_user_attr(\"model\", path)`; "
    "`hpsearch.init` logs runs with their files (`run.artifact`)",
)
