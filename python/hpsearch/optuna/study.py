"""Studies: create_study, load_study and the others, and what they return."""

import datetime
import os
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .._binary import HpsearchError, NoStoreError, json_of, output_of
from .._store import path_of
from .._values import direction as _direction
from . import logging
from ._attributes import Stored
from ._direction import StudyDirection
from ._reader import Reader
from ._study import MaxTrialsCallback, Study
from ._study_search import grid_cells, open_objects
from .distributions import of_store
from .exceptions import DuplicatedStudyError
from .pruners import BasePruner, MedianPruner, NopPruner
from .samplers import BaseSampler, NSGAIISampler, TPESampler
from .trial import FrozenTrial, TrialState

__all__ = ["MaxTrialsCallback", "Study", "StudyDirection", "StudySummary", "copy_study",
           "create_study", "delete_study", "get_all_study_names", "get_all_study_summaries",
           "load_study"]


class StudySummary:
    """What a store has of a study."""

    def __init__(self, study_name: str, directions: List[StudyDirection],
                 best_trial: Optional[FrozenTrial], user_attrs: Dict[str, Any], n_trials: int,
                 datetime_start: Optional[datetime.datetime]) -> None:
        self.study_name = study_name
        self.directions = directions
        self.best_trial = best_trial
        self.user_attrs = user_attrs
        self.n_trials = n_trials
        self.datetime_start = datetime_start

    @property
    def direction(self) -> StudyDirection:
        """The direction of the one objective."""
        if len(self.directions) > 1:
            raise RuntimeError(
                "a study with several objectives has no `direction`: use `directions`"
            )
        return self.directions[0]


def create_study(
    *,
    storage: Any = None,
    sampler: Optional[BaseSampler] = None,
    pruner: Optional[BasePruner] = None,
    study_name: Optional[str] = None,
    direction: Any = None,
    load_if_exists: bool = False,
    directions: Optional[Sequence[Any]] = None,
) -> Study:
    """Begins a study: in memory, or in a store where `storage` is its path."""
    if directions is None:
        directions = [direction]
    elif direction is not None:
        raise ValueError("give one of `direction` and `directions`")
    for what, given, kind in (("sampler", sampler, BaseSampler), ("pruner", pruner, BasePruner)):
        if given is not None and not isinstance(given, kind):
            raise TypeError(
                f"`{what}` must be one of hpsearch.optuna.{what}s, not {given!r}"
            )
    words = [_direction(_word(one)) for one in directions]
    if not words:
        raise ValueError("`directions` is empty")
    return _open(storage, study_name, words, sampler, pruner, load_if_exists)


def _word(direction: Any) -> str:
    if isinstance(direction, StudyDirection):
        return direction.value
    return str(direction or "minimize").lower()


def load_study(*, study_name: Optional[str], storage: Any,
               sampler: Optional[BaseSampler] = None, pruner: Optional[BasePruner] = None) -> Study:
    """Continues a stored study, with this sampler and pruner from here on; without a name, the
    only one of the store. One whose trials other programs run, such as `hpsearch run`, is read."""
    path = _path(storage)
    if study_name is None:
        names = get_all_study_names(storage)
        if len(names) != 1:
            raise ValueError(
                f"`study_name` is missing, and {storage!r} has {len(names)} studies: "
                f"{', '.join(names)}"
            )
        study_name = names[0]
    known = None if path is None else _known(path, study_name)
    if known is None:
        raise KeyError(f"there is no study {study_name!r} in {storage!r}")
    words = [objective.get("direction") or "minimize" for objective in _objectives(known)]
    return _open(storage, study_name, words, sampler, pruner, True)


def get_all_study_names(storage: Any) -> List[str]:
    """The names of the studies of a store that are not archived."""
    path = _path(storage)
    return [] if path is None else [study["name"] for study in _listed(path)]


def get_all_study_summaries(storage: Any, include_best_trial: bool = True) -> List[StudySummary]:
    """What a store has of each study that is not archived; the best trial with its value and
    parameters only."""
    path = _path(storage)
    summaries = []
    for known in [] if path is None else _listed(path):
        name, objectives = known["name"], _objectives(known)
        best = None
        if include_best_trial and len(objectives) == 1 and known.get("best"):
            told = json_of(["best"], path, [name])["trial"]
            best = FrozenTrial(told["number"], TrialState.COMPLETE, float(told["value"]),
                               params=told["params"])
        stored = Stored(path or "", name)
        starts = [trial["datetime_start"] for trial in stored.trials() if trial["datetime_start"]]
        summaries.append(StudySummary(
            name, [StudyDirection(objective["direction"]) for objective in objectives], best,
            stored.read(None), sum(known["trials"].values()), min(starts, default=None),
        ))
    return summaries


def delete_study(*, study_name: str, storage: Any) -> None:
    """Deletes a stored study."""
    path = _path(storage)
    if path is None or _known(path, study_name) is None:
        raise KeyError(f"there is no study {study_name!r} in {storage!r}")
    for study in open_objects(path, study_name):
        # It is no longer of use.
        study._search.close()
    output_of(["rm", "--yes"], path, [study_name])


def copy_study(*, from_study_name: str, from_storage: Any, to_storage: Any,
               to_study_name: Optional[str] = None) -> None:
    """Copies the trials and attributes of a stored study to a new one."""
    source = load_study(study_name=from_study_name, storage=from_storage)
    target = create_study(study_name=to_study_name or from_study_name, storage=to_storage,
                          directions=source.directions)
    if source.metric_names is not None:
        target.set_metric_names(source.metric_names)
    for key, value in source.user_attrs.items():
        target.set_user_attr(key, value)
    running = (TrialState.RUNNING,)
    target.add_trials(trial for trial in source.trials if trial.state not in running)
    target._release()
    source._release()


