"""`hpsearch.init`: which kind of run this program has, and those that it has now."""

import atexit
import os
import sys
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from . import _messages, _store, _values
from ._run import Path, Run, ending, rank, this_thread

#: The runs that `init` has begun, in this order: those that are open, and the last one.
_begun: List[Run] = []
_error: Optional[BaseException] = None
_is_hooked = False

#: What to write for arguments that other tools have.
_INSTEAD = {
    "project": ": the project of a run is its `study`",
    "experiment": ": the experiment of a run is its `study`",
    "experiment_name": ": the experiment of a run is its `study`",
    "run_name": ": a run is called by its `name`",
    "params": ": parameters are its `config`",
    "job_type": ": use `group`, or a word in `tags`",
    "notes": ": use `run.text(\"notes\", ..)`, or `hpsearch note STUDY RUN TEXT`",
    "entity": ": a store has no users; leave it out",
    "mode": ": runs are always local and need no server; leave it out",
    "dir": ": the file that runs are stored in is its `store`",
    "reinit": ": an `init` ends the run before it, unless that is in a `with` block, of another "
    "thread, or its `parent`; leave it out",
}

#: The longest name of a study or a run, in characters.
LONGEST_NAME = 200


def init(
    study: Optional[str] = None,
    name: Optional[str] = None,
    config: Any = None,
    id: Optional[str] = None,
    resume: Union[bool, str, int, None] = None,
    tags: Optional[Sequence[str]] = None,
    store: Optional[Path] = None,
    group: Optional[str] = None,
    parent: Union[str, int, None] = None,
    system: Optional[str] = None,
    metric: Optional[str] = None,
    direction: Optional[str] = None,
    **unknown: Any,
) -> Run:
    """Begins a run, and ends the one before, if there is one.

    A run stays open if it is in a `with` block, if another thread began it, or if the new one names
    it as its `parent`.

    Inside a trial of a search, the run is that trial: `params` are the search's over `config`,
    `tags` become the trial's, and everything else is the search's own. On ranks other than 0 of a
    distributed program the run does nothing but have `params`.

    By itself: `study` is the study that the run goes to; `name` what it is called; `config` its
    parameters (a dictionary, an `argparse.Namespace` or a dataclass); `id` tells it apart (made up
    unless given); `resume` is `"allow"` or `True` (the run with this `id`, or else this `name`, is
    continued if there is one), `"must"` (there must be one), `"never"` (there must be none), or the
    name, id or number of another run, which must exist; `tags` are words for it; `store` is
    HPSEARCH_STORE or `runs/hpsearch.db`; `group` puts runs together; `parent` is the run (a name or
    number of the study) that this one is part of; `system` is how often CPU, memory and GPUs are
    measured (`"10s"` unless given), or `"off"`; `metric` (`loss` unless given) and `direction`
    (`"minimize"` or `"maximize"`, `"min"` or `"max"`, without which smaller is better) are what a new study compares
    its runs by.

    Raises TypeError or ValueError for arguments of the wrong kind, and HpsearchError if a run must
    exist and does not, or the other way round; that is waited for, five seconds at most. A name
    that no store takes is left out, and what fails later (no disk space, no `hpsearch` program) is
    said once on standard error: the program continues.
    """
    for word in unknown:
        raise TypeError(f"`hpsearch.init` has no argument `{word}`{_INSTEAD.get(word, '')}")
    parameters = _values.configuration(config)
    if isinstance(tags, str):
        raise TypeError("`tags` must be a list of words, not a string")
    words = [str(tag) for tag in tags or ()]
    _check_period(system)
    direction = None if direction is None else _values.direction(direction)
    named_by = (("study", study), ("name", name), ("id", id))
    for what, text in (*named_by, ("group", group), ("metric", metric)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"`{what}` must be a string, not a {type(text).__name__}")
    if (resume is True or resume in ("allow", "must")) and id is None and name is None:
        raise ValueError(f"`resume={resume!r}` needs the `id` or the `name` of the run to continue")
    _end_replaced(None if parent is None else str(parent))
    _messages.forget()
    study, name, id = (_fit_name(*named) for named in named_by)
    _hook()
    given = {
        "tags": words,
        "group": group,
        "parent": None if parent is None else str(parent),
        "system": system,
        "metric": metric,
        "direction": direction,
    }
    run = _begin(study, name, parameters, id, resume, store, given)
    _begun.append(run)
    return run


def _end_replaced(parent: Optional[str]) -> None:
    """Ends the runs in whose place another one begins: this thread's, from the newest on, up to
    one in a `with` block, or that is the `parent` of the new one."""
    for run in reversed(_open_runs(this_thread())):
        if run._is_entered or parent is not None and run._is_called(parent):
            break
        run.finish()
    for run in list(_begun):
        if not run._is_open:
            _begun.remove(run)
        elif parent is not None and run._is_called(parent):
            # Its writer and that of the new one are not in this order.
            run._await_number()


def _open_runs(thread: Optional[int] = None) -> List[Run]:
    return [run for run in list(_begun) if run._is_open and thread in (None, run._thread)]


