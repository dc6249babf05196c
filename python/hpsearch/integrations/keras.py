"""A callback for Keras."""

from typing import Any, Dict, Optional

import keras

from .._init import current, init
from .._run import Run


class KerasCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Logs each epoch, and ends the training when the run should stop.

        model.fit(..., callbacks=[KerasCallback()])

    Uses the run that `hpsearch.init` began, or begins one with the arguments given here. Epochs
    are counted from 1; `batches=True` also logs each batch, under `batch/`, by its own count.

    A trial that is paused ends with its epoch, since Keras cannot continue within one. A run that
    is stopped ends with its batch, and its last epoch is not logged unless that was its last batch.
    """

    def __init__(
        self, run: Optional[Run] = None, batches: bool = False, **arguments: Any
    ) -> None:
        super().__init__()
        self._run = run
        self._batches = batches
        self._arguments = arguments
        self._is_own = False
        self._count = 0
        self._ended_within_epoch = False

    @property
    def run(self) -> Run:
        """The run; begun here if need be."""
        if self._run is None:
            present = current()
            if present is not None and present._is_open:
                self._run = present
            else:
                self._run = init(**self._arguments)
                self._is_own = True
        return self._run

    def on_train_begin(self, logs: Optional[Dict[str, Any]] = None) -> None:
        """Begins a run, unless there is one."""
        self._ended_within_epoch = False
        _ = self.run

    def on_train_batch_end(self, batch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Logs a batch if asked to, and asks whether to stop."""
        self._count += 1
        if self._batches and logs:
            found = {f"batch/{name}": value for name, value in logs.items()}
            self.run.log(found, step=self._count)
        if self.run.should_stop and not self.run._will_resume:
            self._ended_within_epoch = batch + 1 != self.params.get("steps")
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Logs an epoch, and asks whether to stop."""
        if logs and not self._ended_within_epoch:
            self.run.log(logs, step=epoch + 1)
            self.run._await_pause(epoch + 1)
        if self.run.should_stop:
            self.model.stop_training = True

    def on_train_end(self, logs: Optional[Dict[str, Any]] = None) -> None:
        """Ends a run that this callback began."""
        if self._is_own:
            self.run.finish()
