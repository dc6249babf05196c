"""The `hpsearch` program that belongs to this module: where it is, and its answers in JSON."""

import os
import sys
from typing import Any, List, Optional, Sequence


class HpsearchError(RuntimeError):
    """The `hpsearch` program is missing, or refused what it was asked; the text says why."""

    #: The same without what to do next.
    reason: str

    def __init__(self, text: str = "", reason: Optional[str] = None) -> None:
        super().__init__(text)
        self.reason = text if reason is None else reason


class NoStoreError(HpsearchError):
    """There is no store at the path or address."""


def find() -> Optional[str]:
    """The program's path: HPSEARCH_BINARY, the wheel's, or the first on PATH."""
    named = os.environ.get("HPSEARCH_BINARY")
    if named:
        return os.path.abspath(named) if os.path.isfile(named) else None
    beside = os.path.join(os.path.dirname(sys.executable or ""), "hpsearch")
    if sys.executable and _is_program(beside):
        return beside
    import shutil
    import sysconfig

    scripts = os.path.join(sysconfig.get_path("scripts") or "", "hpsearch")
    if _is_program(scripts):
        return scripts
    return shutil.which("hpsearch")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def missing() -> str:
    """Why there is no program, and what to do."""
    named = os.environ.get("HPSEARCH_BINARY")
    if named:
        return f"HPSEARCH_BINARY names `{named}`, which is not a file"
    return "the `hpsearch` program is not found: put it on PATH, or its path into HPSEARCH_BINARY"


def required() -> str:
    """The program's path.

    Raises HpsearchError if it is not found.
    """
    path = find()
    if path is None:
        raise HpsearchError(missing())
    return path


def json_of(words: List[str], store: Optional[str], names: Sequence[str] = ()) -> Any:
    """What the program prints as JSON; `names` may begin with a dash.

    Raises HpsearchError with the program's own words if it fails.
    """
    import json

    return json.loads(output_of([*words, "--json"], store, names))


def output_of(words: List[str], store: Optional[str], names: Sequence[str] = ()) -> bytes:
    """What the program prints; `names` may begin with a dash.

    Raises HpsearchError with the program's own words if it fails.
    """
    import subprocess

    options = ["--store", os.fspath(store)] if store is not None else []
    done = subprocess.run(
        [required(), *words, *options, "--", *names],
        env={**os.environ, "HPSEARCH_ERRORS": "json"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise _error(said) or HpsearchError(
            said or f"`hpsearch {words[0]}` ended with {done.returncode}"
        )
    return done.stdout


def _error(said: str) -> Optional[HpsearchError]:
    """The error that the program printed as the last line, as JSON; None if there is none."""
    import json

    try:
        told = json.loads(said.rpartition("\n")[2])
        text, reason, kind = told["text"], told["error"], told["kind"]
    except (ValueError, TypeError, KeyError):
        return None
    return (NoStoreError if kind == "no_store" else HpsearchError)(text, reason)
