"""Optuna's plots, which Optuna itself draws with plotly if both are installed."""

from typing import Any

from .. import _drawing
from . import matplotlib

__all__ = ["is_available", "matplotlib"]


def is_available() -> bool:
    """Whether Optuna and plotly are installed."""
    return _drawing.is_available("visualization")


_named = _drawing.plots("visualization")


def __getattr__(name: str) -> Any:
    return _named(name)
