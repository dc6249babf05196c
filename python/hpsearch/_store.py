"""The store that a user names: its address, and where runs are spooled for it."""

import os
from typing import Optional, Tuple

_SQLITE = "sqlite:///"


def path_of(address: str) -> str:
    """The path in an SQLite URL, as Optuna and SQLAlchemy write it; other addresses as they are."""
    return address[len(_SQLITE) :] if address.startswith(_SQLITE) else address


def with_spools(address: Optional[str]) -> Tuple[str, str]:
    """The address or absolute path of a store, and the directory of its spools."""
    if address and address.startswith(("postgres://", "postgresql://")):
        import hashlib

        # Beside the spools of stores in files; what another server is to get is kept apart.
        server = hashlib.sha256(address.encode()).hexdigest()[:16]
        return address, os.path.abspath(os.path.join("runs", "spool", server))
    path = os.path.abspath(path_of(address or "") or os.path.join("runs", "hpsearch.db"))
    return path, os.path.join(os.path.dirname(path), "spool")
