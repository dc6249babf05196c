"""Callbacks and loggers for training libraries, each imported when it is asked for.

`HpsearchCallback` is for transformers' Trainer, `HpsearchLogger` for Lightning, and
`KerasCallback` for Keras.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .keras import KerasCallback
    from .lightning import HpsearchLogger
    from .transformers import HpsearchCallback

__all__ = ["HpsearchCallback", "HpsearchLogger", "KerasCallback"]

_MODULES = {
    "HpsearchCallback": "transformers",
    "HpsearchLogger": "lightning",
    "KerasCallback": "keras",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module `hpsearch.integrations` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> "list[str]":
    return sorted({*globals(), *_MODULES})
