"""Messages to the user of a program: on standard error, each kind once, never an exception."""

import sys
from typing import Dict, Set

#: The most names for which one kind of message is printed, and about the most messages of all
#: kinds.
MOST_NAMES, MOST_KINDS = 20, 1000

_said: Set[str] = set()
# How many names each kind of message has concerned.
_names: Dict[str, int] = {}


def say(text: str) -> None:
    """Prints one line on standard error, if there is one."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"hpsearch: {one_line(text)}\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        # Standard error is closed.
        pass


def one_line(text: str) -> str:
    """The text without what controls a terminal, as names may have it."""
    return text if text.isprintable() else "".join(map(_harmless, text))


def _harmless(char: str) -> str:
    code = ord(char)
    is_control = code < 0x20 or 0x7F <= code < 0xA0
    return " " if is_control or 0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069 else char


def once(kind: str, text: str) -> None:
    """Prints the line unless a message of this kind was printed before."""
    if kind not in _said:
        _said.add(kind)
        say(text)


def once_for(name: str, kind: str, text: str) -> None:
    """Prints the line once for each name, for the first few of a kind that may concern many."""
    key = f"{kind} {name}"
    if key in _said or len(_said) >= MOST_KINDS:
        return
    _said.add(key)
    _names[kind] = _names.get(kind, 0) + 1
    if _names[kind] < MOST_NAMES:
        say(text)
    elif _names[kind] == MOST_NAMES:
        say(f"{text}; further names are not listed")


def forget() -> None:
    """Lets every kind be printed again: a new run begins."""
    _said.clear()
    _names.clear()
