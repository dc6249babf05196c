"""Studies: create_study, load_study and what they return."""

import copy
import datetime
import json
import os
import threading
import time
import warnings
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Type, Union

from .._binary import HpsearchError
from .._search import Search
from .._store import path_of
from .._values import direction as _direction
from . import logging
from ._attributes import Stored
from .distributions import BaseDistribution
from .exceptions import DuplicatedStudyError, TrialPruned
from .pruners import BasePruner, MedianPruner, NopPruner
from .samplers import BaseSampler, NSGAIISampler, TPESampler
from .trial import FrozenTrial, Trial, TrialState

_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "running": TrialState.RUNNING,
    "queued": TrialState.WAITING,
    "paused": TrialState.WAITING,
}


#: The attributes of trials that `trials_dataframe` shows.
_COLUMNS = ("number", "value", "datetime_start", "datetime_complete", "duration", "params",
            "user_attrs", "system_attrs", "state")


class _Done(HpsearchError):
    """There is no trial to run."""


class StudyDirection:
    """Which way values get better."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class MaxTrialsCallback:
    """Ends `optimize` once the study has this many trials in some states."""

    def __init__(self, n_trials: int,
                 states: Optional[Sequence[TrialState]] = (TrialState.COMPLETE,)) -> None:
        self._n_trials = n_trials
        self._states = states

    def __call__(self, study: "Study", trial: FrozenTrial) -> None:
        if len(study._listed(self._states)) >= self._n_trials:
            study.stop()


class Study:
    """A search; made by `create_study` and `load_study`."""

    def __init__(self, search: Search, name: Optional[str], directions: List[str],
                 sampler: BaseSampler, pruner: BasePruner, stored: Optional[Stored]) -> None:
        self._search = search
        self.study_name = name or "no-name"
        #: The direction of each objective.
        self.directions = directions
        self.sampler = sampler
        self.pruner = pruner
        self._stored = stored
        self._user_attrs: Dict[str, Any] = {}
        self._enqueued: List[Dict[str, Any]] = []
        self._stopped = False
        self._trials: Dict[int, FrozenTrial] = {}
        # Those that this program ran, of which it knows more than the study.
        self._own: Set[int] = set()
        # Those of others whose attributes and times are known.
        self._detailed: Set[int] = set()
        # Of the sets above: `optimize` may have several threads.
        self._guard = threading.RLock()
        self._refresh()
        # In a grid, each trial has the cell of its number.
        self._cells = _cells(sampler)

    def _refresh(self) -> None:
        """Takes in what others have done: who enqueued, and programs that share the study."""
        with self._guard:
            for told in self._say({"cmd": "trials"})["trials"]:
                if told["id"] not in self._own:
                    self._take_in(told)

    def _read_details(self) -> None:
        """Takes in what the store has of trials that others have ended."""
        with self._guard:
            self._refresh()
            ended = {number for number, trial in self._trials.items() if trial.state.is_finished()}
            missing = ended - self._own - self._detailed
            if self._stored is None or not missing:
                return
            for row in self._stored.trials():
                number = row.pop("number")
                if number in missing:
                    vars(self._trials[number]).update(row)
            self._detailed |= missing

    def _listed(self, states: Optional[Sequence[TrialState]]) -> List[FrozenTrial]:
        with self._guard:
            self._refresh()
            trials = [self._trials[number] for number in sorted(self._trials)]
        return [trial for trial in trials if states is None or trial.state in states]

    def _take_in(self, told: Mapping[str, Any]) -> None:
        number = told["id"]
        frozen = self._trials.setdefault(number, FrozenTrial(number))
        frozen.state = _STATES[told["state"]]
        frozen.params = told["params"]
        if len(self.directions) > 1:
            frozen.values = [float(value) for value in told.get("values") or []] or None
            return
        frozen.value = None if told["value"] is None else float(told["value"])
        frozen.intermediate_values = {step: float(value) for step, value in told["reports"]}

    def _say(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        return self._search._say(request)

    def ask(self, fixed_distributions: Optional[Mapping[str, BaseDistribution]] = None) -> Trial:
        """A trial to run; its parameters are suggested now where distributions are given."""
        with self._guard:
            answer = self._say({"cmd": "ask"})
            if answer.get("done"):
                raise _Done(str(answer.get("reason")))
            number = answer["resume"] if "resume" in answer else answer["id"]
            fixed = self._cells[number] if self._cells else {}
            frozen = self._trials.setdefault(number, FrozenTrial(number))
            self._own.add(number)
            frozen.state, frozen.params = TrialState.RUNNING, {}
            if self._stored is not None and "resume" in answer:
                frozen.user_attrs = self._stored.read(number)
        frozen.datetime_start = datetime.datetime.now()
        trial = Trial(self, frozen, answer["params"], fixed)
        for name, distribution in (fixed_distributions or {}).items():
            trial._suggest(name, distribution)
        return trial

    def tell(self, trial: Union[Trial, int], values: Any = None,
             state: Optional[TrialState] = None, skip_if_finished: bool = False) -> FrozenTrial:
        """Ends a trial with its value or its state."""
        number = trial if isinstance(trial, int) else trial.number
        frozen = self._trials[number]
        if frozen.state.is_finished() and skip_if_finished:
            return copy.deepcopy(frozen)
        objectives = len(self.directions)
        told: List[Any] = []
        if isinstance(values, Sequence) and not isinstance(values, str):
            told = list(values)
        elif values is not None:
            told = [values]
        if told and len(told) != objectives:
            raise ValueError(
                f"the number of values {len(told)} did not match the number of objectives {objectives}"
            )
        if state is None:
            state = TrialState.COMPLETE
        request: Dict[str, Any] = {"cmd": "tell", "id": number}
        numbers: List[float] = []
        if state == TrialState.COMPLETE:
            numbers = [float(value) for value in told or [values]]
            if any(value != value for value in numbers):
                raise ValueError("the value NaN is not acceptable")
            request.update({"values": numbers} if objectives > 1 else {"value": numbers[0]})
        elif state == TrialState.PRUNED:
            request["state"] = "pruned"
        elif state == TrialState.FAIL:
            request["state"] = "failed"
        else:
            raise ValueError(f"a trial cannot be told as {state!r}")
        try:
            self._say(request)
        except HpsearchError:
            if not self._was_pruned(number):
                raise
            # A report was answered with `stop`, and another thread has asked since.
            if state == TrialState.COMPLETE:
                logging._logger.warning(
                    "Trial %d was pruned after its last report: its value is not kept.", number
                )
            state = TrialState.PRUNED
        if state == TrialState.COMPLETE:
            frozen.values = numbers
        elif state == TrialState.PRUNED and objectives == 1:
            last = frozen.last_step
            frozen.value = None if last is None else frozen.intermediate_values[last]
        frozen.state = state
        frozen.datetime_complete = datetime.datetime.now()
        return copy.deepcopy(frozen)

    def _was_pruned(self, number: int) -> bool:
        """Whether a trial that this program has not ended is pruned.

        One that its report has stopped is, when another is asked for before it is told.
        """
        if self._trials[number].state.is_finished():
            return False
        told = self._say({"cmd": "trials"})["trials"]
        return any(trial["id"] == number and trial["state"] == "pruned" for trial in told)

    def optimize(
        self,
        func: Callable[[Trial], Any],
        n_trials: Optional[int] = None,
        timeout: Optional[float] = None,
        n_jobs: int = 1,
        catch: Union[Type[Exception], Sequence[Type[Exception]]] = (),
        callbacks: Optional[Sequence[Callable[["Study", FrozenTrial], None]]] = None,
        gc_after_trial: bool = False,
        show_progress_bar: bool = False,
    ) -> None:
        """Runs `func` for trial after trial, in `n_jobs` threads (-1: one for each CPU).

        They all see the same devices: an objective that trains on a GPU chooses it itself.
        After an exception that is not in `catch` no further trials begin, and it is raised.
        """
        if n_jobs < 1 and n_jobs != -1:
            raise ValueError(f"`n_jobs` must be a number of threads or -1, not {n_jobs!r}")
        if show_progress_bar:
            warnings.warn(
                "hpsearch.optuna has no `show_progress_bar`: `hpsearch watch` shows a stored study",
                stacklevel=2,
            )
        caught: Tuple[Type[Exception], ...] = (
            (catch,) if isinstance(catch, type) else tuple(catch)
        )
        self._stopped = False
        ends = None if timeout is None else time.monotonic() + timeout
        left = iter(range(n_trials)) if n_trials is not None else iter(int, 1)
        turn = threading.Lock()

        def next_is_due() -> bool:
            with turn:
                if self._stopped or ends is not None and time.monotonic() >= ends:
                    return False
                return next(left, None) is not None

        def work() -> None:
            while next_is_due():
                try:
                    frozen = self._run(func, caught)
                except _Done:
                    if not self._cells:
                        raise
                    # Every cell of the grid was tried, or is being tried by another program.
                    break
                if gc_after_trial:
                    import gc

                    gc.collect()
                for callback in callbacks or ():
                    callback(self, frozen)

        if n_jobs == 1:
            work()
            return
        jobs = (os.cpu_count() or 1) if n_jobs == -1 else n_jobs
        with ThreadPoolExecutor(jobs) as threads:
            futures = [threads.submit(work) for _ in range(jobs)]
            try:
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException:
                self._stopped = True
                raise

    def _run(
        self, func: Callable[[Trial], Any], caught: Tuple[Type[Exception], ...]
    ) -> FrozenTrial:
        trial = self.ask()
        try:
            value = func(trial)
        except TrialPruned as pruned:
            frozen = self.tell(trial, state=TrialState.PRUNED)
            logging._logger.info("Trial %d pruned. %s", trial.number, pruned)
            return frozen
        except BaseException as error:
            frozen = self.tell(trial, state=TrialState.FAIL)
            if not isinstance(error, caught):
                raise
            logging._logger.warning("Trial %d failed: %r", trial.number, error)
            return frozen
        try:
            frozen = self.tell(trial, value)
        except (TypeError, ValueError) as error:
            logging._logger.warning("Trial %d failed: %s", trial.number, error)
            return self.tell(trial, state=TrialState.FAIL)
        said = frozen.value if len(self.directions) == 1 else frozen.values
        logging._logger.info("Trial %d finished with value: %s and parameters: %s.",
                             trial.number, said, frozen.params)
        return frozen

    def stop(self) -> None:
        """Ends `optimize` after the trial that runs."""
        self._stopped = True

    def enqueue_trial(self, params: Mapping[str, Any],
                      user_attrs: Optional[Mapping[str, Any]] = None,
                      skip_if_exists: bool = False) -> None:
        """Runs these parameters next; what they lack is suggested."""
        params = dict(params)
        if user_attrs:
            raise NotImplementedError("hpsearch.optuna has no `user_attrs` for enqueue_trial")
        if self._cells:
            raise NotImplementedError("hpsearch.optuna has no enqueue_trial with a GridSampler")
        exists = any(trial.params == params for trial in self._listed(None))
        if not (skip_if_exists and (exists or params in self._enqueued)):
            self._search.enqueue(params)
            self._enqueued.append(params)

    def get_trials(self, deepcopy: bool = True,
                   states: Optional[Sequence[TrialState]] = None) -> List[FrozenTrial]:
        """All trials, or those in some states."""
        self._read_details()
        trials = self._listed(states)
        return copy.deepcopy(trials) if deepcopy else trials

    @property
    def trials(self) -> List[FrozenTrial]:
        """All trials."""
        return self.get_trials()

    @property
    def direction(self) -> str:
        """The direction of the one objective."""
        self._alone("direction")
        return self.directions[0]

    def _alone(self, name: str) -> None:
        if len(self.directions) > 1:
            raise RuntimeError(
                f"a study with several objectives has no `{name}`: use `directions` and "
                "`best_trials`"
            )

    @property
    def best_trial(self) -> FrozenTrial:
        """The best complete trial, without hidden ones and those that violate a limit."""
        self._alone("best_trial")
        try:
            best = self._search.best()["id"]
        except HpsearchError as error:
            raise ValueError(f"No trials are completed yet: {error}") from error
        # After the question: another program may have told the best one just before it.
        self._read_details()
        return copy.deepcopy(self._trials[best])

    @property
    def best_trials(self) -> List[FrozenTrial]:
        """The trials on the front; of one objective the best complete trial, in a list."""
        if len(self.directions) == 1:
            return [self.best_trial]
        self._read_details()
        try:
            front = self._search.best()["front"]
        except HpsearchError:
            return []
        return [copy.deepcopy(self._trials[member["id"]]) for member in front]

    @property
    def best_params(self) -> Dict[str, Any]:
        """Its parameters."""
        return self.best_trial.params

    @property
    def best_value(self) -> float:
        """Its value."""
        value = self.best_trial.value
        assert value is not None
        return value

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keeps something that JSON has with the study, in its store if it has one."""
        self._keep(None, key, value)
        self._user_attrs[key] = value

    @property
    def user_attrs(self) -> Dict[str, Any]:
        """What was set, by this program or another."""
        return dict(self._user_attrs) if self._stored is None else self._stored.read(None)

    def _keep(self, trial: Optional[int], key: str, value: Any) -> None:
        if self._stored is not None:
            self._stored.write(trial, key, value)

    def trials_dataframe(
        self, attrs: Sequence[str] = _COLUMNS, multi_index: bool = False
    ) -> Any:
        """The trials as a pandas.DataFrame, with the columns of these attributes."""
        if multi_index:
            raise NotImplementedError(
                "hpsearch.optuna has no `multi_index` for trials_dataframe: leave it out"
            )
        import pandas

        trials = self.trials
        columns: Dict[str, List[Any]] = {}
        for attr in attrs:
            if attr in ("value", "values") and len(self.directions) > 1:
                for index in range(len(self.directions)):
                    columns[f"values_{index}"] = [
                        None if trial.values is None else trial.values[index] for trial in trials
                    ]
            elif attr in ("params", "user_attrs", "system_attrs"):
                of = [getattr(trial, attr) for trial in trials]
                for name in sorted({name for one in of for name in one}):
                    columns[f"{attr}_{name}"] = [one.get(name) for one in of]
            elif attr == "state":
                columns[attr] = [trial.state.name for trial in trials]
            elif attr in _COLUMNS:
                columns[attr] = [getattr(trial, attr) for trial in trials]
            else:
                raise ValueError(f"trials have no attribute {attr!r}: {', '.join(_COLUMNS)}")
        return pandas.DataFrame(columns)

    def __getattr__(self, name: str) -> Any:
        instead = {
            "add_trial": "`enqueue_trial` runs given parameters, "
                         "`hpsearch import` takes in results",
            "add_trials": "`hpsearch import` takes in results of other programs",
        }.get(name)
        hint = f": {instead}" if instead else ""
        raise AttributeError(f"hpsearch.optuna has no `Study.{name}`{hint}")


