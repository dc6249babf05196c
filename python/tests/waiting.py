"""What a test and the programs that it starts wait with."""

import time
from typing import Callable

#: Seconds after which what does not come is missed.
PATIENCE = 30.0


def wait_for(what: Callable[[], bool]) -> None:
    """Looks until it is so."""
    until = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.02)


def wait_for_text(path: str, text: str) -> None:
    """Waits until the file, which may not be there yet, has the text."""

    def has_it() -> bool:
        try:
            with open(path, encoding="utf-8") as file:
                return text in file.read()
        except FileNotFoundError:
            return False

    wait_for(has_it)