def _objectives(known: Dict[str, Any]) -> List[Dict[str, Any]]:
    return known.get("objectives") or [known]


def _open(storage: Any, name: Optional[str], directions: List[str], sampler: Optional[BaseSampler],
          pruner: Optional[BasePruner], load_if_exists: bool) -> Study:
    given = [key for key, value in (("sampler", sampler), ("pruner", pruner)) if value is not None]
    sampler = sampler or (TPESampler() if len(directions) == 1 else NSGAIISampler())
    pruner = pruner or (MedianPruner() if len(directions) == 1 else NopPruner())
    path = _path(storage)
    known: Optional[Dict[str, Any]] = None
    specification: Mapping[str, Any] = {}
    metrics: List[str] = []
    if path is not None:
        if name is None:
            name = f"optuna-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
        try:
            known = _known(path, name)
        except HpsearchError:
            if not load_if_exists:
                raise
            # Another program may be making the store; whatever else it is, `ask-tell` says it.
            known = None
        # In Optuna, names of metrics are only labels: those that are stored stay.
        metrics = [objective["metric"] for objective in _objectives(known)] if known else []
        if not load_if_exists and known is not None:
            raise DuplicatedStudyError(
                f"there is a study {name!r} already: `load_if_exists=True` continues it"
            )
        if known is not None:
            specification = _specification(path, name)
    seed = sampler._seed
    if seed is None:
        # Optuna draws a seed where none is given; a stored study has the same one in each run.
        seed = 0 if path is not None else int.from_bytes(os.urandom(4), "little")
    spec = sampler._spec_for(len(directions))
    if sampler._n_random and not any(
        "choice" not in parameter["distribution"] for parameter in specification.get("space", [])
    ):
        # `Study.ask` takes the other one after the first trials.
        spec = {"type": "random"}
    request: Dict[str, Any] = {"cmd": "init", "space": [], "define": True, "seed": seed,
                               "directions": directions, "sampler": spec, "pruner": pruner._spec()}
    if known is not None:
        # What is left out is as stored. In Optuna, the seed is not stored.
        for key in {"seed", "sampler", "pruner"}.difference(given):
            del request[key]
        if specification.get("constraints"):
            request["constraints"] = specification["constraints"]
        if any("limit" not in constraint for constraint in request.get("constraints", [])):
            # Conditions on parameters need them.
            request["space"] = [of_store(parameter["distribution"])._parameter(parameter["name"])
                                for parameter in specification["space"]]
    if len(metrics) == len(directions):
        request["metric_names"] = metrics
    cells = grid_cells(sampler)
    if cells:
        request["n_trials"] = len(cells)
    if load_if_exists:
        # In Optuna, the sampler and the pruner are not stored.
        request["accept"] = True
    reader = None
    if known is not None and specification["program"] != "inline":
        metric = metrics[0] if len(metrics) == 1 else None
        is_tracked = specification["sampler"]["name"] == "none"
        reader = Reader(path or "", known["name"], metric, is_tracked)
    others = [] if path is None else open_objects(path, name)
    try:
        study = Study(request, name, path, sampler, pruner, reader)
    except HpsearchError:
        if path is None or not load_if_exists or specification == _specification(path, name):
            for other in others:
                if other._search._is_closed and other._reader is None:
                    other._begin_again()
            raise
        # Another program has added what its first trials say.
        return _open(storage, name, directions, sampler if "sampler" in given else None,
                     pruner if "pruner" in given else None, True)
    study._lead([other for other in others if other._is_same(study)])
    said = "in memory" if path is None else f"in {storage!r}"
    logging._logger.info("%s study %s %s.", "Using the" if known else "A new",
                         study.study_name, said)
    return study


def _specification(path: str, name: Optional[str]) -> Mapping[str, Any]:
    specification: Mapping[str, Any] = json_of(["show"], path, [name or ""])["specification"]
    return specification


def _path(storage: Any) -> Optional[str]:
    storage = getattr(storage, "_hpsearch_path", storage)
    if storage is None:
        return None
    text = os.fspath(storage) if isinstance(storage, (str, os.PathLike)) else None
    path = None if text is None else path_of(text)
    if path is not None and path.startswith(("postgres://", "postgresql://", "postgresql+")):
        # SQLAlchemy names its driver, too.
        return "postgresql://" + path.partition("://")[2]
    if path is None or path == text and "://" in path:
        raise NotImplementedError(
            f"hpsearch.optuna has no storage {storage!r}: give the path of an hpsearch store, "
            "such as `runs/hpsearch.db`, or `postgresql://..`"
        )
    return path


def _studies(path: str) -> List[Dict[str, Any]]:
    """The studies of a store, archived ones, too; none if there is no such store yet."""
    if "://" not in path and not os.path.exists(path):
        return []
    try:
        studies: List[Dict[str, Any]] = json_of(["ls", "--all"], path)["studies"]
    except NoStoreError:
        if "://" in path:
            return []
        raise
    return studies


def _listed(path: str) -> List[Dict[str, Any]]:
    return [study for study in _studies(path) if not study.get("archived")]


def _known(path: str, name: Optional[str]) -> Optional[Dict[str, Any]]:
    return next((study for study in _studies(path) if study["name"] == name), None)
