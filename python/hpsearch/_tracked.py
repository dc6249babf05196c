"""A run by itself: records go through a queue into a spool, and a writer stores them."""

import os
import sys
import threading
import time
from typing import Any, Dict, Optional, Sequence

from . import _messages, _secrets, _values
from ._binary import HpsearchError
from ._run import Run
from ._spool import Ending, Spool
from ._writer import Writer

#: How long `finish` waits for the writer, in seconds.
PATIENCE = 5.0

_now = time.time_ns


class TrackedRun(Run):
    """A run without a search."""

    _keeps = True

    def __init__(
        self,
        *,
        store: str,
        spools: str,
        study: Optional[str],
        name: Optional[str],
        id: str,
        resume: Optional[str],
        known: str,
        config: Dict[str, Any],
        tags: Sequence[str],
        system: Optional[str],
        group: Optional[str] = None,
        parent: Optional[str] = None,
        metric: Optional[str] = None,
        direction: Optional[str] = None,
    ) -> None:
        super().__init__(config, study, name)
        #: What tells this run apart; `init(id=.., resume=True)` continues it.
        self.id = id
        header = {
            "spool": 1,
            "time": _now() // 1000,
            "study": study,
            "name": name,
            "id": id,
            "resume": resume,
            "known": known,
            "params": _secrets.masked(_values.plain(config)),
            "tags": list(tags),
            "pid": os.getpid(),
            "host": _host(),
            "cwd": _directory(),
            # Another store may be in the same directory.
            "store": None if "://" in store else os.path.basename(store),
            "parent": parent,
            "group": group,
            "metric": metric,
            "direction": direction,
            "argv": _secrets.masked_command(sys.argv),
            # Its packages are read by the writer: that takes no time here.
            "python": sys.executable or None,
            "path": [entry for entry in sys.path if entry],
            "system": system,
        }
        self._spool = Spool(spools, id, header)
        self._writer = Writer(self._spool.path, store, self._heard)
        self._queue = self._spool.queue
        self._refusal: Optional[str] = None
        self._is_answered = threading.Event()
        self._spool.start(self._writer)
        if known != "allow":
            self._await_answer()

    def _await_answer(self) -> None:
        """Waits until the store has answered whether there is such a run, at most PATIENCE.

        Raises HpsearchError if the run is refused. If that is heard later, the program continues.
        """
        if self._writer.lives():
            self._is_answered.wait(PATIENCE)
        self._is_answered.set()
        if self._refusal is not None:
            self._is_open = False
            self._spool.discard()
            self._writer.close(time.monotonic() + PATIENCE)
            raise HpsearchError(self._refusal)

    def _await_number(self) -> None:
        if self._writer.lives():
            self._is_answered.wait(PATIENCE)

    def _directory(self) -> str:
        # Which goes with the spool.
        return os.path.splitext(self._spool.path)[0] + ".files"

    def _name_of(self, file: str) -> str:
        return os.path.relpath(file, os.path.dirname(self._spool.path))

    def _send(self, line: Dict[str, Any]) -> None:
        queue, spool = self._queue, self._spool
        if len(queue) < spool.room or spool.has_room():
            queue.append((_now(), line))
        else:
            spool.drop()

    def _heard(self, message: Dict[str, Any]) -> None:
        """Handles the writer's messages: the run's identity, and requests to stop."""
        refused = message.get("refused")
        if refused and not self._is_answered.is_set():
            self._refusal = str(refused)
            self._is_answered.set()
        elif refused:
            _messages.say(
                f"{refused}; what is logged stays in `{self._spool.path}`, and the next run writes "
                "it to the store as a run of its own"
            )
        number = message.get("trial")
        if isinstance(number, int):
            self._is_answered.set()
            first = self.number is None
            self.number = number
            self.study = message.get("study") or self.study
            # None if it cannot have the one that was asked for.
            self.name = message.get("name")
            if first:
                named = f" (`{self.name}`)" if self.name else ""
                _messages.say(f"run {number}{named} of study `{self.study}`")
        stop = message.get("stop")
        if stop:
            self._stop_reason = str(stop)
        note = message.get("note") or message.get("error")
        if note:
            _messages.say(str(note))
        trouble = message.get("trouble")
        if trouble:
            # Each writer that is started says it again.
            _messages.once(f"trouble {trouble}", f"{trouble}; it is tried again")

    def _close(self, status: str, message: Optional[str]) -> None:
        ending = self._spool.close({"finish": status, "message": message, "time": _now() // 1000})
        path = self._spool.path
        if ending is Ending.WRITING:
            # The writer is to see the end of this program only when the file is complete.
            _messages.say(
                f"`{path}` is still being written: what was logged last is lost if this program "
                "ends before that is done"
            )
            return
        has_left = self._writer.close(time.monotonic() + PATIENCE)
        if ending is Ending.LOST:
            _messages.say(
                f"the end of this run could not be written to `{path}`: "
                f"{self._spool.lost} lines are lost"
            )
        elif not has_left and self._writer.status not in (None, 0):
            _messages.say(
                f"the store could not be written (status {self._writer.status}); the rest is in "
                f"`{path}`, and the next run stores it"
            )
        elif not has_left:
            _messages.say(
                f"the store is still being written; the rest is in `{path}` and is not lost: "
                "the writer continues, or the next run stores it"
            )

    def _abandon(self) -> None:
        self._spool.abandon()
        self._writer.abandon()


def _host() -> str:
    return os.uname().nodename if hasattr(os, "uname") else ""


def _directory() -> Optional[str]:
    try:
        return os.getcwd()
    except OSError:
        return None
