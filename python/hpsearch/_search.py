"""A search whose trials this program runs itself, over `hpsearch ask-tell`."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import warnings
import weakref
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from . import _values
from ._binary import HpsearchError, required
from ._run import Path

Algorithm = Union[str, Mapping[str, Any], None]


def study(
    name: Optional[str] = None,
    space: Optional[Mapping[str, Any]] = None,
    *,
    direction: str = "minimize",
    directions: Optional[Sequence[str]] = None,
    metric_names: Optional[Sequence[str]] = None,
    trials: Optional[int] = None,
    sampler: Algorithm = None,
    pruner: Algorithm = None,
    seed: int = 0,
    constraints: Optional[Sequence[Mapping[str, str]]] = None,
    enqueue: Optional[Sequence[Mapping[str, Any]]] = None,
    accept: bool = False,
    store: Optional[Path] = None,
) -> "Search":
    """Begins a search of `space`: in memory, or stored under `name`.

    What is stored is watched as every other study, and continues when it is begun again with the
    same arguments: trials that were out are given again first. Several programs may begin it at the
    same time, with the same arguments: each trial goes to one of them. `store` is the file, by default
    that of HPSEARCH_STORE or `runs/hpsearch.db`.

    The space is written as in a study file: `{"lr": {"float": [1e-5, 1], "log": True},
    "layers": {"int": [1, 8]}, "optimizer": ["sgd", "adam"]}`, with `step`, `log` and `when`.
    `direction` is `"minimize"` or `"maximize"` (`"min"` and `"max"`, too).
    `directions` are those of several objectives, which `metric_names` may name: results are lists then,
    and `best` is the front. `trials` is how many are searched at most; `sampler` and `pruner` are names, or dictionaries
    with `type` and options; `constraints` are as in a study file; `enqueue` are configurations to
    run first. With `accept`, a stored study is changed to what is said here, and a search that this
    program has begun for it is closed; without, another space, sampler or seed than it has is
    refused. Another number of trials is taken, and also closes a search of this program. While
    another program runs the study, both are refused.

    Raises HpsearchError with the reason if hpsearch refuses it.
    """
    if not space:
        raise ValueError('`space` is empty: {"lr": {"float": [1e-5, 1], "log": True}}')
    request: Dict[str, Any] = {
        "cmd": "init",
        "space": [_parameter(str(key), value) for key, value in space.items()],
        "direction": _values.direction(direction) if directions is None else None,
        "directions": None if directions is None else list(map(_values.direction, directions)),
        "metric_names": None if metric_names is None else list(metric_names),
        "n_trials": trials,
        "sampler": _algorithm(sampler),
        "pruner": _algorithm(pruner),
        "seed": _values.seed(seed),
        "constraints": [dict(constraint) for constraint in constraints or ()],
        "enqueue": [_values.plain(params) for params in enqueue or ()],
        "accept": True if accept else None,
    }
    return Search(name, {key: value for key, value in request.items() if value is not None}, store)


class AskedTrial:
    """A trial to run: its parameters, and where its results go."""

    def __init__(self, search: "Search", number: int, params: Dict[str, Any]) -> None:
        self._search = search
        #: Its number.
        self.number = number
        #: Its active parameters.
        self.params = params
        #: Whether it ran before and was paused: it continues after its last report.
        self.is_resumed = False
        #: The step where it will pause, if that is known.
        self.until: Optional[int] = None
        #: What the last report was answered: `continue`, `pause` or `stop`.
        self.decision = "continue"
        #: Why, in a sentence.
        self.reason: Optional[str] = None
        self._has_ended = False

    @property
    def should_stop(self) -> bool:
        """Whether the last report was answered with `stop` or `pause`: ask for another trial."""
        return self.decision != "continue"

    def report(self, step: int, value: Any) -> bool:
        """Reports the objective's value at a step, or a list of the values of several objectives;
        returns whether the trial continues."""
        answer = self._search._say(
            {"cmd": "report", "id": self.number, "step": _step(step), **_result(value)}
        )
        self.decision = answer["verdict"]
        self.reason = answer.get("reason")
        return not self.should_stop

    def tell(self, value: Any, metrics: Optional[Mapping[str, Any]] = None) -> None:
        """Ends the trial with its value, or a list of the values of several objectives, and metrics
        that limits are about."""
        request = {"cmd": "tell", "id": self.number, **_result(value)}
        if metrics:
            request["metrics"] = _values.metrics(metrics)
        answer = self._search._say(request)
        self._has_ended = True
        if answer.get("state") == "failed":
            warnings.warn(f"trial {self.number} was killed: it counts as failed", stacklevel=2)
        elif answer.get("state") == "pruned":
            warnings.warn(f"trial {self.number} was pruned after its last report: its value is not "
                          "kept", stacklevel=2)

    def fail(self, reason: Optional[str] = None) -> None:
        """Ends the trial as failed."""
        request = {"cmd": "tell", "id": self.number, "state": "failed", "reason": reason}
        self._search._say({key: value for key, value in request.items() if value is not None})
        self._has_ended = True

    @property
    def _is_over(self) -> bool:
        return self._has_ended or self.should_stop

    def _tell_result(self, value: Any) -> None:
        """Ends the trial with what its objective has returned."""
        try:
            _result(value)
        except TypeError as error:
            warnings.warn(f"trial {self.number} has failed: {error}", stacklevel=3)
            return self.fail(str(error))
        try:
            self.tell(value)
        except HpsearchError as error:
            with contextlib.suppress(HpsearchError):
                self.fail(str(error))
            raise

    def prune(self) -> None:
        """Ends the trial as pruned, with its last report."""
        self._search._say({"cmd": "tell", "id": self.number, "state": "pruned"})
        self._has_ended = True

    def __repr__(self) -> str:
        return f"AskedTrial(number={self.number}, params={self.params})"


class Search:
    """A search that this program runs; made by `hpsearch.study`.

    May be used by several threads. Iterating over it asks for trials until there are no more.
    """

    def __init__(
        self, name: Optional[str], request: Mapping[str, Any], store: Optional[Path]
    ) -> None:
        words = [required(), "ask-tell"]
        if name is not None:
            words += ["--study=" + name]
            if store is not None:
                words += ["--store", os.fspath(store)]
        self._lock = threading.Lock()
        #: The parameters of the trials that it was given.
        self._params: Dict[int, Dict[str, Any]] = {}
        self._name = name
        self._request = dict(request)
        #: The trial that a loop over the search runs now.
        self._iterated: Optional[AskedTrial] = None
        #: Trials that loops were left with, as by an exception.
        self._left: List[AskedTrial] = []
        self._pid = os.getpid()
        #: The loops of `optimize` that use it.
        self._loops = 0
        #: Whether the last answer was not read: Ctrl-C may come at any time.
        self._is_interrupted = False
        self._skipped = 0
        #: Trials that were out when the program before this one ended; `ask` gives them first.
        self.open: List[Dict[str, Any]] = []
        #: Why the last `ask` had no trial.
        self.done_reason: Optional[str] = None
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        #: Which study of the store it is, for the `init` of a later search; `None` in memory.
        self.study_id: Optional[str] = None
        try:
            begun = self._begin(request)
            self.open, self.study_id = begun.get("open", []), begun.get("study_id")
        except HpsearchError:
            self.close()
            raise
        _OPEN.add(self)

    def _begin(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        """Begins, in place of an earlier search of this program that has another number of trials,
        or that `accept` replaces, as where a notebook runs a cell again. What a loop over an earlier
        one has left is given again."""
        for one in list(_OPEN):
            if self._name is not None and (one._name, one._pid) == (self._name, os.getpid()):
                one._requeue_left()
        while True:
            try:
                return self._say(request)
            except _HeldError as error:
                own = [one for one in list(_OPEN) if one._pid == os.getpid()
                       and one._process.pid == error.holder]
                if not own:
                    raise
                if own[0]._loops > 0:
                    raise HpsearchError(f"{error}. It is this program's: its `optimize` must end "
                                        "before") from error
                if not request.get("accept") and not _differ_in_trials(request, own[0]._request):
                    raise HpsearchError(f"{error}. It is this program's: `close()` that search "
                                        "before, or give `accept=True`") from error
                own[0].close()

    def ask(self) -> Optional[AskedTrial]:
        """A trial to run, or one that continues; `None` if there is none now.

        While trials are out there may be one later; otherwise the search is over
        (`done_reason`).
        """
        answer = self._say({"cmd": "ask"})
        if answer.get("done"):
            self.done_reason = answer.get("reason")
            return None
        trial = AskedTrial(self, _given(answer)[0], answer["params"])
        trial.is_resumed = "resume" in answer
        trial.until = answer.get("until")
        return trial

    def tell(self, trial: AskedTrial, value: Any) -> None:
        """The same as `trial.tell(value)`."""
        trial.tell(value)

    def report(self, trial: AskedTrial, step: int, value: Any) -> bool:
        """The same as `trial.report(step, value)`."""
        return trial.report(step, value)

    def enqueue(self, params: Mapping[str, Any]) -> None:
        """Runs a configuration before any other; the parameters that it lacks are sampled.

        Raises HpsearchError if it is not one of the space.
        """
        self._say({"cmd": "enqueue", "params": _values.plain(params)})

    def optimize(
        self, objective: Callable[[AskedTrial], Any], trials: Optional[int] = None
    ) -> None:
        """Runs `objective` for trial after trial; what it returns is the value.

        A trial that its reports paused or stopped, or that the objective has ended, is not told.
        An exception fails its trial, and is raised. What is no number fails it with a warning.
        """
        ran = 0
        self._count_loops(1)
        try:
            while trials is None or ran < trials:
                trial = self.ask()
                if trial is None:
                    return
                ran += 1
                try:
                    value = objective(trial)
                except BaseException as error:
                    if not trial._is_over:
                        trial.fail(f"{type(error).__name__}: {error}")
                    raise
                if not trial._is_over:
                    trial._tell_result(value)
        finally:
            self._count_loops(-1)

    def best(self) -> Dict[str, Any]:
        """The best complete trial: `id`, `params` and `value`. Of several objectives the `front`, a
        list of `id`, `params` and `values`; `knee`, the id of its compromise; and its `hypervolume`
        up to `reference`.

        Raises HpsearchError while no trial is complete.
        """
        return self._say({"cmd": "best"})

    def __iter__(self) -> Iterator[AskedTrial]:
        self._requeue_left()
        while True:
            trial = self.ask()
            if trial is None:
                return
            self._iterated = trial
            try:
                yield trial
            except GeneratorExit:
                self._left.append(trial)
                raise
            self._iterated = None

    def _requeue_left(self) -> None:
        """Gives back what a loop was left with and was not told since: it is given again."""
        left, self._left = self._left, []
        for trial in left:
            if not trial._is_over:
                # A program that is gone has given it back.
                with contextlib.suppress(HpsearchError):
                    self._say({"cmd": "requeue", "id": trial.number})

    def _count_loops(self, more: int) -> None:
        with _COUNTS:
            self._loops += more

    @property
    def _is_closed(self) -> bool:
        return self._process.stdin is None or self._process.stdin.closed

    def close(self) -> None:
        """Ends the conversation."""
        process = self._process
        _close(process.stdin)
        if os.getpid() == self._pid:
            # It ends the run in the store, which is then free for others.
            try:
                process.wait(5.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _close(process.stdout)
        _close(process.stderr)

    def __del__(self) -> None:
        # `subprocess` keeps a process that nobody waits for, with its pipe open.
        if hasattr(self, "_process") and not sys.is_finalizing():
            self.close()

    def __enter__(self) -> "Search":
        return self

    def __exit__(self, _type: Any, error: Any, _traceback: Any) -> None:
        # As in `optimize`; after an interrupt the trial is given again.
        trial = self._iterated
        if isinstance(error, Exception) and trial and not trial._is_over:
            with contextlib.suppress(HpsearchError):
                trial.fail(f"{type(error).__name__}: {error}")
        self.close()

    def _say(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        if os.getpid() != self._pid:
            raise HpsearchError("a search belongs to the process that began it: this is a fork")
        line = json.dumps(request, separators=(",", ":")) + "\n"
        with self._lock:
            stdin, stdout = self._process.stdin, self._process.stdout
            if stdin is None or stdout is None or stdin.closed:
                raise HpsearchError("the search is closed")
            try:
                if self._is_interrupted:
                    self._skip_answers(stdin, stdout)
                self._is_interrupted = True
                stdin.write(line.encode())
                stdin.flush()
                said = stdout.readline()
                self._is_interrupted = False
            except OSError as error:
                raise HpsearchError(self._why_gone(str(error))) from error
        if not said.endswith(b"\n"):
            raise HpsearchError(self._why_gone("it ended"))
        answer: Dict[str, Any] = json.loads(said)
        if "holder_pid" in answer:
            raise _HeldError(str(answer["error"]), answer["holder_pid"])
        if "error" in answer:
            raise HpsearchError(str(answer["error"]))
        if request["cmd"] == "ask":
            self._take_params(answer)
        return answer

    def _take_params(self, answer: Dict[str, Any]) -> None:
        """Keeps the parameters of a trial that is given; a search in memory says them once."""
        for number in _given(answer):
            self._params.setdefault(number, answer.get("params", {}))
            answer.setdefault("params", self._params[number])

    def _skip_answers(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        """Skips the answers that Ctrl-C kept from being read, up to one that can only be that to a
        question of its own. Trials that they give are given back."""
        self._skipped += 1
        mark = f"after-interrupt-{self._skipped}"
        # The line before may be cut.
        stdin.write(f'\n{{"cmd":"{mark}"}}\n'.encode())
        stdin.flush()
        given: List[int] = []
        while True:
            said = stdout.readline()
            if not said or b'"error"' in said and mark.encode() in said:
                break
            with contextlib.suppress(ValueError):
                answer = json.loads(said)
                given += _given(answer)
                self._take_params(answer)
        for number in given:
            stdin.write(f'{{"cmd":"requeue","id":{number}}}\n'.encode())
            stdin.flush()
            stdout.readline()

    def _why_gone(self, otherwise: str) -> str:
        """What the program said last, before it ended."""
        errors = self._process.stderr
        try:
            self._process.wait(1.0)
            said = errors.read().decode(errors="replace").strip() if errors else ""
        except (subprocess.TimeoutExpired, OSError, ValueError):
            said = ""
        return said or f"`hpsearch ask-tell` does not answer: {otherwise}"


#: Held while loops are counted.
_COUNTS = threading.Lock()


class _HeldError(HpsearchError):
    """Another process holds the study."""

    def __init__(self, text: str, holder: int) -> None:
        super().__init__(text)
        self.holder = holder


#: The searches of this program that have begun.
_OPEN: "weakref.WeakSet[Search]" = weakref.WeakSet()


def _differ_in_trials(request: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two requests begin the same study, with another number of trials."""
    return {**request, "n_trials": None, "accept": None} == {
        **other, "n_trials": None, "accept": None
    }


