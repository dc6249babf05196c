"""A run as a program sees it: what can be logged, and where it goes."""

import os
import sys
import weakref
from _thread import get_ident as this_thread
from types import TracebackType
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple, Type, Union

from . import _messages, _secrets, _values
from ._binary import HpsearchError
from ._params import Params

Path = Union[str, "os.PathLike[str]"]

#: How a run may end.
STATUSES = ("complete", "failed", "interrupted")


class Run:
    """A run. `hpsearch.init` makes it; this class itself keeps nothing.

    What the base class does is what happens on ranks other than 0 of a distributed program:
    everything is accepted, and nothing is written.
    """

    #: Whether logged values are recorded.
    _keeps = False

    def __init__(self, params: Dict[str, Any], study: Optional[str], name: Optional[str]) -> None:
        #: The parameters: of the trial, and what `config` has besides. What is set in them is
        #: recorded as by `set_params`; `params["lr"]` and `params.lr` are the same.
        self.params = Params(params, self.set_params)
        #: The name of the study, once it is known.
        self.study = study
        #: The name of the run, once it is known.
        self.name = name
        #: The number of the trial in its study, once it is known.
        self.number: Optional[int] = None
        self._is_open = True
        #: Whether a `with` block ends it.
        self._is_entered = False
        #: The thread that began it.
        self._thread = this_thread()
        self._asked_name = name
        self._last_step: Optional[int] = None
        self._stop_reason: Optional[str] = None
        self._reads_should_stop = False
        _runs.add(self)

    @property
    def config(self) -> Params:
        """The same as `params`."""
        return self.params

    @property
    def should_stop(self) -> bool:
        """Whether the program should save and end: a pruner or a person stopped or paused it."""
        self._reads_should_stop = True
        return self._stop_reason is not None

    @property
    def _will_resume(self) -> bool:
        """Whether it is to stop now, and to continue later from its newest checkpoint."""
        return False

    def _await_pause(self, step: Optional[int]) -> None:
        """Waits for the answer to a report of the step at which the trial is to pause, or later."""

    @property
    def stop_reason(self) -> Optional[str]:
        """Why the program should stop, in a sentence, or `None`."""
        return self._stop_reason

    def log(self, values: Mapping[str, Any], step: Optional[int] = None) -> None:
        """Logs metrics. Nested dictionaries become names such as `train/loss`.

        Without `step` (as an argument or a key) steps are counted. Never raises, and does not
        wait for the disk.
        """
        if not self._is_open:
            return self._refuse("log")
        try:
            # What was logged before under these names, and is of Python's own numbers, is copied
            # here: each function that is called costs microseconds when the caches are cold.
            if (
                type(values) is dict
                and _values.are_known(values)
                and _values.are_floats(map(type, values.values()))
            ):
                found: Dict[str, Any] = values.copy()
            else:
                found = _values.metrics(values)
            if "step" in found:
                said = found.pop("step")
                step = said if step is None else step
            if not found:
                return
            if step is not None:
                if type(step) is not int or step < 0:
                    step = _values.as_step(step)
                    if step is None:
                        return
                found["step"] = step
            # Steps that are not given are counted by whoever reads the lines.
            self._last_step = step
            self._send(found)
        except Exception as error:  # noqa: BLE001 - logging never ends a training
            self._failed("log", error)

    def checkpoint(self, path: Path, step: Optional[int] = None) -> None:
        """Registers a checkpoint, a file or directory that is complete.

        The step is that of the last `log` unless given, whether it was given there or counted.
        """
        if step is None or _values.as_step(step) is not None:
            self._say("checkpoint", self._with_step({"checkpoint": _located(path)}, step))

    def artifact(
        self,
        path: Path,
        name: Optional[str] = None,
        copy: Optional[bool] = None,
        step: Optional[int] = None,
    ) -> None:
        """Keeps a file or directory under a name (by default its own); again, a new version.

        It is copied before this returns, so that it may be changed or removed afterwards. With
        `copy=False`, and above 1 GiB unless `copy=True`, only its path and digest are kept: then
        it must stay as it is.
        """
        located = _located(path)
        base = os.path.basename(os.path.normpath(located))
        line = self._named("artifact", located, name or base, step)
        if copy is not None:
            line["copy"] = bool(copy)
        if copy is None or copy:
            line = self._with_copy("artifact", line, bool(copy))
        self._say("artifact", line)

    def _with_copy(self, kind: str, line: Dict[str, Any], is_large_allowed: bool) -> Dict[str, Any]:
        """The line with a copy made now in place of its file, if that is to be copied.

        Empty, with a message, if that fails.
        """
        if not self._is_open or not self._keeps:
            return line
        from . import _copies

        path = self._found(line[kind])
        try:
            if kind == "image" and os.path.isdir(path):
                return line
            copy = _copies.copied(path, self._directory(), is_large_allowed)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self._not_kept(kind, line["name"], error, f"`{path}` cannot be copied ({why})")
            return {}
        if copy is None:
            return line
        named = {name: value for name, value in line.items() if name != "copy"}
        return {**named, kind: self._name_of(copy), "moved": True, "of": path}

    def text(self, name: str, text: Any, step: Optional[int] = None) -> None:
        """Keeps a text under a name, up to 64 KiB of it; again, a new version."""
        from . import _media

        try:
            kept, of = _media.text(text)
            line: Dict[str, Any] = {"text": {name: kept}}
        except Exception as error:  # noqa: BLE001 - logging never ends a training
            return self._not_kept("text", name, error)
        if of > _media.LONGEST_TEXT:
            most = _media.LONGEST_TEXT >> 10
            why = f"the text `{name}` has {of} bytes; the first {most} KiB are kept"
            _messages.once_for(str(name), "long text", why)
        self._say("text", self._with_step(line, step))

    def image(self, name: str, image: Any, step: Optional[int] = None) -> None:
        """Keeps an image under a name; again, a new version.

        It is the path of a PNG, JPEG, GIF or WebP file (which is copied before this returns), an
        image of PIL, a figure of matplotlib, or an array of height, width and perhaps 1, 3 or 4
        channels (integers to 255, floats to 1).
        """
        from . import _media

        if not self._is_open or not self._keeps:
            return self._say("image", {})
        try:
            if _media.is_path(image):
                line = self._named("image", _located(image), name, step)
                return self._say("image", self._with_copy("image", line, True))
            directory = self._directory()
            os.makedirs(directory, 0o700, exist_ok=True)
            path = os.path.join(directory, f".image-{os.urandom(6).hex()}.png")
            try:
                _media.write_png(image, path)
            except BaseException:
                if os.path.exists(path):
                    os.remove(path)
                raise
        except Exception as error:  # noqa: BLE001 - logging never ends a training
            return self._not_kept("image", name, error)
        line = self._named("image", self._name_of(path), name, step)
        line["moved"] = True
        self._say("image", line)

    def table(
        self, name: str, columns: Any, rows: Optional[Iterable[Any]] = None, step: Optional[int] = None
    ) -> None:
        """Keeps a table under a name, up to 10,000 rows and 256 KiB; again, a new version.

        It is columns and rows, a list of dictionaries, or a DataFrame of pandas or polars.
        """
        from . import _media

        try:
            line = self._named("table", _media.table(columns, rows), name, step)
        except Exception as error:  # noqa: BLE001 - logging never ends a training
            return self._not_kept("table", name, error)
        self._say("table", line)

    def _named(self, kind: str, value: Any, name: str, step: Optional[int]) -> Dict[str, Any]:
        return self._with_step({kind: value, "name": str(name)}, step)

    def _with_step(self, line: Dict[str, Any], step: Optional[int]) -> Dict[str, Any]:
        """The line with the step, by default that of the last `log`.

        Of one that was counted, or that is no step, the line has none: its reader knows the last.
        """
        step = self._last_step if step is None else step
        whole = None if step is None else _values.as_step(step)
        if whole is not None:
            line["step"] = whole
        return line

    def set_params(self, values: Any) -> None:
        """Adds or replaces parameters that are known only now. Those that a search chose stay."""
        try:
            found = _values.configuration(values)
        except TypeError as error:
            return self._failed("set_params", error)
        self._say("set_params", self._add_params(found))

    def _add_params(self, values: Dict[str, Any]) -> Dict[str, Any]:
        self.params._learn(values)
        return {"params": _secrets.masked(_values.plain(values))}

    def summary(self, values: Mapping[str, Any]) -> None:
        """Sets values that describe the whole run, such as a test score."""
        self._say("summary", {"summary": _values.plain(values)})

    def finish(self, status: str = "complete", message: Optional[str] = None) -> None:
        """Ends the run as `complete`, `failed` or `interrupted`.

        Waits a few seconds at most until everything is in the store, and says where the rest lies.
        """
        if not self._is_open:
            return
        if status not in STATUSES:
            _messages.say(f"`{status}` is none of {', '.join(STATUSES)}: the run counts as failed")
            status = "failed"
        self._is_open = False
        try:
            self._close(status, message)
        except Exception as error:  # noqa: BLE001 - the end of logging is not the program's
            self._failed("finish", error)

    def __enter__(self) -> "Run":
        if not self._is_open:
            raise HpsearchError("the run has ended: `hpsearch.init` begins another")
        self._is_entered = True
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.finish(*ending(error))

    def _is_called(self, word: str) -> bool:
        """Whether another run means this one by its name, number or id."""
        number = None if self.number is None else str(self.number)
        return word in (self._asked_name, self.name, number, getattr(self, "id", None))

    def _await_number(self) -> None:
        """Waits until the run is in the store, for some seconds at most."""

    def _say(self, what: str, line: Dict[str, Any]) -> None:
        if not self._is_open:
            return self._refuse(what)
        try:
            if line:
                self._send(line)
        except Exception as error:  # noqa: BLE001 - logging never ends a training
            self._failed(what, error)

    def _send(self, line: Dict[str, Any]) -> None:
        """Takes an object of the protocol."""

    def _directory(self) -> str:
        """Where files are written that go once they are kept."""
        return os.curdir

    def _name_of(self, file: str) -> str:
        """What a line calls a file there."""
        return os.path.abspath(file)

    def _found(self, path: str) -> str:
        """The file that a path in a line means."""
        return path

    def _close(self, status: str, message: Optional[str]) -> None:
        """Ends the run, which is open."""

    def _abandon(self) -> None:
        """Lets go of what belongs to the parent, in a child that was forked."""

    def _refuse(self, what: str) -> None:
        _messages.once(
            f"closed {what} {_cell()}",
            f"`{what}` after the run has ended: nothing is logged; `hpsearch.init` begins another",
        )

    def _not_kept(self, kind: str, name: Any, error: Exception, why: Optional[str] = None) -> None:
        """Says so once for each name and kind of failure."""
        if why is None:
            why = str(error) if type(error) in (TypeError, ValueError) else repr(error)
        # Without the path, and numbers that may be others each time.
        failure = "".join(char for char in why.rpartition("`")[2] if not char.isdigit())
        _messages.once_for(
            str(name),
            f"{kind} {failure}",
            f"the {kind} `{name}` is not kept: {why}; the program continues",
        )

    def _failed(self, what: str, error: Exception) -> None:
        _messages.once(f"failed {what}", f"`{what}` failed ({error!r}); the program continues")


