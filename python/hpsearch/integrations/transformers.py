"""A callback for the Trainer of transformers."""

import os
from typing import Any, Dict, Optional

from transformers import TrainerCallback

from .. import _values
from .._init import current, init
from .._run import Run


class HpsearchCallback(TrainerCallback):
    """Logs what the Trainer logs, registers its checkpoints, and ends it when it should stop.

        Trainer(..., callbacks=[HpsearchCallback()])

    Uses the run that `hpsearch.init` began, or begins one with the arguments given here. Names
    are the Trainer's own: `loss`, `eval_loss`, `epoch`, ..
    """

    def __init__(self, run: Optional[Run] = None, **arguments: Any) -> None:
        self._run = run
        self._arguments = arguments
        self._is_own = False

    @property
    def run(self) -> Optional[Run]:
        """The run, once the training has begun."""
        return self._run

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begins a run, unless there is one."""
        if self._run is None and state.is_world_process_zero:
            present = current()
            if present is not None and present._is_open:
                self._run = present
            else:
                own = _values.configuration(self._arguments.pop("config", None))
                self._run = init(config={**_of(args), **own}, **self._arguments)
                self._is_own = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Logs, and asks whether to stop."""
        if self._run is not None and state.is_world_process_zero and logs:
            numbers = {name: value for name, value in logs.items() if isinstance(value, (int, float))}
            self._run.log(numbers, step=state.global_step)
            self._run._await_pause(state.global_step)
        self._look(control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Asks whether to stop."""
        self._look(control)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Asks whether to stop, where no other process has to agree."""
        if not _is_distributed():
            self._look(control)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Registers the checkpoint that was saved, and asks whether to stop."""
        if self._run is not None and state.is_world_process_zero:
            path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
            if os.path.isdir(path):
                self._run.checkpoint(path, step=state.global_step)
        self._look(control)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Sets the summary; a run of its own stays open for an evaluation afterwards."""
        if self._run is not None and state.is_world_process_zero:
            best = getattr(state, "best_metric", None)
            if best is not None:
                self._run.summary({"best_metric": best})

    def _look(self, control: Any) -> None:
        stops = self._run is not None and self._run.should_stop
        if _is_distributed():
            stops = _agreed(stops)
        if stops:
            control.should_training_stop = True


def _of(args: Any) -> Dict[str, Any]:
    """The Trainer's arguments, without the values of its tokens."""
    try:
        found = dict(args.to_dict())
    except AttributeError:
        found = dict(vars(args))
    # What `per_device_train_batch_size` makes of all devices.
    for name in ("train_batch_size", "eval_batch_size"):
        if hasattr(args, name):
            found[name] = getattr(args, name)
    return found


def _is_distributed() -> bool:
    try:
        import torch.distributed as distributed

        return bool(
            distributed.is_available()
            and distributed.is_initialized()
            and distributed.get_world_size() > 1
        )
    except ImportError:
        return False


def _agreed(stops: bool) -> bool:
    """What rank 0 says: all processes must leave at the same step."""
    import torch.distributed as distributed

    said = [stops]
    distributed.broadcast_object_list(said, src=0)
    return bool(said[0])
