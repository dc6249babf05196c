"""Studies and trials of a store as lists of dictionaries, which pandas and polars take."""

import json
import os
from typing import Any, Dict, List, Optional, Union

from ._binary import json_of, output_of

Path = Union[str, "os.PathLike[str]"]

_MOMENTS = ("created", "started", "finished")


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


def trials(
    study: Optional[str] = None, store: Optional[Path] = None, *, where: Optional[str] = None
) -> List[Dict[str, Any]]:
    """The trials of a study by number, one flat dictionary each.

    Parameters are keys that begin with `params_`; an inactive one is missing in its trial's
    dictionary. So are metrics, each as it was reported last (in a run without a search: reported or
    logged), that begin with `metrics_`, and the values of summaries, that begin with `summary_`.
    `created` is when it was proposed or begun, `started` when its last attempt started, `seconds`
    what all of its attempts took.
    `where` is a filter, such as `"state:complete lr<0.1"`. The study may be left out where the
    store holds only one.
    Raises HpsearchError if there is no such study.
    """
    names = [] if study is None else [study]
    options = [] if where is None else ["--where=" + where]
    words = ["trials", "--sort", "number", *options]
    listed = json_of(words, _path(store), names)["trials"]
    exported = {row["number"]: row for row in _exported(options, store, names)}
    for trial in listed:
        # A trial that is new since has none of these.
        row = exported.get(trial["number"], {})
        trial.update({key: row.get(key) for key in ("failures", *_MOMENTS)})
        trial["origin"] = _origin(row.get("origin"))
        for key in ("value", "last_value"):
            trial[key] = _number(trial[key])
        metrics = row.get("metrics") or {}
        trial["metrics"] = {name: _number(value) for name, value in metrics.items()}
        trial["summary"] = row.get("summary") or {}
    prefixes = {"params": "params_", "metrics": "metrics_", "summary": "summary_"}
    return [_flat(trial, prefixes) for trial in listed]


def series(
    study: Optional[str] = None, store: Optional[Path] = None, *, where: Optional[str] = None
) -> List[Dict[str, Any]]:
    """The curves of a study's trials: one dictionary for each point that was reported or logged.

    Each has `trial`, `metric`, `clock` (what `step` counts: `step` or `seconds`), `step`, `value`
    and `seconds` since the trial began. `where` and `study` are as in `trials`.
    Raises HpsearchError if there is no such study.
    """
    options = [] if where is None else ["--where=" + where]
    points = _exported(["--series", *options], store, [] if study is None else [study])
    return [{**point, "value": _number(point["value"])} for point in points]


def _exported(
    options: List[str], store: Optional[Path], names: List[str]
) -> List[Dict[str, Any]]:
    words = ["export-data", "--format", "json", *options]
    rows: List[Dict[str, Any]] = json.loads(output_of(words, _path(store), names))
    return rows


def _origin(origin: Any) -> Any:
    """The sampler, or the kind of another origin, as in the table of `export-data`."""
    if not isinstance(origin, dict):
        return origin
    kind, of = next(iter(origin.items()))
    return of if kind == "sampled" else kind


def _number(value: Any) -> Any:
    """A number as Python has it: JSON has words for NaN and the infinities."""
    return float(value) if isinstance(value, str) else value


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
