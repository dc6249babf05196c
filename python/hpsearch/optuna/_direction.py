"""Which way values get better."""

import enum


class StudyDirection(str, enum.Enum):
    """Which way values get better; equal to the word, and to Optuna's own of this name."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"

    def __eq__(self, other: object) -> bool:
        if type(other).__name__ == type(self).__name__ and isinstance(other, enum.Enum):
            return other.name == self.name
        return str.__eq__(self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__
