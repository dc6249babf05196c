"""The errors of Optuna's interface."""

import sys


class OptunaError(Exception):
    """Any error of this interface."""


class TrialPruned(OptunaError):
    """Raised by an objective to end its trial as pruned."""


def is_pruned(error: BaseException) -> bool:
    """Whether an objective ends its trial as pruned: the callbacks of `optuna_integration` raise
    Optuna's own error."""
    theirs = getattr(sys.modules.get("optuna.exceptions"), "TrialPruned", TrialPruned)
    return isinstance(error, (TrialPruned, theirs))


class DuplicatedStudyError(OptunaError):
    """There is a study of this name."""


class StorageInternalError(OptunaError):
    """The store failed."""


class UpdateFinishedTrialError(OptunaError, RuntimeError):
    """Never given here: a trial that has ended raises ValueError."""


class CLIUsageError(OptunaError):
    """Never given here: there is no command line of Optuna."""


class ExperimentalWarning(Warning):
    """Never given here."""
