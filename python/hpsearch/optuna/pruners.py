"""Pruners by Optuna's names, as the pruners of hpsearch."""

from typing import TYPE_CHECKING, Any, Dict, Optional

if TYPE_CHECKING:
    from ._study import Study
    from .trial import FrozenTrial


class BasePruner:
    """Who stops trials; a program's own pruner overrides `prune`."""

    def prune(self, study: "Study", trial: "FrozenTrial") -> bool:
        """Whether a trial shall be stopped after its last report."""
        raise NotImplementedError(
            f"hpsearch.optuna: {type(self).__name__}.prune cannot be called, hpsearch decides"
        )

    def _is_own(self) -> bool:
        """Whether it is the program's own."""
        return type(self).prune is not BasePruner.prune

    def _spec(self) -> Dict[str, Any]:
        # One of the program's own is asked by `Trial.should_prune`.
        return {"type": "none"}


class _Pruner(BasePruner):
    """A pruner of hpsearch with its options."""

    def __init__(self, type_: str, options: Dict[str, Any]) -> None:
        self._type = type_
        self._options = {key: value for key, value in options.items() if value is not None}

    def _spec(self) -> Dict[str, Any]:
        if self._is_own():
            return super()._spec()
        return {"type": self._type, **self._options}


def _refuse(pruner: str, **options: Any) -> None:
    for key, is_said in options.items():
        if is_said:
            raise TypeError(f"hpsearch.optuna: {pruner} has no option `{key}`: leave it out")


class NopPruner(_Pruner):
    """Nobody is stopped."""

    def __init__(self) -> None:
        super().__init__("none", {})


class MedianPruner(_Pruner):
    """`median`."""

    def __init__(self, n_startup_trials: int = 5, n_warmup_steps: int = 0,
                 interval_steps: int = 1, *, n_min_trials: int = 1) -> None:
        super().__init__("median", {"n_startup_trials": n_startup_trials,
                                    "n_warmup_steps": n_warmup_steps,
                                    "interval_steps": interval_steps,
                                    "n_min_trials": n_min_trials})


class PercentilePruner(_Pruner):
    """`percentile`."""

    def __init__(self, percentile: float, n_startup_trials: int = 5, n_warmup_steps: int = 0,
                 interval_steps: int = 1, *, n_min_trials: int = 1) -> None:
        super().__init__("percentile", {"percentile": percentile,
                                        "n_startup_trials": n_startup_trials,
                                        "n_warmup_steps": n_warmup_steps,
                                        "interval_steps": interval_steps,
                                        "n_min_trials": n_min_trials})


class SuccessiveHalvingPruner(_Pruner):
    """`asha`."""

    def __init__(self, min_resource: Any = 1, reduction_factor: int = 4,
                 min_early_stopping_rate: int = 0, bootstrap_count: int = 0) -> None:
        _refuse("SuccessiveHalvingPruner", bootstrap_count=bootstrap_count)
        if min_resource == "auto":
            raise TypeError(
                "hpsearch.optuna: SuccessiveHalvingPruner needs `min_resource` as a number: the "
                "step of the first rung, 1 if it is left out"
            )
        least = min_resource * reduction_factor**min_early_stopping_rate
        super().__init__("asha", {"min_resource": least, "reduction_factor": reduction_factor})


class HyperbandPruner(_Pruner):
    """`hyperband`; `max_resource` is needed."""

    def __init__(self, min_resource: int = 1, max_resource: Any = "auto",
                 reduction_factor: int = 3, bootstrap_count: int = 0) -> None:
        _refuse("HyperbandPruner", bootstrap_count=bootstrap_count)
        if max_resource == "auto":
            raise TypeError(
                "hpsearch.optuna: HyperbandPruner needs `max_resource`: the last step of a full "
                "trial, a number"
            )
        super().__init__("hyperband", {"min_resource": min_resource, "max_resource": max_resource,
                                       "reduction_factor": reduction_factor})


class ThresholdPruner(_Pruner):
    """`threshold`."""

    def __init__(self, lower: Optional[float] = None, upper: Optional[float] = None,
                 n_warmup_steps: int = 0, interval_steps: int = 1) -> None:
        super().__init__("threshold", {"lower": lower, "upper": upper,
                                       "n_warmup_steps": n_warmup_steps,
                                       "interval_steps": interval_steps})


class PatientPruner(_Pruner):
    """`patient`, alone or around another pruner."""

    def __init__(self, wrapped_pruner: Optional[BasePruner], patience: int,
                 min_delta: float = 0.0) -> None:
        if wrapped_pruner is not None and wrapped_pruner._is_own():
            raise TypeError("hpsearch.optuna: PatientPruner cannot wrap a pruner of your own")
        usual = (None, MedianPruner()._spec(), WilcoxonPruner()._spec(), NopPruner()._spec())
        wrapped = None if wrapped_pruner is None else wrapped_pruner._spec()
        if wrapped not in usual:
            raise TypeError(
                "hpsearch.optuna: PatientPruner wraps MedianPruner() or WilcoxonPruner() with "
                "their defaults"
            )
        super().__init__("patient", {"patience": patience, "min_delta": min_delta,
                                     "wrapped": None if wrapped is None else wrapped["type"]})


class WilcoxonPruner(_Pruner):
    """`wilcoxon`."""

    def __init__(self, *, p_threshold: float = 0.1, n_startup_steps: int = 2) -> None:
        super().__init__("wilcoxon", {"p_threshold": p_threshold,
                                      "n_startup_steps": n_startup_steps})


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"hpsearch.optuna has no `pruners.{name}`: there are MedianPruner, PercentilePruner, "
        "SuccessiveHalvingPruner, HyperbandPruner, ThresholdPruner, PatientPruner, "
        "WilcoxonPruner and NopPruner"
    )
