"""Trials as a pandas.DataFrame."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from .trial import FrozenTrial

#: The attributes of trials that are shown unless others are named.
COLUMNS = ("number", "value", "datetime_start", "datetime_complete", "duration", "params",
           "user_attrs", "system_attrs", "state")
#: Those that may be named.
_ATTRIBUTES = (*COLUMNS, "values", "intermediate_values", "distributions", "constraints",
               "last_step")
_DICTIONARIES = ("params", "user_attrs", "system_attrs", "intermediate_values", "distributions",
                 "constraints")

Column = Tuple[str, str]


def frame(trials: Sequence[FrozenTrial], attrs: Sequence[str], multi_index: bool,
          objectives: int, metric_names: Optional[Sequence[str]]) -> Any:
    """A row for each trial, and the columns of these attributes: `params_x`, or `("params", "x")`
    with `multi_index`."""
    import pandas

    columns: Dict[Column, List[Any]] = {}
    for attr in attrs:
        if attr not in _ATTRIBUTES:
            raise ValueError(f"trials have no attribute {attr!r}: {', '.join(_ATTRIBUTES)}")
        if attr == "values" or attr == "value" and (objectives > 1 or metric_names):
            labels = metric_names or [str(index) for index in range(objectives)]
            for index, label in enumerate(labels):
                columns["values" if objectives > 1 else attr, label] = [
                    None if trial.values is None else trial.values[index] for trial in trials
                ]
        elif attr in _DICTIONARIES:
            of = [getattr(trial, attr) for trial in trials]
            for name in sorted({name for one in of for name in one}):
                columns[attr, str(name)] = [one.get(name) for one in of]
        elif attr == "state":
            columns[attr, ""] = [trial.state.name for trial in trials]
        else:
            columns[attr, ""] = [getattr(trial, attr) for trial in trials]
    flat = {"_".join(filter(None, column)): values for column, values in columns.items()}
    made = pandas.DataFrame(flat)
    if multi_index:
        made.columns = pandas.MultiIndex.from_tuples(list(columns))
    return made
