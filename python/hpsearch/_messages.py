"""Messages to the user of a program: on standard error, each kind once, never an exception."""

import sys
from typing import Set

_said: Set[str] = set()


def say(text: str) -> None:
    """Prints one line on standard error, if there is one."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"hpsearch: {text}\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        # Standard error is closed.
        pass


def once(kind: str, text: str) -> None:
    """Prints the line unless a message of this kind was printed before."""
    if kind not in _said:
        _said.add(kind)
        say(text)


def forget() -> None:
    """Lets every kind be printed again: a new run begins."""
    _said.clear()
