"""A logger for Lightning."""

import os
from argparse import Namespace
from typing import Any, Dict, Optional, Union

try:
    from lightning.pytorch.callbacks import Callback
    from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:
    from pytorch_lightning.callbacks import Callback  # type: ignore[no-redef]
    from pytorch_lightning.loggers.logger import (  # type: ignore[no-redef]
        Logger,
        rank_zero_experiment,
    )
    from pytorch_lightning.utilities import rank_zero_only  # type: ignore[no-redef]

from .._init import current, init
from .._run import Run


class HpsearchLogger(Logger):
    """Logs to the run that `hpsearch.init` began, or to one begun with these arguments.

        logger = HpsearchLogger(study="digits")
        Trainer(logger=logger, callbacks=[logger.stop_callback()])

    A step is the number of optimizer steps taken, as in the names of checkpoints: Lightning itself
    counts those that it logs while it fits from 0. Checkpoints of a `ModelCheckpoint` are registered; `stop_callback`
    ends the training when the run should stop. Where that is within an epoch, neither the metrics
    nor the checkpoint of that part of an epoch are taken for those of an epoch.
    """

    def __init__(self, run: Optional[Run] = None, **arguments: Any) -> None:
        super().__init__()
        self._run = run
        self._arguments = arguments
        self._is_own = False
        self._registered: Dict[str, float] = {}
        self._stop = _Stop(self)

    @property
    def name(self) -> Optional[str]:
        """The study."""
        return self._run.study if self._run is not None else self._arguments.get("study")

    @property
    def version(self) -> Optional[Union[int, str]]:
        """The number of the run, once it is known, or its id."""
        if self._run is None:
            return None
        number = self._run.number
        return number if number is not None else getattr(self._run, "id", None)

    @property
    @rank_zero_experiment
    def experiment(self) -> Run:
        """The run."""
        if self._run is None:
            present = current()
            if present is not None and present._is_open:
                self._run = present
            else:
                self._run = init(**self._arguments)
                self._is_own = True
        return self._run

    @rank_zero_only
    def log_hyperparams(self, params: Union[Dict[str, Any], Namespace], *_: Any, **__: Any) -> None:
        """Adds hyperparameters to those of the run."""
        values = vars(params) if isinstance(params, Namespace) else dict(params)
        if values:
            self.experiment.set_params(values)

    @rank_zero_only
    def log_metrics(self, metrics: Dict[str, float], step: Optional[int] = None) -> None:
        """Logs metrics after an optimizer step: of a fit, `step` is its number from 0."""
        if self._stop.ended_within_epoch:
            return
        taken = None if step is None else step + self._stop.behind
        self.experiment.log(metrics, step=taken)
        self.experiment._await_pause(taken)
        self._stop.look_alone()

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Registers what a `ModelCheckpoint` has saved."""
        if self._stop.ended_within_epoch:
            return
        paths = {
            getattr(checkpoint_callback, "best_model_path", ""),
            getattr(checkpoint_callback, "last_model_path", ""),
            getattr(checkpoint_callback, "_last_checkpoint_saved", ""),
        }
        step = self._stop.batches
        if step is None:
            steps = getattr(checkpoint_callback, "_last_global_step_saved", None)
            step = self._stop.batches_of(steps)
        for path in sorted(path for path in paths if path and os.path.exists(path)):
            saved = os.path.getmtime(path)
            if self._registered.get(path) != saved:
                self._registered[path] = saved
                self.experiment.checkpoint(path, step=step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Ends a run that this logger began."""
        if self._is_own and self._run is not None:
            self._run.finish("complete" if status == "success" else "failed")

    def stop_callback(self) -> Callback:
        """A callback that ends the training when the run should stop."""
        return self._stop


class _Stop(Callback):
    def __init__(self, logger: HpsearchLogger) -> None:
        self._logger = logger
        self._trainer: Any = None
        # Whether Lightning fits: it counts the steps that it logs from 0.
        self._is_fitting = True
        # How many batches fewer Lightning counts than stepped: one after some resumes.
        self._uncounted = 0
        #: The batches that had stepped at the end of the last one, where Lightning counts them.
        self.batches: Optional[int] = None
        #: Whether what comes now is of a part of an epoch that would count as a whole one.
        self.ended_within_epoch = False

    @property
    def behind(self) -> int:
        """How many steps fewer Lightning logs than were taken."""
        return self._is_fitting + self._uncounted

    def setup(self, trainer: Any, _: Any, stage: str) -> None:
        self._trainer = trainer
        self.ended_within_epoch = False
        self._is_fitting = stage == "fit"
        if self._is_fitting:
            self._uncounted = 0
            self.batches = None

    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self.batches is not None:
            return
        # A checkpoint of a validation does not count the batch before that as logged.
        logged = getattr(trainer.fit_loop.epoch_loop, "_batches_that_stepped", None)
        stepped = self.batches_of(trainer.global_step)
        self._uncounted = int(logged is not None and stepped == logged + 1)

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        try:
            loop = trainer.fit_loop.epoch_loop
            # Lightning counts a batch after this and after what is saved at its end.
            stepped = loop._batches_that_stepped + (not loop._should_accumulate())
            self.batches = stepped + self._uncounted
        except AttributeError:
            self.batches = None
        self._look(trainer)

    def on_validation_end(self, trainer: Any, *_: Any) -> None:
        self._look(trainer)

    def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
        # Checkpoints of the epoch are saved after this, and its metrics are logged.
        self.ended_within_epoch = self._stops() and not trainer.is_last_batch

    def on_fit_end(self, *_: Any) -> None:
        self.ended_within_epoch = False
        self._is_fitting = False

    def look_alone(self) -> None:
        """Asks at once, where no other process has to agree."""
        if self._trainer is not None and self._trainer.world_size == 1 and self._stops():
            self._trainer.should_stop = True

    def batches_of(self, steps: Optional[int]) -> Optional[int]:
        """The batches after which so many steps were taken by all optimizers, equally often."""
        optimizers = 1 if self._trainer is None else len(self._trainer.optimizers)
        return None if steps is None else steps // max(1, optimizers)

    def _stops(self) -> bool:
        run = self._logger._run
        return run is not None and run.should_stop

    def _look(self, trainer: Any) -> None:
        stops = trainer.is_global_zero and self._stops()
        # All processes leave at the same step.
        if trainer.strategy.reduce_boolean_decision(stops, all=False):
            trainer.should_stop = True
