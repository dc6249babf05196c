"""A run inside a trial of a search: lines on standard output, decisions from standard input."""

import json
import os
import select
import signal
import stat
import sys
import threading
import time
from typing import Any, Callable, Dict, FrozenSet, Mapping, Optional, Sequence

from . import _messages, _secrets, _values
from ._run import Run

#: What a line for the runner begins with.
PREFIX = "@hpsearch "

#: A line for the runner that says nothing, without its end.
_NOTHING = b'@hpsearch {"tags":[]}'

#: Seconds for which an answer is waited for at most, each time and in all if none comes: only a
#: report of the study's metric gets one.
PATIENCE, PATIENCE_IN_ALL = 1.0, 5.0

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class TrialRun(Run):
    """The run of the trial that this program is.

    Its parameters are those of the search over those of `config`.
    """

    _keeps = True

    def __init__(
        self, config: Dict[str, Any], environment: Mapping[str, str], tags: Sequence[str] = ()
    ) -> None:
        parameters = searched(environment)
        super().__init__({**config, **parameters}, environment.get("HPSEARCH_STUDY"), None)
        number = environment.get("HPSEARCH_TRIAL", "")
        self.number = int(number) if number.isdigit() else None
        self._lock = threading.Lock()
        self._output = _Output()
        self._listener: Optional[threading.Thread] = None
        self._handler: Any = None
        until = environment.get("HPSEARCH_UNTIL", "")
        self._until = int(until) if until.isdigit() else None
        self._decided = threading.Event()
        self._judged = _names(environment.get("HPSEARCH_JUDGED", ""))
        #: Reports that will be answered, and answers.
        self._reported = self._answered = 0
        self._answer = threading.Condition()
        self._is_pruned = False
        self._patience = PATIENCE_IN_ALL
        #: The open runs that share it.
        self._sharing = 0
        _handle_sigterm(self)
        self._searched = parameters
        # A search knows its parameters; a run that is tracked learns them here.
        self._is_tracked = environment.get("HPSEARCH_TRACKED") == "1"
        self._say("init", self._recorded(config))
        self._say("init", {"tags": list(tags)} if tags else {})

    def _directory(self) -> str:
        # The trial's own directory, with which it goes at the latest.
        return os.environ.get("HPSEARCH_CHECKPOINT_DIR") or os.curdir

    def _name_of(self, file: str) -> str:
        # Relative to that directory, which is elsewhere outside of a container.
        has_directory = os.environ.get("HPSEARCH_CHECKPOINT_DIR")
        return os.path.basename(file) if has_directory else super()._name_of(file)

    def _found(self, path: str) -> str:
        below = os.path.join(self._directory(), path)
        return below if path and not os.path.exists(path) else path

    def _send(self, line: Dict[str, Any]) -> None:
        text = PREFIX + _encode(line)
        with self._lock:
            if self._listener is None:
                self._listen()
            try:
                self._output.write_line(text.encode())
                self._reported += not self._judged.isdisjoint(line)
            except OSError as error:
                _messages.once(
                    "output",
                    f"standard output cannot be written ({error}): no further reports reach the "
                    "search",
                )

    def _add_params(self, values: Dict[str, Any]) -> Dict[str, Any]:
        for name, value in values.items():
            if name in self._searched and self._searched[name] != value:
                _messages.once(
                    f"searched {name}",
                    f"`{name}` stays `{self._searched[name]}`, which this trial was started with: "
                    f"`{value}` is not recorded",
                )
        return self._recorded(values)

    def _recorded(self, values: Dict[str, Any]) -> Dict[str, Any]:
        beside = {name: value for name, value in values.items() if name not in self._searched}
        self.params._learn(beside)
        if not beside or not self._is_tracked:
            return {}
        return {"params": _secrets.masked(_values.plain(beside))}

    def _listen(self) -> None:
        global _listener, _listening
        _listening = self
        if _listener is None or not _listener.is_alive():
            _listener = threading.Thread(
                target=_read_decisions, name="hpsearch-decisions", daemon=True
            )
            if _may_read_standard_input():
                _listener.start()
        self._listener = _listener

    @property
    def should_stop(self) -> bool:
        """Whether the program should save and end: a pruner or a person stopped or paused it.

        After a report of the study's metric in a study that stops trials, it waits for the answer,
        a second at most.
        """
        # SIGTERM may come with the answer.
        self._reads_should_stop = True
        if self._reported > self._answered:
            self._wait(self._is_answered)
        return super().should_stop

    def _is_answered(self, seconds: float) -> bool:
        with self._answer:
            return self._answer.wait_for(
                lambda: self._answered >= self._reported or self._stop_reason is not None, seconds
            )

    @property
    def _will_resume(self) -> bool:
        return self._stop_reason is not None and not self._is_pruned

    def _await_pause(self, step: Optional[int]) -> None:
        if self._until is None or step is None or step < self._until:
            return
        self._wait(self._decided.wait)

    def _wait(self, answered: Callable[[float], bool]) -> None:
        if self._listener is None or not self._listener.is_alive():
            return
        begun = time.monotonic()
        if not answered(min(PATIENCE, self._patience)):
            self._patience = max(0.0, self._patience - (time.monotonic() - begun))

    def _close(self, status: str, message: Optional[str]) -> None:
        if status != "complete" and message is None:
            _messages.once(
                "status",
                f"inside a trial the exit status of the program decides: end with another than 0 "
                f"for `{status}`",
            )
        self._let_go()

    def _let_go(self) -> None:
        if not self._is_open and self._sharing == 0:
            self._output.close()
            if self._handler is not None:
                _restore_sigterm(self)

    def _abandon(self) -> None:
        self._sharing = 0
        # A worker process that its parent terminates must end.
        if self._handler is not None:
            _restore_sigterm(self)


