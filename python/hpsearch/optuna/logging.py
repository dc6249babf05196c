"""How much a study says."""

import logging as _logging

DEBUG, INFO, WARNING, ERROR, CRITICAL = (
    _logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR, _logging.CRITICAL)
WARN, FATAL = WARNING, CRITICAL

_logger = _logging.getLogger("hpsearch.optuna")
_handler = _logging.StreamHandler()
_handler.setFormatter(_logging.Formatter("[%(levelname).1s %(asctime)s] %(message)s"))
_logger.addHandler(_handler)
_logger.setLevel(INFO)
_logger.propagate = False


def get_logger(name: str) -> _logging.Logger:
    """The logger of this interface, which `optuna` names, too; or one below it."""
    return _logger if name in ("optuna", _logger.name) else _logger.getChild(name)


def get_verbosity() -> int:
    """The least level that is said."""
    return _logger.level


def set_verbosity(verbosity: int) -> None:
    """Says what has at least this level."""
    _logger.setLevel(verbosity)


def disable_default_handler() -> None:
    """Says nothing on standard error."""
    _logger.removeHandler(_handler)


def enable_default_handler() -> None:
    """Says it on standard error."""
    _logger.addHandler(_handler)


def enable_propagation() -> None:
    """Hands messages to the program's own handlers."""
    _logger.propagate = True


def disable_propagation() -> None:
    """Hands them on no more."""
    _logger.propagate = False
