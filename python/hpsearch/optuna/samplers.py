"""Samplers by Optuna's names, as the samplers of hpsearch."""

import random
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Sequence

from .. import _values
from ._missing import missing
from .distributions import BaseDistribution

if TYPE_CHECKING:
    from ._study import Study
    from .trial import FrozenTrial


#: What a program's own sampler may override.
_METHODS = ("infer_relative_search_space", "sample_relative", "sample_independent",
            "before_trial", "after_trial")


class BaseSampler:
    """Who proposes; a program's own sampler overrides `sample_independent`, at least."""

    _type = "random"
    #: Options without a counterpart that may be given where they say nothing.
    _neutral: Mapping[str, Any] = {}
    #: Options without a counterpart, and what to do instead of giving them.
    _instead: Mapping[str, str] = {}
    _seed: Optional[int] = None
    _options: Dict[str, Any] = {}
    #: Values for all trials.
    _fixed: Dict[str, Any] = {}
    #: What says by how much a trial violates each of its limits.
    _constraints_func: Optional[Callable[[Any], Sequence[float]]] = None
    #: The complete trials before it, if it needs a number that all trials have; 0 if not.
    _n_random = 0

    def infer_relative_search_space(
        self, study: "Study", trial: "FrozenTrial"
    ) -> Mapping[str, BaseDistribution]:
        """The parameters that `sample_relative` proposes together."""
        return {}

    def sample_relative(
        self, study: "Study", trial: "FrozenTrial", search_space: Mapping[str, BaseDistribution]
    ) -> Mapping[str, Any]:
        """Values of these parameters."""
        return {}

    def sample_independent(
        self, study: "Study", trial: "FrozenTrial", param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """The value of another parameter."""
        raise NotImplementedError(
            f"hpsearch.optuna: {type(self).__name__}.sample_independent cannot be called: hpsearch "
            "proposes. RandomSampler has one"
        )

    def before_trial(self, study: "Study", trial: "FrozenTrial") -> None:
        """Is called when a trial begins."""

    def after_trial(self, study: "Study", trial: "FrozenTrial", state: Any,
                    values: Optional[Sequence[float]]) -> None:
        """Is called before a trial is told."""

    def reseed_rng(self) -> None:
        """Does nothing: each trial has random numbers of its own."""

    def _is_own(self) -> bool:
        """Whether it is the program's own."""
        return any(getattr(type(self), name).__module__ != __name__ for name in _METHODS)

    def _is_grid(self) -> bool:
        return False

    def _spec(self) -> Dict[str, Any]:
        # The values that one of the program's own proposes are given.
        return {"type": "random"} if self._is_own() else {"type": self._type, **self._options}

    def _spec_for(self, objectives: int) -> Dict[str, Any]:
        return self._spec()


class _Sampler(BaseSampler):
    """A sampler of hpsearch with its options."""

    def __init__(self, *, seed: Optional[int] = None, **options: Any) -> None:
        self._seed = None if seed is None else _values.seed(seed)
        self._options = {}
        self._constraints_func = options.pop("constraints_func", None)
        for key, value in options.items():
            if key in self._neutral and value == self._neutral[key]:
                continue
            instead = self._instead.get(key, "leave it out")
            raise TypeError(
                f"hpsearch.optuna: {type(self).__name__} has no option `{key}`: {instead}"
            )


class TPESampler(_Sampler):
    """`tpe`, or `tpe-independent` with `multivariate=False`."""

    _type = "tpe"
    _neutral = {"prior_weight": 1.0,
                "consider_endpoints": False, "consider_magic_clip": True, "consider_prior": True,
                "warn_independent_sampling": True}

    def __init__(self, *, seed: Optional[int] = None, multivariate: Optional[bool] = None,
                 n_startup_trials: int = 10, n_ei_candidates: int = 24,
                 constant_liar: bool = False, group: bool = False, **options: Any) -> None:
        super().__init__(seed=seed, **options)
        # Running trials count, and conditional parameters have their branch, in any case.
        self._type = "tpe-independent" if multivariate is False else "tpe"
        self._options["n_startup_trials"] = n_startup_trials
        self._options["n_ei_candidates"] = n_ei_candidates

    def _spec_for(self, objectives: int) -> Dict[str, Any]:
        spec = self._spec()
        # Several objectives are searched with all parameters together.
        return {**spec, "type": "tpe"} if objectives > 1 else spec


class NSGAIISampler(_Sampler):
    """`nsga2`."""

    _type = "nsga2"
    _neutral = {"mutation_prob": None, "crossover": None, "crossover_prob": 0.9,
                "swapping_prob": 0.5}

    def __init__(
        self, *, population_size: int = 50, seed: Optional[int] = None, **options: Any
    ) -> None:
        super().__init__(seed=seed, **options)
        self._options["population_size"] = population_size


class NSGAIIISampler(NSGAIISampler):
    """`nsga3`."""

    _type = "nsga3"
    _neutral = {**NSGAIISampler._neutral, "reference_points": None, "dividing_parameter": 3}


class RandomSampler(_Sampler):
    """`random`."""

    _type = "random"

    def __init__(self, seed: Optional[int] = None) -> None:
        super().__init__(seed=seed)
        self._rng = random.Random(self._seed)

    def sample_independent(
        self, study: "Study", trial: "FrozenTrial", param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A random value, for a sampler of the program's own."""
        return param_distribution._draw(self._rng)


class QMCSampler(_Sampler):
    """`qmc`."""

    _type = "qmc"
    _neutral = {"qmc_type": "sobol", "scramble": True, "warn_asynchronous_seeding": True,
                "warn_independent_sampling": True}


class CmaEsSampler(_Sampler):
    """`cmaes`; as in Optuna, the first trials are random."""

    _type = "cmaes"
    _neutral = {"x0": None, "independent_sampler": None,
                "warn_independent_sampling": True, "consider_pruned_trials": False,
                "restart_strategy": None, "inc_popsize": 2, "use_separable_cma": False,
                "with_margin": False, "lr_adapt": False, "source_trials": None}
    _instead = {
        "x0": "`study.enqueue_trial(x0)` runs it first",
    }

    def __init__(self, x0: Optional[Mapping[str, Any]] = None, sigma0: Optional[float] = None,
                 n_startup_trials: int = 1, *, seed: Optional[int] = None,
                 popsize: Optional[int] = None, **options: Any) -> None:
        super().__init__(seed=seed, x0=x0, **options)
        self._n_random = max(n_startup_trials, 1)
        for key, value in (("population", popsize), ("sigma", sigma0)):
            if value is not None:
                self._options[key] = value


class GPSampler(_Sampler):
    """`gp`."""

    _type = "gp"
    _neutral = {"deterministic_objective": False, "warn_independent_sampling": True}

    def __init__(
        self, *, seed: Optional[int] = None, n_startup_trials: int = 10, **options: Any
    ) -> None:
        super().__init__(seed=seed, **options)
        self._options["n_startup_trials"] = n_startup_trials


class GridSampler(_Sampler):
    """Every configuration of a grid once, in a random order of `seed`."""

    _type = "random"

    def __init__(
        self, search_space: Mapping[str, Sequence[Any]], seed: Optional[int] = None
    ) -> None:
        super().__init__(seed=seed)
        self._grid = {name: list(values) for name, values in sorted(search_space.items())}

    def _is_grid(self) -> bool:
        return True


class PartialFixedSampler(BaseSampler):
    """Another sampler, with the values of some parameters fixed."""

    def __init__(self, fixed_params: Mapping[str, Any], base_sampler: BaseSampler) -> None:
        if base_sampler._is_grid():
            raise TypeError(
                "hpsearch.optuna: PartialFixedSampler cannot fix parameters of a GridSampler: give "
                "them one value in the grid"
            )
        self._base = base_sampler
        self._fixed = {**base_sampler._fixed, **fixed_params}
        self._seed = base_sampler._seed
        self._constraints_func = base_sampler._constraints_func
        self._n_random = base_sampler._n_random
        for name in _METHODS:
            if base_sampler._is_own():
                setattr(self, name, getattr(base_sampler, name))

    def _is_own(self) -> bool:
        return self._base._is_own()

    def _spec(self) -> Dict[str, Any]:
        return self._base._spec()

    def _spec_for(self, objectives: int) -> Dict[str, Any]:
        return self._base._spec_for(objectives)


#: What to use for samplers that there are not.
_INSTEAD = {"BruteForceSampler": "use GridSampler, with the values of each parameter"}


def __getattr__(name: str) -> Any:
    if name in _INSTEAD:
        # Also for `from hpsearch.optuna.samplers import ..`, which hides the text of an error.
        return missing("samplers", _INSTEAD[name])(name)
    raise AttributeError(
        f"hpsearch.optuna has no `samplers.{name}`: there are TPESampler, RandomSampler, "
        "QMCSampler, GPSampler, CmaEsSampler, GridSampler, PartialFixedSampler, NSGAIISampler and "
        "NSGAIIISampler"
    )
