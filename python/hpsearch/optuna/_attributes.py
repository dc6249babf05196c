"""User attributes in a store: notes that read `name: JSON`, as those of an imported study do, and
the summaries of trials that were imported from Optuna."""

import datetime
import json
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .._binary import json_of, output_of
from .distributions import BaseDistribution, of_store


#: The most bytes of a note.
_LONGEST = 4000


class Stored:
    """What a store has of a study beyond what `ask-tell` says."""

    def __init__(self, path: str, study: str) -> None:
        self._path = path
        self._study = study

    def write(self, trial: Optional[int], key: str, value: Any) -> None:
        """Stores an attribute of a trial, or of the study.

        Raises TypeError for what JSON does not have, ValueError for what is too long, and
        HpsearchError if it cannot be stored.
        """
        text = f"{key}: {_json(key, value)}"
        size = len(text.encode(errors="replace"))
        if size > _LONGEST:
            raise ValueError(
                f"the user attribute `{key}` has {size} bytes with its name, and {_LONGEST} can be "
                "stored: write it to a file, and set the path"
            )
        json_of(["note", f"--message={text}"], self._path, self._names(trial))

    def read(self, trial: Optional[int]) -> Dict[str, Any]:
        """The attributes of a trial, or of the study."""
        notes = json_of(["note"], self._path, self._names(trial))["notes"]
        return _attributes(note["text"] for note in notes if note["trial"] == trial)

    def trials(self) -> List[Dict[str, Any]]:
        """The attributes of every trial, as `user_attrs`, and when it ran; of an imported one also
        its `constraints`."""
        words = ["export-data", "--format", "json", "--hidden"]
        rows = json.loads(output_of(words, self._path, [self._study]))
        return [
            {
                "number": row["number"],
                **_imported(row, _attributes(row["notes"])),
                "datetime_start": _local(row.get("started")),
                "datetime_complete": _local(row.get("finished")),
            }
            for row in rows
        ]

    def space(self) -> Dict[str, BaseDistribution]:
        """The parameters of the study."""
        parameters = json_of(["show"], self._path, [self._study])["specification"]["space"]
        return {one["name"]: of_store(one["distribution"]) for one in parameters}

    def _names(self, trial: Optional[int]) -> List[str]:
        return [self._study] if trial is None else [self._study, str(trial)]


def _json(key: str, value: Any) -> str:
    def own(of: Any) -> Any:
        # A number of numpy or torch.
        if hasattr(of, "item"):
            return of.item()
        raise TypeError(f"the user attribute `{key}` has {of!r}, which JSON does not have")

    return json.dumps(value, default=own, ensure_ascii=False)


def _imported(row: Dict[str, Any], later: Dict[str, Any]) -> Dict[str, Any]:
    """The attributes of a trial, and the constraints that it had in Optuna."""
    origin = row.get("origin")
    source = origin.get("imported", "") if isinstance(origin, dict) else ""
    if not source.startswith("optuna:"):
        return {"user_attrs": later}
    attributes, constraints = {}, {}
    for name, value in (row.get("summary") or {}).items():
        value = _composite(value)
        if name == "constraints" and isinstance(value, list):
            constraints.update({f"constraint_{at}": one for at, one in enumerate(value)})
        elif name.startswith("constraints:"):
            constraints[name.partition(":")[2]] = value
        else:
            attributes[name] = value
    return {"user_attrs": {**attributes, **later}, "constraints": constraints}


def _composite(value: Any) -> Any:
    """A list, an object, None or NaN, of which an imported summary has the JSON as text."""
    if isinstance(value, str) and (value[:1] in ("[", "{") or value in _WORDS):
        try:
            return json.loads(value)
        except ValueError:
            pass
    return value


#: What Optuna's JSON has beside strings, numbers, booleans, lists and objects.
_WORDS = ("null", "NaN", "Infinity", "-Infinity")


def _attributes(notes: Iterable[str]) -> Dict[str, Any]:
    """Those of the notes that are attributes; the last of a name stands."""
    return dict(one for one in map(_attribute, notes) if one is not None)


def _attribute(text: str) -> Optional[Tuple[str, Any]]:
    key, separator, rest = text.partition(": ")
    while separator:
        try:
            return key, json.loads(rest)
        except ValueError:
            # The name may have a colon, too.
            more, separator, rest = rest.partition(": ")
            key = f"{key}: {more}"
    return None


def _local(time: Optional[str]) -> Optional[datetime.datetime]:
    """A time of the store, `2026-01-31T12:00:00.5Z`, as Optuna has it: local, without a zone."""
    if time is None:
        return None
    whole, _, fraction = time.rstrip("Z").partition(".")
    moment = datetime.datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")
    return moment.astimezone().replace(tzinfo=None)
