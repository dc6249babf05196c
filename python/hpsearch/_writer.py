"""The writer: a background `hpsearch` that follows the spool and writes the store."""

import json
import os
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _binary, _messages

#: Seconds before a writer that ended is started again: longer each time, up to the last.
PAUSES = (0.5, 1.0, 2.0, 5.0, 15.0, 60.0)

#: Number of failed starts after which the user is warned.
MOST_FAILURES = 3

#: The longest line that it says.
_LONGEST_LINE = 1 << 16

#: How it ends when it has said why nothing can be written, and trying again is of no use.
REFUSED = 2

#: Streams whose descriptors the program closed: closing them would close other files.
_kept: List[Any] = []

Identity = Tuple[int, int]


def _identity(descriptor: int) -> Identity:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


Heard = Callable[[Dict[str, Any]], None]


class Writer:
    """The process that writes one spool into the store; started again if it is killed.

    It lives on when the program dies, and then ends the run. The program's life is the pipe on
    its standard input; every byte there says that the spool has grown.
    """

    def __init__(self, spool: str, store: str, heard: Heard) -> None:
        self._words = ["writer", "--spool", spool]
        # Not a word of the command line, which everybody may read: it may contain a password.
        self._store = store
        self._heard = heard
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._program: Optional[str] = None
        self._listener: Optional[threading.Thread] = None
        self._starts = 0
        self._failures = 0
        self._not_before = 0.0
        # The identity of its standard input, which changes if the descriptor is closed and reused.
        self._pipe: Optional[Identity] = None
        self._has_refused = False

    def start(self) -> None:
        """Starts it, if the program is found."""
        self._program = _binary.find()
        if self._program is None:
            _messages.say(
                f"{_binary.missing()}; what is logged stays in `{self._words[2]}`, and the next "
                "run that finds it writes it to the store"
            )
            return
        self._begin()

    def _begin(self) -> None:
        words: List[str] = [self._program or "hpsearch", *self._words]
        self._starts += 1
        try:
            # Of a session of its own, so that Ctrl-C ends the program only.
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "HPSEARCH_STORE": self._store},
                start_new_session=True,
            )
        except OSError as error:
            self._has_refused = True
            _messages.say(
                f"`{words[0]}` cannot be started ({error}); all records stay in `{self._words[2]}`"
            )
            return
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._pipe = _identity(process.stdin.fileno())
        self._process = process
        self._listener = threading.Thread(
            target=self._listen, args=(process,), name="hpsearch-writer", daemon=True
        )
        self._listener.start()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdout is None:
            return
        try:
            pipe = _identity(process.stdout.fileno())
            while _identity(process.stdout.fileno()) == pipe:
                line = process.stdout.readline(_LONGEST_LINE)
                if not line:
                    return
                self._hear(line)
            # Another file of the program has the number by now.
            _kept.append(process.stdout)
        except (OSError, ValueError):
            # The program closed the descriptor.
            pass

    def _hear(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            # It died in the middle of a line, or is another program: the next writer says it again.
            return
        if isinstance(message, dict):
            if isinstance(message.get("trial"), int):
                self._failures = 0
            self._heard(message)

    def lives(self) -> bool:
        """Whether one was started, and will say what becomes of the run."""
        return self._process is not None and not self._has_refused

    def follow(self, spool: str) -> None:
        """Follows another file from the next start on; the one that runs has ended, or will."""
        self._words[2] = spool

    def look(self, has_grown: bool) -> None:
        """Tells it that the spool has grown; starts it again if it is gone."""
        process = self._process
        if process is None or self._has_refused:
            return
        status = process.poll()
        if status is None:
            if has_grown and process.stdin is not None and self._has_pipe(process):
                try:
                    os.write(process.stdin.fileno(), b"\n")
                except (BlockingIOError, BrokenPipeError):
                    # It has not read the last ones, or it is about to be found dead.
                    pass
            return
        self._let_go(process)
        if status == REFUSED:
            self._has_refused = True
            return
        self._note_failure(status)
        now = time.monotonic()
        if self._not_before == 0.0:
            self._not_before = now + PAUSES[min(self._starts, len(PAUSES)) - 1]
        if now >= self._not_before:
            self._not_before = 0.0
            self._begin()

    def _note_failure(self, status: int) -> None:
        if self._not_before != 0.0 or status == 0:
            # It was noted when it ended.
            return
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            _messages.once(
                "failing",
                f"`{self._program} writer` ended {self._failures} times in a row, last with "
                f"status {status}, and is tried again; all records stay in `{self._words[2]}`",
            )

    def _has_pipe(self, process: "subprocess.Popen[bytes]") -> bool:
        """Whether the descriptor is still the pipe, and no file that the program opened since."""
        try:
            descriptor = process.stdin.fileno() if process.stdin is not None else -1
            return _identity(descriptor) == self._pipe
        except (OSError, ValueError):
            return False

    def _let_go(self, process: "subprocess.Popen[bytes]") -> None:
        if process.stdin is not None and not process.stdin.closed:
            if not self._has_pipe(process):
                # Closed by the program already; the number may be another file's.
                _kept.append(process.stdin)
                _kept.append(process.stdout)
                process.stdin = None
                return
            try:
                process.stdin.close()
            except OSError:
                pass

    def close(self, until: float) -> bool:
        """Lets it write the rest and end; whether it did before `until` (monotonic seconds).

        Of one that never began, or has refused, that was said.
        """
        process = self._process
        if process is None or self._has_refused:
            return True
        if process.poll() not in (None, 0, REFUSED):
            # It was killed a moment ago: one more that writes the rest.
            self._let_go(process)
            self._begin()
            process = self._process or process
        self._let_go(process)
        try:
            has_left = process.wait(max(0.0, until - time.monotonic())) in (0, REFUSED)
            if self._listener is not None:
                # What it said last is to be read, too.
                self._listener.join(max(0.0, min(1.0, until - time.monotonic())))
            return has_left
        except subprocess.TimeoutExpired:
            # It continues without this program, which does not wait for it.
            process.returncode = 0
            return False

    @property
    def status(self) -> Optional[int]:
        """How the last one ended; `None` while it lives, or if there was none."""
        return None if self._process is None else self._process.returncode

    def abandon(self) -> None:
        """Closes the pipe in a forked child, so that the parent's end is seen."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                try:
                    process.stdin.close()
                except OSError:
                    pass
            # The child has no such child: it must not be waited for.
            process.returncode = 0