def create_study(
    *,
    storage: Any = None,
    sampler: Optional[BaseSampler] = None,
    pruner: Optional[BasePruner] = None,
    study_name: Optional[str] = None,
    direction: Any = None,
    load_if_exists: bool = False,
    directions: Optional[Sequence[Any]] = None,
) -> Study:
    """Begins a study: in memory, or in a store where `storage` is its path."""
    if directions is None:
        directions = [direction]
    elif direction is not None:
        raise ValueError("give one of `direction` and `directions`")
    words = [_direction(str(one or "minimize").lower()) for one in directions]
    if not words:
        raise ValueError("`directions` is empty")
    return _open(storage, study_name, words, sampler, pruner, load_if_exists)


def load_study(*, study_name: Optional[str], storage: Any,
               sampler: Optional[BaseSampler] = None, pruner: Optional[BasePruner] = None) -> Study:
    """Continues a stored study, with this sampler and pruner from here on."""
    path = _path(storage)
    known = _known(path, study_name)
    if path is None or known is None:
        raise KeyError(f"there is no study {study_name!r} in {storage!r}")
    words = [objective["direction"] for objective in _objectives(known)]
    return _open(storage, study_name, words, sampler, pruner, True)


def _objectives(known: Dict[str, Any]) -> List[Dict[str, Any]]:
    return known.get("objectives") or [known]