def _begin(
    study: Optional[str],
    name: Optional[str],
    config: "dict[str, Any]",
    id: Optional[str],
    resume: Union[bool, str, int, None],
    store: Optional[Path],
    given: "dict[str, Any]",
) -> Run:
    if os.environ.get("HPSEARCH_TRIAL"):
        from ._trial import SharedTrialRun, TrialRun, searched

        if rank() != 0:
            return Run({**config, **searched(os.environ)}, study, name)
        for run in _open_runs():
            trial = run._trial if isinstance(run, SharedTrialRun) else run
            if isinstance(trial, TrialRun):
                return SharedTrialRun(trial, config, given["tags"])
        return TrialRun(config, os.environ, given["tags"])
    if rank() != 0:
        return Run(config, study, name)
    from ._tracked import TrackedRun

    address = os.fspath(store) if store is not None else os.environ.get("HPSEARCH_STORE")
    path, spools = _store.with_spools(address)
    continued, known = _continued(id if id is not None else name, resume)
    try:
        return TrackedRun(
            store=path,
            spools=spools,
            study=study,
            name=name,
            id=id or _made_up(),
            resume=continued,
            known=known,
            config=config,
            **given,
        )
    except OSError as error:
        _messages.say(f"nothing can be logged in `{spools}`: {error}; the program continues")
        return Run(config, study, name)


def _continued(
    named: Optional[str], resume: Union[bool, str, int, None]
) -> "Tuple[Optional[str], str]":
    """The run to look for, and whether it must be there: `allow`, `must` or `never`."""
    if resume is None or resume is False:
        return None, "allow"
    if resume is True or resume == "allow":
        return named, "allow"
    if resume == "never":
        # Without an id or a name there is none.
        return named, "allow" if named is None else "never"
    return named or "" if resume == "must" else str(resume), "must"


def _made_up() -> str:
    import time

    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(3).hex()


def _fit_name(what: str, text: Optional[str]) -> Optional[str]:
    """The name, or `None` with a message for one that no store takes."""
    if text is None:
        return None
    if text.strip() and len(text) <= LONGEST_NAME and "\0" not in text:
        return text
    shown = repr(text if len(text) <= 40 else text[:40] + "..")
    _messages.say(
        f"`{what}` must have 1 to {LONGEST_NAME} characters, and no NUL: {shown} is left out"
    )
    return None


def _check_period(system: Optional[str]) -> None:
    if system is None or system == "off":
        return
    import re

    if not isinstance(system, str):
        raise TypeError(f"`system` must be a string, not a {type(system).__name__}")
    if not re.fullmatch(r"[1-9][0-9]{0,6}(s|m|h)", system):
        raise ValueError(f"`system` must be a time such as `10s` or `1m`, or `off`, not `{system}`")


def current() -> Optional[Run]:
    """The newest open run of this thread, or else of the program; if none is open, the last one."""
    for runs in (_open_runs(this_thread()), _open_runs(), list(_begun)):
        if runs:
            return runs[-1]
    return None


def _required(what: str) -> Optional[Run]:
    run = current()
    if run is None:
        _messages.once(f"no run {what}", f"`hpsearch.{what}` before `hpsearch.init`: not logged")
    return run


def log(values: Mapping[str, Any], step: Optional[int] = None) -> None:
    """`Run.log` of the present run."""
    run = _required("log")
    if run is not None:
        run.log(values, step)


def checkpoint(path: Path, step: Optional[int] = None) -> None:
    """`Run.checkpoint` of the present run."""
    run = _required("checkpoint")
    if run is not None:
        run.checkpoint(path, step)


def artifact(
    path: Path,
    name: Optional[str] = None,
    copy: Optional[bool] = None,
    step: Optional[int] = None,
) -> None:
    """`Run.artifact` of the present run."""
    run = _required("artifact")
    if run is not None:
        run.artifact(path, name, copy, step)


def text(name: str, text: Any, step: Optional[int] = None) -> None:
    """`Run.text` of the present run."""
    run = _required("text")
    if run is not None:
        run.text(name, text, step)


def image(name: str, image: Any, step: Optional[int] = None) -> None:
    """`Run.image` of the present run."""
    run = _required("image")
    if run is not None:
        run.image(name, image, step)


def table(
    name: str, columns: Any, rows: Optional[Iterable[Any]] = None, step: Optional[int] = None
) -> None:
    """`Run.table` of the present run."""
    run = _required("table")
    if run is not None:
        run.table(name, columns, rows, step)


def summary(values: Mapping[str, Any]) -> None:
    """`Run.summary` of the present run."""
    run = _required("summary")
    if run is not None:
        run.summary(values)


def finish(status: str = "complete", message: Optional[str] = None) -> None:
    """`Run.finish` of the present run."""
    run = _required("finish")
    if run is not None:
        run.finish(status, message)


def _hook() -> None:
    """Has the end of the program end its run, and notes why it ends."""
    global _is_hooked
    if _is_hooked:
        return
    _is_hooked = True
    atexit.register(_at_exit)
    former_hook, former_exit = sys.excepthook, sys.exit

    def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
        global _error
        if "ipykernel" not in sys.modules and not hasattr(sys, "ps1"):
            # In a notebook or an interactive session an exception is not the end.
            _error = error
        former_hook(kind, error, trace)

    def exit(code: Any = None) -> None:
        # The only place that knows the status before the interpreter ends.
        global _error
        _error = SystemExit(code)
        former_exit(code)

    sys.excepthook = excepthook
    sys.exit = exit  # type: ignore[assignment]


def _at_exit() -> None:
    for run in reversed(_open_runs()):
        run.finish(*ending(_error))