class ForkedRun:
    """What a run becomes in a child process that was forked: only its parent logs."""

    @staticmethod
    def take(run: Run) -> None:
        """Closes the run in this process without a message."""
        run._is_open = False
        run._refuse = ForkedRun._refuse  # type: ignore[method-assign]
        run._abandon()

    @staticmethod
    def _refuse(what: str) -> None:
        _messages.once(
            "forked",
            "this process was forked from the one that called `hpsearch.init`, which alone logs: "
            "nothing is logged here",
        )


_runs: "weakref.WeakSet[Run]" = weakref.WeakSet()


def _after_fork() -> None:
    for run in list(_runs):
        if run._is_open:
            ForkedRun.take(run)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ending(error: Optional[BaseException]) -> Tuple[str, Optional[str]]:
    """The status, and why, of a program that ends with this exception."""
    if error is None or isinstance(error, GeneratorExit):
        return "complete", None
    if isinstance(error, SystemExit):
        code = error.code
        return ("complete", None) if code in (None, 0) else ("failed", f"exit status {code}")
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", "KeyboardInterrupt"
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an exception's own mistake
        said = ""
    return "failed", f"{type(error).__name__}: {said}"[:1000]


def _cell() -> Any:
    """The number of the cell that a notebook runs."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "execution_count", None)


def _located(path: Path) -> str:
    # What is not there may be meant below HPSEARCH_CHECKPOINT_DIR: hpsearch looks there.
    text = os.fsdecode(os.fspath(path))
    return os.path.abspath(text) if os.path.exists(text) else text


def rank() -> int:
    """The rank of this process in a distributed program, 0 in any other.

    Rank 0 logs. HPSEARCH_RANK overrules what launchers set.
    """
    for variable in _RANKS:
        value = os.environ.get(variable, "")
        if value.isdigit():
            return int(value)
    return 0


_RANKS = (
    "HPSEARCH_RANK",
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "LOCAL_RANK",
)
