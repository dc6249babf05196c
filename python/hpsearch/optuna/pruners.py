"""Pruners by Optuna's names, as the pruners of hpsearch."""

from typing import Any, Dict, Optional


class BasePruner:
    """Who stops trials: a pruner of hpsearch with its options."""

    def __init__(self, type_: str, options: Dict[str, Any]) -> None:
        self._type = type_
        self._options = {key: value for key, value in options.items() if value is not None}

    def _spec(self) -> Dict[str, Any]:
        return {"type": self._type, **self._options}


def _refuse(pruner: str, **options: Any) -> None:
    for key, is_said in options.items():
        if is_said:
            raise TypeError(f"hpsearch.optuna: {pruner} has no option `{key}`: leave it out")


class NopPruner(BasePruner):
    """Nobody is stopped."""

    def __init__(self) -> None:
        super().__init__("none", {})


class MedianPruner(BasePruner):
    """`median`."""

    def __init__(self, n_startup_trials: int = 5, n_warmup_steps: int = 0,
                 interval_steps: int = 1, *, n_min_trials: int = 1) -> None:
        super().__init__("median", {"n_startup_trials": n_startup_trials,
                                    "n_warmup_steps": n_warmup_steps,
                                    "interval_steps": interval_steps,
                                    "n_min_trials": n_min_trials})


class PercentilePruner(BasePruner):
    """`percentile`."""

    def __init__(self, percentile: float, n_startup_trials: int = 5, n_warmup_steps: int = 0,
                 interval_steps: int = 1, *, n_min_trials: int = 1) -> None:
        super().__init__("percentile", {"percentile": percentile,
                                        "n_startup_trials": n_startup_trials,
                                        "n_warmup_steps": n_warmup_steps,
                                        "interval_steps": interval_steps,
                                        "n_min_trials": n_min_trials})


class SuccessiveHalvingPruner(BasePruner):
    """`asha`."""

    def __init__(self, min_resource: Any = 1, reduction_factor: int = 4,
                 min_early_stopping_rate: int = 0, bootstrap_count: int = 0) -> None:
        _refuse("SuccessiveHalvingPruner", bootstrap_count=bootstrap_count,
                min_resource=min_resource == "auto")
        least = min_resource * reduction_factor**min_early_stopping_rate
        super().__init__("asha", {"min_resource": least, "reduction_factor": reduction_factor})


class HyperbandPruner(BasePruner):
    """`hyperband`; `max_resource` is needed."""

    def __init__(self, min_resource: int = 1, max_resource: Any = "auto",
                 reduction_factor: int = 3, bootstrap_count: int = 0) -> None:
        _refuse("HyperbandPruner", bootstrap_count=bootstrap_count)
        if max_resource == "auto":
            raise TypeError("hpsearch.optuna: HyperbandPruner needs `max_resource` as a number")
        super().__init__("hyperband", {"min_resource": min_resource, "max_resource": max_resource,
                                       "reduction_factor": reduction_factor})


class ThresholdPruner(BasePruner):
    """`threshold`."""

    def __init__(self, lower: Optional[float] = None, upper: Optional[float] = None,
                 n_warmup_steps: int = 0, interval_steps: int = 1) -> None:
        super().__init__("threshold", {"lower": lower, "upper": upper,
                                       "n_warmup_steps": n_warmup_steps,
                                       "interval_steps": interval_steps})


class PatientPruner(BasePruner):
    """`patient`, alone or around another pruner."""

    def __init__(self, wrapped_pruner: Optional[BasePruner], patience: int,
                 min_delta: float = 0.0) -> None:
        usual = (None, MedianPruner()._spec(), WilcoxonPruner()._spec(), NopPruner()._spec())
        wrapped = None if wrapped_pruner is None else wrapped_pruner._spec()
        if wrapped not in usual:
            raise TypeError(
                "hpsearch.optuna: PatientPruner wraps MedianPruner() or WilcoxonPruner() with "
                "their defaults"
            )
        super().__init__("patient", {"patience": patience, "min_delta": min_delta,
                                     "wrapped": None if wrapped is None else wrapped["type"]})


class WilcoxonPruner(BasePruner):
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
