"""A study: what of it is asked for, told, read and set."""

import copy
import datetime
import threading
import warnings
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    Union,
)

from .._binary import HpsearchError
from . import logging
from ._direction import StudyDirection
from ._frame import COLUMNS, frame
from ._lines import STATES, Done, as_list, default_names, end_line, last_report, number_in
from ._loop import Loop
from ._reader import Reader
from ._study_search import OPEN, StudySearch
from .distributions import BaseDistribution
from .pruners import BasePruner
from .samplers import BaseSampler
from .trial import FrozenTrial, Trial, TrialState


class MaxTrialsCallback:
    """Ends `optimize` once the study has this many trials in some states."""

    def __init__(self, n_trials: int,
                 states: Optional[Sequence[TrialState]] = (TrialState.COMPLETE,)) -> None:
        self._n_trials = n_trials
        self._states = states

    def __call__(self, study: "Study", trial: FrozenTrial) -> None:
        if len(study._listed(self._states)) >= self._n_trials:
            study.stop()


class Study(StudySearch):
    """A search; made by `create_study` and `load_study`."""

    def __init__(self, request: Dict[str, Any], name: Optional[str], path: Optional[str],
                 sampler: BaseSampler, pruner: BasePruner,
                 reader: Optional[Reader] = None) -> None:
        super().__init__(request, name, path, sampler, pruner, reader)
        self._user_attrs: Dict[str, Any] = {}
        self._stopped = False
        # The trials that the loops of `optimize` run now.
        self._looping = 0
        self._thread = threading.local()
        # Those of others whose attributes and times are known.
        self._detailed: Set[int] = set()
        self._trial_ended = threading.Condition(self._guard)
        self._refresh()
        OPEN.add(self)

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
            space = self._stored.space()
            for row in self._stored.trials():
                number = row.pop("number")
                if number in missing:
                    trial = self._trials[number]
                    vars(trial).update(row)
                    trial.distributions = {
                        name: space[name] for name in trial.params if name in space
                    }
            self._detailed |= missing

    def _listed(self, states: Optional[Sequence[TrialState]]) -> List[FrozenTrial]:
        with self._guard:
            self._refresh()
            trials = [self._trials[number] for number in sorted(self._trials)]
        return [trial for trial in trials if states is None or trial.state in states]

    def _take_in(self, told: Mapping[str, Any]) -> None:
        number = told["id"]
        frozen = self._trials.setdefault(number, FrozenTrial(number))
        frozen.state = STATES[told["state"]]
        if any(number_in(answer) == number for answer in self._ahead):
            frozen.state = TrialState.WAITING
        frozen.params = told["params"]
        if len(self.directions) > 1:
            frozen.values = [float(value) for value in told.get("values") or []] or None
            return
        frozen.value = None if told["value"] is None else float(told["value"])
        frozen.intermediate_values = {step: float(value) for step, value in told["reports"]}
        if frozen.state == TrialState.PRUNED and frozen.value is None:
            frozen.value = last_report(frozen)

    def ask(self, fixed_distributions: Optional[Mapping[str, BaseDistribution]] = None) -> Trial:
        """A trial to run; its parameters are suggested now where distributions are given."""
        sampler = self._sampler
        with self._guard:
            if isinstance(self._search, Reader):
                raise HpsearchError(self._search.why)
            self._settle()
            answer = self._ahead.pop(0) if self._ahead else self._next_answer()
            if answer.get("done"):
                raise Done(str(answer.get("reason")))
            number = number_in(answer)
            fixed = dict(self._cells[number]) if self._cells else dict(sampler._fixed)
            if sampler._is_own():
                fixed.update(self._enqueued.get(number, {}))
            frozen = self._trials.setdefault(number, FrozenTrial(number))
            self._own.add(number)
            frozen.state, frozen.params = TrialState.RUNNING, {}
            if "resume" in answer:
                # The objective starts over: an earlier attempt's reports are not this one's.
                frozen.intermediate_values, frozen.distributions = {}, {}
                frozen.constraints = {}
                if self._stored is not None:
                    frozen.user_attrs = self._stored.read(number)
        frozen.datetime_start = datetime.datetime.now()
        trial = Trial(self, frozen, answer["params"], fixed)
        if sampler._is_own():
            try:
                trial._take_proposal()
            except Exception:
                self._tell(number, None, TrialState.FAIL, "the sampler failed")
                raise
        for name, distribution in (fixed_distributions or {}).items():
            trial._suggest(name, distribution)
        return trial

    def tell(self, trial: Union[Trial, int], values: Any = None,
             state: Optional[TrialState] = None, skip_if_finished: bool = False) -> FrozenTrial:
        """Ends a trial with its value or its state; without a state, one whose value is none
        fails, with a warning."""
        if not isinstance(trial, (Trial, int)):
            raise TypeError("`trial` must be a trial or its number")
        number = trial if isinstance(trial, int) else trial.number
        if number not in self._trials:
            self._refresh()
        frozen = self._trials.get(number)
        if frozen is None:
            raise ValueError(f"there is no trial {number}: ask for it first")
        if frozen.state.is_finished():
            if skip_if_finished:
                return copy.deepcopy(frozen)
            raise ValueError(f"trial {number} is {frozen.state.name} already, and cannot be told")
        problem = None
        if state in (TrialState.PRUNED, TrialState.FAIL):
            if values is not None:
                raise ValueError(f"a trial that is told as {state} has no values")
        elif state in (None, TrialState.COMPLETE):
            problem = self._problem(values)
        else:
            raise ValueError(f"a trial cannot be told as {state}")
        if problem is not None:
            if state is not None:
                raise ValueError(problem)
            warnings.warn(f"{problem}: trial {number} has failed", stacklevel=2)
            return self._tell(number, None, TrialState.FAIL, problem)
        return self._tell(number, values, state or TrialState.COMPLETE)

    def _problem(self, values: Any) -> Optional[str]:
        """Why these cannot be the values of a complete trial."""
        told, objectives = as_list(values), len(self.directions)
        for value in told:
            try:
                if float(value) != float(value):
                    return "the value NaN is not acceptable"
            except (TypeError, ValueError):
                return f"the value {value!r} could not be cast to float"
        if len(told) != objectives:
            return (
                f"the number of values {len(told)} did not match the number of objectives "
                f"{objectives}"
            )
        return None

    def _tell(self, number: int, values: Any, state: TrialState,
              reason: Optional[str] = None) -> FrozenTrial:
        frozen = self._trials[number]
        numbers = None if values is None else [float(value) for value in as_list(values)]
        if state == TrialState.PRUNED and len(self.directions) == 1:
            value = last_report(frozen)
            numbers = None if value is None else [value]
        if state == TrialState.COMPLETE and self._sampler._constraints_func is not None:
            self._take_constraints(frozen)
        if state == TrialState.COMPLETE:
            self._limits.update(frozen.constraints)
        self._sampler.after_trial(self, copy.deepcopy(frozen), state, numbers)
        answer = self._say(end_line(number, state, numbers, frozen.constraints, reason))
        if answer.get("state") == "pruned":
            # By the program that has the study since the one before has ended.
            if state == TrialState.COMPLETE:
                logging._logger.warning(
                    "Trial %d was pruned after its last report: its value is not kept.", number
                )
            state, value = TrialState.PRUNED, last_report(frozen)
            numbers = None if value is None else [value]
        elif answer.get("state") == "failed":
            logging._logger.warning("Trial %d was killed: it counts as failed.", number)
            state, numbers = TrialState.FAIL, None
        frozen.values = numbers
        frozen.state = state
        frozen.datetime_complete = datetime.datetime.now()
        return copy.deepcopy(frozen)

    def _take_constraints(self, frozen: FrozenTrial) -> None:
        function = self._sampler._constraints_func
        assert function is not None
        for index, value in enumerate(function(copy.deepcopy(frozen))):
            frozen.constraints[f"constraint_{index}"] = float(value)

    def _was_pruned(self, number: int) -> bool:
        """Whether a trial that this program has not ended is pruned.

        One that its report has stopped is, when the program that has the study ends before.
        """
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
        if getattr(self._thread, "runs", False):
            raise RuntimeError("`optimize` cannot be called by an objective or a callback of it")
        loop = Loop(self, func, n_trials, timeout, caught, callbacks or (), gc_after_trial)
        try:
            loop.run(n_jobs)
        finally:
            self._release()

    def stop(self) -> None:
        """Ends `optimize` after the trials that run."""
        if self._loops == 0:
            raise RuntimeError(
                "`stop` ends `optimize`: call it in an objective or a callback, not outside"
            )
        self._stopped = True

    def enqueue_trial(self, params: Mapping[str, Any],
                      user_attrs: Optional[Mapping[str, Any]] = None,
                      skip_if_exists: bool = False) -> None:
        """Runs these parameters next; what they lack is suggested."""
        params = dict(params)
        if self._cells:
            raise NotImplementedError("hpsearch.optuna has no enqueue_trial with a GridSampler")
        with self._guard:
            known = self._listed(None)
            exists = any(trial.params == params for trial in known)
            if skip_if_exists and (exists or params in self._enqueued.values()):
                return
            waiting = {trial.number for trial in known}
            self._held().enqueue(params)
            added = [trial.number for trial in self._listed([TrialState.WAITING])
                     if trial.number not in waiting]
            if not added:
                # Another program has it already.
                return
            self._enqueued[added[0]] = params
            for key, value in (user_attrs or {}).items():
                self._keep(added[0], key, value)
                self._trials[added[0]].user_attrs[key] = value

    def add_trial(self, trial: FrozenTrial) -> None:
        """Adds a trial that has ended, such as one of `create_trial` or of another study."""
        if self._cells:
            raise NotImplementedError("hpsearch.optuna has no add_trial with a GridSampler")
        if trial.state == TrialState.RUNNING:
            raise NotImplementedError(
                "hpsearch.optuna has no add_trial for one that is running: `ask` begins a trial"
            )
        if trial.state == TrialState.WAITING:
            self.enqueue_trial(trial.params, trial.user_attrs)
            return
        missing = set(trial.params) - set(trial.distributions)
        if missing:
            raise ValueError(f"the trial has no distribution for {', '.join(sorted(missing))}")
        if trial.state == TrialState.COMPLETE:
            problem = self._problem(trial.values)
            if problem is not None:
                raise ValueError(problem)
        with self._guard:
            number = self._next_new()
            try:
                self._replay(self._say, number, trial)
            except HpsearchError as error:
                self._say({"cmd": "tell", "id": number, "state": "failed", "reason": str(error)})
                raise
            added = copy.deepcopy(trial)
            added.number = number
            self._trials[number] = added
            self._own.add(number)
            self._limits.update(added.constraints)
        for key, value in trial.user_attrs.items():
            self._keep(number, key, value)

    def add_trials(self, trials: Iterable[FrozenTrial]) -> None:
        """Adds several trials."""
        for trial in trials:
            self.add_trial(trial)

    def _next_new(self) -> int:
        """The number of a trial that nobody has enqueued or begun."""
        while True:
            waiting = {trial.number for trial in self._listed([TrialState.WAITING])}
            answer = self._next_answer()
            if answer.get("done"):
                raise Done(str(answer.get("reason")))
            if "resume" not in answer and answer["id"] not in waiting:
                return number_in(answer)
            self._ahead.append(answer)

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
    def sampler(self) -> BaseSampler:
        """Who proposes; another one may be set between trials."""
        return self._sampler

    @sampler.setter
    def sampler(self, sampler: BaseSampler) -> None:
        if sampler._is_grid():
            raise NotImplementedError(
                "hpsearch.optuna: a GridSampler is for a whole study: give it to create_study"
            )
        changes: Dict[str, Any] = {"n_trials": None}
        if not sampler._n_random:
            changes["sampler"] = sampler._spec_for(len(self.directions))
            if changes["sampler"] == self._request.get("sampler"):
                self._propose_with(sampler)
                return
            if sampler._seed is not None and self._stored is None:
                changes["seed"] = sampler._seed
            self._reopen(**changes)
        # One that needs the space gets it when the next trial is asked for.
        self._propose_with(sampler)

    def _propose_with(self, sampler: BaseSampler) -> None:
        """Takes a sampler, also in the other objects that share the search; none has cells."""
        for one in self._sharing():
            one._sampler, one._cells = sampler, []

    @property
    def pruner(self) -> BasePruner:
        """Who stops trials; another one may be set between trials."""
        return self._pruner

    @pruner.setter
    def pruner(self, pruner: BasePruner) -> None:
        if pruner._spec() != self._request.get("pruner"):
            self._reopen(pruner=pruner._spec())
        self._pruner = pruner

    @property
    def metric_names(self) -> Optional[List[str]]:
        """The names of the objectives, if they were given."""
        names = self._request.get("metric_names")
        return None if names is None or names == default_names(len(names)) else list(names)

    def set_metric_names(self, metric_names: Sequence[str]) -> None:
        """Names the objectives; in a stored study, before its first trial."""
        names = list(metric_names)
        if len(names) != len(self.directions):
            raise ValueError(
                f"there are {len(names)} names, and {len(self.directions)} objectives"
            )
        if names == self._request.get("metric_names"):
            return
        if self._stored is not None and self._listed(None):
            raise ValueError(
                "the metrics of a stored study have the names that they had at its first trial: "
                "call set_metric_names before"
            )
        self._reopen(metric_names=names)

    @property
    def direction(self) -> StudyDirection:
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
            best = self._best()["id"]
        except HpsearchError as error:
            raise ValueError(f"No trials are completed yet: {error}") from error
        # After the question: another program may have told the best one just before it.
        self._read_details()
        return copy.deepcopy(self._trials[best])

    @property
    def best_trials(self) -> List[FrozenTrial]:
        """The trials on the front; of one objective all with the best value."""
        try:
            best = self._best()
        except HpsearchError:
            return []
        self._read_details()
        if len(self.directions) == 1:
            value, best_ = self._trials[best["id"]].values, best["id"]
            return [
                copy.deepcopy(trial) for trial in self._listed([TrialState.COMPLETE])
                if trial.number == best_ or trial.values == value and not trial._is_infeasible()
            ]
        front = best["front"]
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
        self, attrs: Sequence[str] = COLUMNS, multi_index: bool = False
    ) -> Any:
        """The trials as a pandas.DataFrame, with the columns of these attributes."""
        return frame(self.trials, attrs, multi_index, len(self.directions), self.metric_names)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a study of hpsearch.optuna cannot be pickled: give it a `storage`, and use load_study"
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"hpsearch.optuna has no `Study.{name}`")
