"""Studies and trials of a store as lists of dictionaries, which pandas and polars take."""

import os
from typing import Any, Dict, List, Optional, Union

from ._binary import json_of

Path = Union[str, "os.PathLike[str]"]


def studies(store: Optional[Path] = None) -> List[Dict[str, Any]]:
    """The studies of a store, one flat dictionary each.

    `store` is HPSEARCH_STORE or `runs/hpsearch.db` unless given.
    Raises HpsearchError if the store cannot be read.
    """
    listed = json_of(["ls"], _path(store))["studies"]
    # A study without a complete trial has the columns of its best, too.
    none = {"number": None, "value": None}
    listed = [{**study, "best": study.get("best") or none} for study in listed]
    return [_flat(study, {"trials": "trials_", "best": "best_"}) for study in listed]


def trials(study: Optional[str] = None, store: Optional[Path] = None) -> List[Dict[str, Any]]:
    """The trials of a study by number, one flat dictionary each.

    Parameters are keys that begin with `params_`; an inactive one is missing in its trial's
    dictionary. The study may be left out where the store holds only one.
    Raises HpsearchError if there is no such study.
    """
    names = [] if study is None else [study]
    listed = json_of(["trials", "--sort", "number"], _path(store), names)["trials"]
    return [_flat(trial, {"params": "params_"}) for trial in listed]


def _path(store: Optional[Path]) -> Optional[str]:
    return None if store is None else os.fspath(store)


def _flat(row: Dict[str, Any], prefixes: Dict[str, str]) -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for name, value in row.items():
        prefix = prefixes.get(name)
        if prefix is None or not isinstance(value, dict):
            flat[name] = value
            continue
        for inner, below in value.items():
            flat[prefix + inner] = below
    return flat