class SharedTrialRun(Run):
    """Another run in the trial that has an open one: both are the trial."""

    _keeps = True

    def __init__(self, trial: TrialRun, config: Dict[str, Any], tags: Sequence[str]) -> None:
        super().__init__({**config, **trial._searched}, trial.study, None)
        self.number = trial.number
        self._trial = trial
        trial._sharing += 1
        self._say("init", self._add_params(config))
        self._say("init", {"tags": list(tags)} if tags else {})

    def _send(self, line: Dict[str, Any]) -> None:
        self._trial._send(line)

    def _add_params(self, values: Dict[str, Any]) -> Dict[str, Any]:
        searched = self._trial._searched
        self.params._learn({name: value for name, value in values.items() if name not in searched})
        return self._trial._add_params(values)

    def _directory(self) -> str:
        return self._trial._directory()

    def _name_of(self, file: str) -> str:
        return self._trial._name_of(file)

    def _found(self, path: str) -> str:
        return self._trial._found(path)

    @property
    def should_stop(self) -> bool:
        """Whether the program should save and end: a pruner or a person stopped or paused it."""
        return self._trial.should_stop

    @property
    def stop_reason(self) -> Optional[str]:
        """Why the program should stop, in a sentence, or `None`."""
        return self._trial.stop_reason

    @property
    def _will_resume(self) -> bool:
        return self._trial._will_resume

    def _await_pause(self, step: Optional[int]) -> None:
        self._trial._await_pause(step)

    def _close(self, status: str, message: Optional[str]) -> None:
        self._trial._sharing -= 1
        self._trial._let_go()

    def _abandon(self) -> None:
        self._trial._abandon()


class _Output:
    """The real standard output, whose lines begin where lines begin.

    What is printed by `sys.stdout` is followed; what comes from C, from other processes or by
    `os.write` is not, and may have left a line without its end. A newline before each line would
    be an empty line in most logs. Where hpsearch itself reads, a line for it ends with a carriage
    return instead: hpsearch drops one newline after that, with which the next line begins. Where
    the last character is a newline as far as is known, a line that says nothing goes first: it is
    the one that is lost if the newline was not the last.
    """

    def __init__(self) -> None:
        # A duplicate, so that later changes to descriptor 1 have no effect.
        self._descriptor = os.dup(1)
        self._drops_newline = _is_read_by_hpsearch()
        self._last = self._end = "\r" if self._drops_newline else "\n"
        self._stream = sys.stdout
        self._follow(self._stream)
        if self._drops_newline:
            try:
                self._write(_NOTHING + b"\r")
            except OSError:
                # The first line of the program says so.
                pass

    def _follow(self, stream: Any) -> None:
        """Notes what the program prints last: whether it left a line without its end."""
        try:
            if stream is None or stream.fileno() != 1:
                return
            write = stream.write

            def noted(text: str) -> int:
                if text:
                    if self._drops_newline and text[0] == "\n":
                        write("\n")
                    self._drops_newline = False
                    self._last = text[-1]
                return write(text)  # type: ignore[no-any-return]

            stream.write = noted
        except (AttributeError, OSError, ValueError):
            # A stream of the program's own: it does not write to descriptor 1.
            pass

    def write_line(self, line: bytes) -> None:
        stream = sys.stdout
        if stream is not None:
            if stream is not self._stream:
                self._stream = stream
                self._follow(stream)
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):
                pass
        begin = _NOTHING + b"\r\n" if self._last == "\n" else b"\n"
        self._write(begin + line + self._end.encode())
        self._last = self._end
        self._drops_newline = self._end == "\r"

    def _write(self, line: bytes) -> None:
        while line:
            try:
                line = line[os.write(self._descriptor, line) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [], 1.0)

    def close(self) -> None:
        try:
            # The program may print on without hpsearch.
            del self._stream.write
        except (AttributeError, TypeError):
            pass
        os.close(self._descriptor)


