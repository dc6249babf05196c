"""Stands for the search of a study whose trials other programs run: it is read only."""

import json
from typing import Any, Dict, List, Mapping, Optional

from .._binary import HpsearchError, json_of, output_of


class Reader:
    """What a store has of a study, as `ask-tell` would say it."""

    _is_closed = False
    study_id = None
    _loops = 0

    def __init__(self, path: str, name: str, metric: Optional[str], is_tracked: bool) -> None:
        self._path = path
        self._names = [name]
        #: The one objective, whose reports are the intermediate values.
        self._metric = metric
        #: Why it has no trials to run.
        self.why = (
            f"study `{name}` has tracked runs, which `hpsearch.init` and `hpsearch track` begin"
            if is_tracked else
            f"study `{name}` is one of `hpsearch run`, which runs its trials: for more of them, "
            "raise the budget in its study file and run `hpsearch run` again"
        ) + "; hpsearch.optuna only reads it"

    def _say(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        if request["cmd"] == "trials":
            return {"trials": self._trials()}
        raise HpsearchError(self.why)

    def enqueue(self, params: Mapping[str, Any]) -> None:
        raise HpsearchError(self.why)

    def best(self) -> Dict[str, Any]:
        best = json_of(["best"], self._path, self._names)
        if "front" in best:
            return {"front": [{**one, "id": one["number"]} for one in best["front"]]}
        return {**best["trial"], "id": best["trial"]["number"]}

    def _count_loops(self, more: int) -> None:
        """Another program's search cannot take its place."""

    def close(self) -> None:
        """Nothing is open."""

    def _trials(self) -> List[Dict[str, Any]]:
        words = ["trials", "--sort", "number", "--hidden"]
        rows: List[Dict[str, Any]] = json_of(words, self._path, self._names)["trials"]
        reports: Dict[int, List[Any]] = {row["number"]: [] for row in rows}
        if self._metric is not None:
            for point in self._points():
                if point["metric"] == self._metric and point["trial"] in reports:
                    reports[point["trial"]].append([point["step"], point["value"]])
        return [{**row, "id": row["number"], "reports": reports[row["number"]]} for row in rows]

    def _points(self) -> List[Dict[str, Any]]:
        words = ["export-data", "--format", "json", "--series", "--hidden"]
        points: List[Dict[str, Any]] = json.loads(output_of(words, self._path, self._names))
        return points
