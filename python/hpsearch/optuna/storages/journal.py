"""Optuna's journals, which there are not."""

from .._missing import missing

__getattr__ = missing(
    "storages.journal",
    "give the path of an hpsearch store, `storage=\"runs/hpsearch.db\"`, which several programs of "
    "a machine may share",
)
