"""The store that a user names: its address, and where runs are spooled for it."""

import os
from typing import Optional, Tuple

_SQLITE = "sqlite:///"


def path_of(address: str) -> str:
    """The path in the SQLite URL of a file, as Optuna and SQLAlchemy write it; other addresses as
    they are."""
    path = address[len(_SQLITE) :] if address.startswith(_SQLITE) else ""
    return path if path and path != ":memory:" and "?" not in path else address


def _refuse_other_urls(address: str) -> None:
    """Rejects what would be the name of a directory, in the words of the program."""
    scheme, separator, _ = address.partition("://")
    if separator and scheme.isascii() and scheme.replace("+", "").isalnum():
        # The rest may hold a password.
        raise ValueError(
            f"`{scheme}://..` cannot be used as the address of a store: a file is named by its "
            "path, `sqlite:///relative.db` or `sqlite:////absolute.db`, a database of a server by "
            "`postgres://..`"
        )


def with_spools(address: Optional[str]) -> Tuple[str, str]:
    """The address or absolute path of a store, and the directory of its spools."""
    if address and address.startswith(("postgres://", "postgresql://")):
        import hashlib

        # Beside the spools of stores in files; what another server is to get is kept apart.
        server = hashlib.sha256(address.encode()).hexdigest()[:16]
        return address, os.path.abspath(os.path.join("runs", "spool", server))
    path = path_of(address or "")
    _refuse_other_urls(path)
    path = os.path.abspath(path or os.path.join("runs", "hpsearch.db"))
    return path, os.path.join(os.path.dirname(path), "spool")
