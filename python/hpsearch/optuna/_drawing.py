"""Plots of Optuna, if it is installed, of studies of hpsearch."""

import importlib
from typing import Any, Callable

from ._study import Study
from .distributions import (
    BaseDistribution,
    CategoricalDistribution,
    _listed,
    distribution_to_json,
)
from .trial import TrialState


def plots(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose functions are those of a module of Optuna."""

    def named(name: str) -> Any:
        if not name.startswith("plot_"):
            raise AttributeError(f"hpsearch.optuna has no `{module}.{name}`")

        def plot(*args: Any, **options: Any) -> Any:
            draw = getattr(_module(module), name)
            options = {key: _of_optuna(value) for key, value in options.items()}
            return draw(*map(_of_optuna, args), **options)

        plot.__name__ = name
        return plot

    return named


def is_available(module: str) -> bool:
    """Whether Optuna and the library that it draws with are installed."""
    try:
        found: bool = _module(module).is_available()
    except ImportError:
        return False
    return found


def _module(module: str) -> Any:
    try:
        return importlib.import_module(f"optuna.{module}")
    except ImportError as error:
        raise ImportError(
            f"hpsearch.optuna draws `{module}` with Optuna itself, which cannot be imported "
            f"({error}): `pip install optuna plotly matplotlib`, or use `hpsearch report` and "
            "`hpsearch serve`, which show a stored study"
        ) from error


def _of_optuna(value: Any) -> Any:
    """The same study in Optuna; of a list or dictionary, those in it."""
    if isinstance(value, Study):
        return _copied(value)
    if isinstance(value, dict):
        return {key: _of_optuna(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(one, Study) for one in value):
        return [_of_optuna(one) for one in value]
    return value


def _copied(study: Study) -> Any:
    optuna = importlib.import_module("optuna")
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        copied = optuna.create_study(study_name=study.study_name,
                                     directions=[one.value for one in study.directions])
    finally:
        optuna.logging.set_verbosity(verbosity)
    if study.metric_names is not None:
        copied.set_metric_names(study.metric_names)
    for trial in study.trials:
        if trial.state == TrialState.WAITING:
            continue
        copied.add_trial(optuna.trial.FrozenTrial(
            number=trial.number, trial_id=trial.number, value=None, values=trial.values,
            state=optuna.trial.TrialState[trial.state.name],
            datetime_start=trial.datetime_start, datetime_complete=trial.datetime_complete,
            params={name: _hashable(value) for name, value in trial.params.items()},
            distributions={
                name: _distribution(optuna.distributions, one)
                for name, one in trial.distributions.items()
            },
            user_attrs=trial.user_attrs, system_attrs={},
            intermediate_values=trial.intermediate_values,
        ))
    return copied


def _distribution(distributions: Any, one: BaseDistribution) -> Any:
    if isinstance(one, CategoricalDistribution):
        return distributions.CategoricalDistribution([_hashable(value) for value in one.choices])
    return distributions.json_to_distribution(distribution_to_json(one))


def _hashable(value: Any) -> Any:
    """The text of a list or tuple, which plots need hashable and a store returns as a list."""
    return str(_listed(value)) if isinstance(value, (list, tuple)) else value