def _open(storage: Any, name: Optional[str], directions: List[str], sampler: Optional[BaseSampler],
          pruner: Optional[BasePruner], load_if_exists: bool) -> Study:
    given = [key for key, value in (("sampler", sampler), ("pruner", pruner)) if value is not None]
    sampler = sampler or (TPESampler() if len(directions) == 1 else NSGAIISampler())
    pruner = pruner or (MedianPruner() if len(directions) == 1 else NopPruner())
    path = _path(storage)
    known: Optional[Dict[str, Any]] = None
    metrics: List[str] = []
    if path is not None:
        if name is None:
            name = "optuna-" + time.strftime("%Y%m%d-%H%M%S")
        try:
            known = _known(path, name)
        except HpsearchError:
            if not load_if_exists:
                raise
            # Another program may be making the store; whatever else it is, `ask-tell` says it.
            known = None
        # In Optuna, names of metrics are only labels: those that are stored stay.
        metrics = [objective["metric"] for objective in _objectives(known)] if known else []
        if not load_if_exists and known is not None:
            raise DuplicatedStudyError(
                f"there is a study {name!r} already: `load_if_exists=True` continues it"
            )
    seed = sampler._seed
    if seed is None:
        # Optuna draws a seed where none is given; a stored study has the same one in each run.
        seed = 0 if path is not None else int.from_bytes(os.urandom(4), "little")
    request: Dict[str, Any] = {"cmd": "init", "space": [], "define": True, "seed": seed, "directions": directions,
               "sampler": sampler._spec_for(len(directions)), "pruner": pruner._spec()}
    if known is not None:
        # What is left out is as stored. In Optuna, the seed is not stored.
        for key in {"seed", "sampler", "pruner"}.difference(given):
            del request[key]
    if len(metrics) == len(directions):
        request["metric_names"] = metrics
    cells = _cells(sampler)
    if cells:
        request["n_trials"] = len(cells)
    if load_if_exists:
        # In Optuna, the sampler and the pruner are not stored.
        request["accept"] = True
    search = Search(name if path is not None else None, request, path)
    stored = None if path is None or name is None else Stored(path, name)
    return Study(search, name, directions, sampler, pruner, stored)


def _path(storage: Any) -> Optional[str]:
    if storage is None:
        return None
    text = os.fspath(storage) if isinstance(storage, (str, os.PathLike)) else None
    path = None if text is None else path_of(text)
    if path is None or path == text and "://" in path:
        raise NotImplementedError(
            f"hpsearch.optuna has no storage {storage!r}: give the path of an hpsearch store, "
            "such as `runs/hpsearch.db`"
        )
    return path


def _known(path: Optional[str], name: Optional[str]) -> Optional[Dict[str, Any]]:
    if path is None or not os.path.exists(path):
        return None
    import subprocess

    from .._binary import required

    listed = subprocess.run([required(), "ls", "--json", "--store", path], capture_output=True,
                            check=False)
    if listed.returncode != 0:
        raise HpsearchError(listed.stderr.decode(errors="replace").strip())
    studies = json.loads(listed.stdout)["studies"]
    return next((study for study in studies if study["name"] == name), None)


def _cells(sampler: BaseSampler) -> List[Dict[str, Any]]:
    import itertools
    import random

    grid = getattr(sampler, "_grid", None)
    if not grid:
        return []
    cells = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    random.Random(sampler._seed or 0).shuffle(cells)
    return cells
