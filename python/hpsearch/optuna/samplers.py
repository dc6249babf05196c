"""Samplers by Optuna's names, as the samplers of hpsearch."""

from typing import Any, Dict, Mapping, Optional, Sequence


class BaseSampler:
    """Who proposes: a sampler of hpsearch with its options."""

    _type = ""
    #: Options without a counterpart that may be given where they say nothing.
    _neutral: Mapping[str, Any] = {}

    def __init__(self, *, seed: Optional[int] = None, **options: Any) -> None:
        self._seed = seed
        self._options: Dict[str, Any] = {}
        for key, value in options.items():
            if key in self._neutral and value == self._neutral[key]:
                continue
            raise TypeError(
                f"hpsearch.optuna: {type(self).__name__} has no option `{key}`: leave it out"
            )

    def _spec(self) -> Dict[str, Any]:
        return {"type": self._type, **self._options}

    def _spec_for(self, objectives: int) -> Dict[str, Any]:
        return self._spec()


class TPESampler(BaseSampler):
    """`tpe`, or `tpe-independent` with `multivariate=False`."""

    _type = "tpe"
    _neutral = {"constant_liar": False, "group": False, "prior_weight": 1.0,
                "consider_endpoints": False, "consider_magic_clip": True, "consider_prior": True,
                "warn_independent_sampling": True}

    def __init__(self, *, seed: Optional[int] = None, multivariate: Optional[bool] = None,
                 n_startup_trials: int = 10, n_ei_candidates: int = 24, **options: Any) -> None:
        super().__init__(seed=seed, **options)
        self._type = "tpe-independent" if multivariate is False else "tpe"
        self._options["n_startup_trials"] = n_startup_trials
        self._options["n_ei_candidates"] = n_ei_candidates


    def _spec_for(self, objectives: int) -> Dict[str, Any]:
        spec = self._spec()
        # Several objectives are searched with all parameters together.
        return {**spec, "type": "tpe"} if objectives > 1 else spec


class NSGAIISampler(BaseSampler):
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


class RandomSampler(BaseSampler):
    """`random`."""

    _type = "random"

    def __init__(self, seed: Optional[int] = None) -> None:
        super().__init__(seed=seed)


class QMCSampler(BaseSampler):
    """`qmc`."""

    _type = "qmc"
    _neutral = {"qmc_type": "sobol", "scramble": True, "warn_asynchronous_seeding": True,
                "warn_independent_sampling": True}


class GPSampler(BaseSampler):
    """`gp`."""

    _type = "gp"
    _neutral = {"deterministic_objective": False, "warn_independent_sampling": True}

    def __init__(
        self, *, seed: Optional[int] = None, n_startup_trials: int = 10, **options: Any
    ) -> None:
        super().__init__(seed=seed, **options)
        self._options["n_startup_trials"] = n_startup_trials


class GridSampler(BaseSampler):
    """Every configuration of a grid once, in a random order of `seed`."""

    _type = "random"

    def __init__(
        self, search_space: Mapping[str, Sequence[Any]], seed: Optional[int] = None
    ) -> None:
        super().__init__(seed=seed)
        self._grid = {name: list(values) for name, values in sorted(search_space.items())}


#: What to use for samplers that need their space before the first trial, or another program.
_INSTEAD = {
    "CmaEsSampler": '`hpsearch.study(space=.., sampler="cmaes")`, or GPSampler',
    "BruteForceSampler": "GridSampler, with the values of each parameter",
    "PartialFixedSampler": "the other sampler, and the fixed values in the objective",
}


def __getattr__(name: str) -> Any:
    instead = _INSTEAD.get(name)
    hint = f"use {instead}" if instead else (
        "there are TPESampler, RandomSampler, QMCSampler, GPSampler, GridSampler, NSGAIISampler "
        "and NSGAIIISampler"
    )
    raise AttributeError(f"hpsearch.optuna has no `samplers.{name}`: {hint}")
