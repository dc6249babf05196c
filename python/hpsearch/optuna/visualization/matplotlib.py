"""Optuna's plots, which Optuna itself draws with matplotlib if both are installed."""

from typing import Any

from .. import _drawing


def is_available() -> bool:
    """Whether Optuna and matplotlib are installed."""
    return _drawing.is_available("visualization.matplotlib")


_named = _drawing.plots("visualization.matplotlib")


def __getattr__(name: str) -> Any:
    return _named(name)
