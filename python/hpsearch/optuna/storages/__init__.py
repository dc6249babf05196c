"""Storages by Optuna's names: stores of hpsearch, or memory."""

from typing import Any, Optional

from .._missing import missing
from . import journal

__all__ = ["InMemoryStorage", "RDBStorage", "journal"]


class RDBStorage:
    """The store at a URL, `sqlite:///runs/hpsearch.db`; nothing else has an effect."""

    def __init__(self, url: str, engine_kwargs: Any = None, skip_compatibility_check: bool = False,
                 *, heartbeat_interval: Optional[int] = None, grace_period: Optional[int] = None,
                 failed_trial_callback: Any = None, skip_table_creation: bool = False) -> None:
        if failed_trial_callback is not None:
            raise NotImplementedError(
                "hpsearch.optuna has no `failed_trial_callback`: a trial of a program that was "
                "killed is given again without it"
            )
        self._hpsearch_path: Any = url

    def __repr__(self) -> str:
        return f"RDBStorage({self._hpsearch_path!r})"


class InMemoryStorage:
    """No store."""

    _hpsearch_path = None


__getattr__ = missing(
    "storages",
    "give the path of an hpsearch store, `storage=\"runs/hpsearch.db\"`, which several programs of "
    "a machine may share",
)
