"""The errors of Optuna's interface."""


class OptunaError(Exception):
    """Any error of this interface."""


class TrialPruned(OptunaError):
    """Raised by an objective to end its trial as pruned."""


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
