"""The search behind a study: it is released while no trial runs, begun again with what is known
since, and shared by the objects that this program has for the study."""

import contextlib
import itertools
import random
import threading
import uuid
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Union

from .._binary import HpsearchError
from .._search import Search
from ._attributes import Stored
from ._direction import StudyDirection
from ._lines import common_numbers, default_names, end_line, number_in
from ._reader import Reader
from .distributions import _plain
from .pruners import BasePruner
from .samplers import BaseSampler
from .trial import FrozenTrial, TrialState


class StudySearch:
    """What a study asks and tells."""

    def __init__(self, request: Dict[str, Any], name: Optional[str], path: Optional[str],
                 sampler: BaseSampler, pruner: BasePruner, reader: Optional[Reader]) -> None:
        self._search: Union[Search, Reader] = (
            Search(name if path is not None else None, request, path) if reader is None else reader
        )
        # Begun again, it is this one, and no other of its name.
        self._request = {**request, "study_id": self._search.study_id}
        self.study_name = name or f"no-name-{uuid.uuid4()}"
        #: The direction of each objective.
        self.directions = [StudyDirection(word) for word in request["directions"]]
        self._sampler = sampler
        self._pruner = pruner
        self._path = path
        self._stored = None if path is None or name is None else Stored(path, name)
        #: Reads the store while the search is released.
        self._reader: Optional[Reader] = None
        #: What this program enqueued, by the numbers of its trials.
        self._enqueued: Dict[int, Dict[str, Any]] = {}
        #: Answers to `ask` that are for later.
        self._ahead: List[Dict[str, Any]] = []
        #: The limits of trials that have ended.
        self._limits: Set[str] = set()
        # The loops of `optimize`.
        self._loops = 0
        self._trials: Dict[int, FrozenTrial] = {}
        # Those that this program ran, of which it knows more than the study.
        self._own: Set[int] = set()
        # Of what is known about trials: `optimize` may have several threads.
        self._guard = threading.RLock()
        # In a grid, each trial has the cell of its number.
        self._cells = grid_cells(sampler)

    def _say(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        with self._guard:
            if self._reader is not None and request["cmd"] == "trials":
                return self._reader._say(request)
            search = self._held()
        return search._say(request)

    def _held(self) -> Union[Search, Reader]:
        """The search, begun again if it was released.

        Raises HpsearchError if the study is no longer there, or cannot be had.
        """
        with self._guard:
            if self._reader is not None:
                # Its other objects were released with it, and share the new search.
                self._begin_again()
                self._lead(self._objects())
            return self._search

    def _release(self) -> None:
        """Gives a stored study back while none of its trials runs here: other commands may rename
        or remove it, and other programs may change it. What is asked until the next trial is read
        from the store."""
        if self._stored is None or isinstance(self._search, Reader):
            return
        objects = self._objects()
        with contextlib.ExitStack() as guards:
            for one in objects:
                # Without waiting: two threads may do this at the same time.
                if not one._guard.acquire(blocking=False):
                    return
                guards.callback(one._guard.release)
            if any(one._has_running() or one._search._loops > 0 for one in objects):
                return
            for one in objects:
                names = one._request.get("metric_names") or default_names(len(one.directions))
                metric = names[0] if len(names) == 1 else None
                one._reader = Reader(one._path or "", one.study_name, metric, False)
                one._ahead = []
                one._search.close()

    def _is_same(self, other: "StudySearch") -> bool:
        """Whether this is another object for a stored study, which may have a new one's name."""
        own, others = self._request["study_id"], other._request["study_id"]
        return self._stored is not None and bool(own == others)

    def _objects(self) -> "List[StudySearch]":
        """This program's objects for the stored study."""
        return [one for one in open_objects(self._path, self.study_name) if self._is_same(one)]

    def _sharing(self) -> "List[StudySearch]":
        """This object and others, whose trials are asked for with one search."""
        others = [one for one in self._objects() if one is not self]
        return [self, *(one for one in others if one._search is self._search)]

    def _next_answer(self) -> Dict[str, Any]:
        """The answer to `ask`, which keeps the trials that other threads run."""
        running = {number for one in self._sharing() for number in list(one._own)
                   if one._trials[number].state == TrialState.RUNNING}
        return self._say({"cmd": "ask", **({"running": sorted(running)} if running else {})})

    def _has_running(self) -> bool:
        return any(self._trials[number].state == TrialState.RUNNING for number in list(self._own))

    def _best(self) -> Dict[str, Any]:
        return (self._reader or self._search).best()

    def _count_loops(self, more: int) -> None:
        with self._guard:
            search = self._held()
            self._loops += more
            search._count_loops(more)

    def _reopen(self, **changes: Any) -> None:
        """Describes the study anew, with other things than before; no trial may be running.

        Raises HpsearchError if that is refused; the study is then as it was.
        """
        with self._guard:
            if isinstance(self._search, Reader):
                raise HpsearchError(self._search.why)
            others = [one for one in self._objects() if one is not self]
            running = [number for one in (self, *others) for number in list(one._own)
                       if one._trials[number].state == TrialState.RUNNING]
            if running:
                raise RuntimeError(
                    f"trial {min(running)} is running: tell it, then set another sampler or pruner"
                )
            before, request = self._held(), {**self._request, **changes, "accept": True}
            if self._stored is None:
                search, ahead = Search(None, request, None), []
                for number in sorted(self._trials):
                    trial = self._trials[number]
                    if trial.state == TrialState.WAITING:
                        search.enqueue(self._enqueued.get(number, trial.params))
                        ahead.append(search._say({"cmd": "ask"}))
                    else:
                        self._replay(search._say, number_in(search._say({"cmd": "ask"})), trial)
                before.close()
                self._search, self._ahead = search, ahead
            else:
                before.close()
                self._ahead = []
                try:
                    self._search = Search(self.study_name, request, self._path)
                except HpsearchError as error:
                    try:
                        self._begin_again()
                        self._lead(others)
                    except HpsearchError:
                        # The other program has changed it, too.
                        pass
                    raise HpsearchError(
                        f"{error}. Another sampler or pruner, CmaEsSampler and limits begin while "
                        "one program runs the study: start the others when its first trials are "
                        "complete"
                    ) from error
            self._request = request
            self._search._loops = before._loops
            self._lead(others)

    def _begin_again(self) -> None:
        """Continues with a new search, in place of one that was closed."""
        self._search = Search(self.study_name, {**self._request, "accept": True}, self._path)
        self._ahead, self._reader = [], None

    def _lead(self, others: "Sequence[StudySearch]") -> None:
        """Gives its search to other objects for this study, whose searches it has closed: one is
        that of a notebook's cell which runs again."""
        for other in others:
            if not other._search._is_closed:
                continue
            other._search, other._request, other._ahead = self._search, self._request, []
            other._reader = None
            other._sampler, other._pruner = self._sampler, self._pruner
            other._cells = self._cells
            # They are given again.
            other._own -= {number for number in list(other._own)
                           if other._trials[number].state == TrialState.RUNNING}

    def _replay(
        self, say: Callable[[Dict[str, Any]], Any], number: int, trial: FrozenTrial
    ) -> None:
        """Gives a new trial the parameters, reports and end of one that has ended."""
        for name, value in trial.params.items():
            parameter = trial.distributions[name]._parameter(name)
            say({"cmd": "suggest", "id": number, "param": parameter,
                 "value": [_plain(value)]})
        if len(self.directions) == 1:
            for step, value in sorted(trial.intermediate_values.items()):
                say({"cmd": "report", "id": number, "step": step, "value": value})
        say(end_line(number, trial.state, trial.values, trial.constraints, None))

    def _changes(self) -> Dict[str, Any]:
        """What of the study is known only since its first trials have ended."""
        changes: Dict[str, Any] = {}
        sampler = self._sampler
        spec = sampler._spec_for(len(self.directions))
        if sampler._n_random and self._request.get("sampler") != spec:
            ended = [trial for trial in self._trials.values()
                     if trial.state == TrialState.COMPLETE and trial.distributions]
            space = common_numbers(ended) if len(ended) >= sampler._n_random else []
            if space:
                changes["sampler"] = spec
                if self._stored is None:
                    changes["space"] = space
        known = self._request.get("constraints", [])
        limits = [{"limit": f"{name} <= 0"} for name in sorted(self._limits)]
        if any(limit not in known for limit in limits):
            changes["constraints"] = known + [limit for limit in limits if limit not in known]
        return changes

    def _settle(self) -> None:
        """Describes the study anew if its first trials say more about it, and none is running."""
        with self._guard:
            changes = {} if self._has_running() else self._changes()
            if changes:
                self._reopen(**changes)


#: The studies of this program.
OPEN: "weakref.WeakSet[StudySearch]" = weakref.WeakSet()


def open_objects(path: Optional[str], name: Optional[str]) -> List[StudySearch]:
    """This program's objects for a stored study, those included that have released it."""
    return [study for study in list(OPEN) if (study._path, study.study_name) == (path, name)
            and (study._reader is not None or not study._search._is_closed)]


def grid_cells(sampler: BaseSampler) -> List[Dict[str, Any]]:
    """The configurations of a grid, in their order."""
    grid = getattr(sampler, "_grid", None)
    if not grid:
        return []
    cells = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    random.Random(sampler._seed or 0).shuffle(cells)
    return cells