def _given(answer: Mapping[str, Any]) -> List[int]:
    """The trial that an answer to `ask` gives."""
    if "resume" in answer:
        return [answer["resume"]]
    # That of `best` has a value, too.
    return [answer["id"]] if set(answer) - {"until"} == {"id", "params"} else []


def _close(stream: Any) -> None:
    if stream is not None and not stream.closed:
        try:
            stream.close()
        except OSError:
            pass


def _algorithm(of: Algorithm) -> Optional[Dict[str, Any]]:
    if of is None:
        return None
    return {"type": of} if isinstance(of, str) else dict(of)


def _parameter(name: str, value: Any) -> Dict[str, Any]:
    """A parameter as `ask-tell` reads it, from how study files write it."""
    if isinstance(value, (list, tuple)):
        choices = list(value)
        if isinstance(value, tuple) and len(choices) == 2 and all(map(_values.is_number, choices)):
            kind = "int" if all(isinstance(bound, int) for bound in choices) else "float"
            raise ValueError(
                f'`{name}` is a tuple of two numbers: write {{"{kind}": {choices}}} for the range, '
                f"or {choices} for these two choices"
            )
        return {"name": name, "type": "cat", "choices": choices}
    if not isinstance(value, Mapping):
        raise ValueError(
            f'`{name}` must be {{"float": [low, high]}}, {{"int": [low, high]}} or a list of '
            f"choices, not {value!r}"
        )
    kinds = [kind for kind in ("float", "int", "choice") if kind in value]
    if len(kinds) != 1:
        raise ValueError(f"`{name}` must have one of `float`, `int` and `choice`")
    unknown = sorted(set(value) - {"float", "int", "choice", "log", "step", "when"})
    if unknown:
        raise ValueError(f"`{name}` has unknown keys: {', '.join(unknown)}")
    kind = kinds[0]
    parameter: Dict[str, Any] = {"name": name}
    if kind == "choice":
        parameter.update(type="cat", choices=list(value["choice"]))
    else:
        bounds: List[Any] = list(value[kind])
        if len(bounds) != 2:
            raise ValueError(f"`{name}` must have two bounds, [low, high]")
        parameter.update(type=kind, low=bounds[0], high=bounds[1])
    for key in ("log", "step"):
        if value.get(key) is not None:
            parameter[key] = value[key]
    when = value.get("when")
    if when:
        if len(when) != 1:
            raise ValueError(f"`{name}`: `when` must name one parameter")
        other, accepted = next(iter(when.items()))
        accepted = list(accepted) if isinstance(accepted, (list, tuple)) else [accepted]
        parameter["when"] = {"param": other, "in": accepted}
    return parameter


def _result(value: Any) -> Dict[str, Any]:
    if isinstance(value, (list, tuple)):
        return {"values": [_number(one) for one in value]}
    return {"value": _number(value)}


def _number(value: Any) -> float:
    number = _values.as_number(value)
    if number is None:
        raise TypeError(f"the value must be a number, not {value!r}")
    return number


def _step(step: Any) -> int:
    whole = _values.as_step(step)
    if whole is None:
        raise ValueError(f"`step` must be an integer of at least 0, not {step!r}")
    return whole
