"""The running of trials by `optimize`, in one thread or several."""

import gc
import os
import threading
import time
import traceback
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence, Tuple, Type

from .._binary import HpsearchError
from . import logging
from ._lines import Done
from .exceptions import is_pruned
from .trial import FrozenTrial, Trial, TrialState

if TYPE_CHECKING:
    from ._study import Study


class Loop:
    """One call of `optimize`."""

    def __init__(self, study: "Study", objective: Callable[[Trial], Any],
                 n_trials: Optional[int], timeout: Optional[float],
                 caught: Tuple[Type[Exception], ...],
                 callbacks: Sequence[Callable[["Study", FrozenTrial], None]],
                 collects_garbage: bool) -> None:
        self._study = study
        self._objective = objective
        self._caught = caught
        self._callbacks = callbacks
        self._collects_garbage = collects_garbage
        self._ends = None if timeout is None else time.monotonic() + timeout
        self._left: Iterator[int] = (
            iter(int, 1) if n_trials is None else iter(range(n_trials))
        )
        self._turn = threading.Lock()

    def run(self, n_jobs: int) -> None:
        """Runs the trials, in `n_jobs` threads."""
        self._study._stopped = False
        if n_jobs == 1:
            self._work()
            return
        jobs = (os.cpu_count() or 1) if n_jobs == -1 else n_jobs
        with ThreadPoolExecutor(jobs) as threads:
            futures = [threads.submit(self._work) for _ in range(jobs)]
            try:
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException:
                self._study._stopped = True
                raise

    def _next_is_due(self) -> bool:
        with self._turn:
            if self._study._stopped:
                return False
            if self._ends is not None and time.monotonic() >= self._ends:
                return False
            return next(self._left, None) is not None

    def _work(self) -> None:
        study = self._study
        study._count_loops(1)
        study._thread.runs = True
        try:
            self._run_trials()
        finally:
            study._thread.runs = False
            study._count_loops(-1)

    def _run_trials(self) -> None:
        study = self._study
        while self._next_is_due():
            try:
                frozen = self._run()
            except Done as done:
                # Every cell of the grid was tried, or is being tried by another program.
                if not study._cells:
                    logging._logger.warning(
                        "`optimize` ends, as with `study.stop()`: %s. Another `optimize` "
                        "continues the study", done
                    )
                study._stopped = True
                break
            if self._collects_garbage:
                gc.collect()
            for callback in self._callbacks:
                callback(study, frozen)

    def _run(self) -> FrozenTrial:
        study = self._study
        with study._trial_ended:
            while study._looping > 0 and study._changes():
                study._trial_ended.wait()
            trial = study.ask()
            study._looping += 1
        try:
            return self._run_asked(trial)
        finally:
            with study._trial_ended:
                study._looping -= 1
                study._trial_ended.notify_all()

    def _run_asked(self, trial: Trial) -> FrozenTrial:
        study, number = self._study, trial.number
        try:
            value = self._objective(trial)
        except BaseException as error:
            if is_pruned(error):
                frozen = study._tell(number, None, TrialState.PRUNED)
                logging._logger.info("Trial %d pruned. %s", number, error)
                return frozen
            reason = "".join(traceback.format_exception_only(type(error), error)).strip()
            frozen = study._tell(number, None, TrialState.FAIL, reason)
            logging._logger.warning("Trial %d failed with parameters: %s because of the following "
                                    "error: %r.", number, frozen.params, error)
            if not isinstance(error, self._caught):
                raise
            return frozen
        problem = study._problem(value)
        if problem is not None:
            logging._logger.warning("Trial %d failed with parameters: %s because of the following "
                                    "error: %s.", number, trial.params, problem)
            return study._tell(number, None, TrialState.FAIL, problem)
        frozen = study._tell(number, value, TrialState.COMPLETE)
        if frozen.state == TrialState.COMPLETE and logging._logger.isEnabledFor(logging.INFO):
            logging._logger.info("Trial %d finished with %s.", number, self._said(frozen))
        return frozen

    def _said(self, frozen: FrozenTrial) -> str:
        if len(self._study.directions) > 1:
            names = self._study.metric_names
            values = frozen.values if names is None else dict(zip(names, frozen.values or []))
            return f"values: {values} and parameters: {frozen.params}"
        said = f"value: {frozen.value} and parameters: {frozen.params}"
        try:
            best = self._study._best()
        except HpsearchError:
            return said
        return f"{said}. Best is trial {best['id']} with value: {best['value']}"
