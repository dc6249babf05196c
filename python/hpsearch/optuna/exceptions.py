"""The errors of Optuna's interface."""


class OptunaError(Exception):
    """Any error of this interface."""


class TrialPruned(OptunaError):
    """Raised by an objective to end its trial as pruned."""


class DuplicatedStudyError(OptunaError):
    """There is a study of this name."""


class StorageInternalError(OptunaError):
    """The store failed."""


class ExperimentalWarning(Warning):
    """Never given here."""