def _is_read_by_hpsearch() -> bool:
    """Whether standard output is the pipe that hpsearch reads, without a filter between."""
    try:
        pipe = os.readlink("/proc/self/fd/1")
        process = os.getppid()
        while pipe.startswith("pipe:") and os.readlink(f"/proc/{process}/fd/1") == pipe:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                if file.read(64).split(b"\0")[:2] == [b"hpsearch", b"worker"]:
                    return True
            with open(f"/proc/{process}/stat", "rb") as file:
                # Behind the name of the program: the state, and the parent.
                process = int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        # Another system, or a container that does not show them.
        pass
    return False


def searched(environment: Mapping[str, str]) -> Dict[str, Any]:
    """The parameters that the search chose for this trial.

    Raises RuntimeError if they cannot be read: a program must not run with others.
    """
    path = environment.get("HPSEARCH_PARAMS")
    if not path:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError) as error:
        raise RuntimeError(f"the parameters of this trial cannot be read: {error}") from error


def _names(text: str) -> FrozenSet[str]:
    """The names in a JSON list; none if it is not there."""
    try:
        return frozenset(str(name) for name in json.loads(text))
    except (ValueError, TypeError):
        return frozenset()


def _may_read_standard_input() -> bool:
    """Whether descriptor 0 is the runner's pipe, and was not replaced."""
    try:
        stdin = sys.__stdin__
        if stdin is None or stdin is not sys.stdin or stdin.fileno() != 0:
            return False
        mode = os.fstat(0).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    except (AttributeError, OSError, ValueError):
        return False


#: The thread that reads decisions, and the run that they are for.
_listener: Optional[threading.Thread] = None
_listening: Optional[TrialRun] = None


def _read_decisions() -> None:
    # The descriptor, not `sys.stdin`: a lock of that would be held when the interpreter ends.
    rest = b""
    while True:
        try:
            read = os.read(0, 65536)
        except OSError:
            return
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            try:
                decision = json.loads(line)
                verdict = decision["verdict"]
            except (ValueError, KeyError, TypeError):
                continue
            run = _listening
            if run is None:
                continue
            if verdict in ("stop", "pause"):
                run._is_pruned = verdict == "stop"
                run._stop_reason = str(decision.get("reason") or verdict)
                run._decided.set()
            with run._answer:
                run._answered += 1
                run._answer.notify_all()


def _handle_sigterm(run: TrialRun) -> None:
    """Has SIGTERM set `should_stop`, unless the program has a handler of its own."""
    try:
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def stop(number: int, _frame: Any) -> None:
            if run._reads_should_stop and (run._is_open or run._sharing > 0):
                run._stop_reason = run._stop_reason or "SIGTERM"
                return
            # A program that never asks would only lose the time until SIGKILL.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, stop)
        run._handler = stop
    except (ValueError, OSError):
        # Not the main interpreter.
        pass


def _restore_sigterm(run: TrialRun) -> None:
    try:
        if signal.getsignal(signal.SIGTERM) is run._handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except (ValueError, OSError):
        pass


# The mask of a thread that forks.
_forking = threading.local()


def _block_sigterm() -> None:
    """Has a SIGTERM wait that comes while a process forks.

    Python drops the signals that a child gets before its hooks run, and a handler of its parent
    would take the others: a worker that `multiprocessing` terminates at once would never end.
    """
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))


def _unblock_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


if hasattr(os, "register_at_fork"):
    # In the child after the hook of `_run`, which restores how SIGTERM is handled.
    os.register_at_fork(
        before=_block_sigterm, after_in_parent=_unblock_sigterm, after_in_child=_unblock_sigterm
    )
