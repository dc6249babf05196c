"""Runs short scripts with `import optuna` and with `import hpsearch.optuna as optuna`, and compares what they print.

    python tests/peers/optuna_scripts.py [NAME..]

Needs Python with optuna 5, optuna-integration, lightgbm, xgboost and pandas; HPSEARCH_BINARY
names the program. The client is that of the checkout. Run by hand.
The scripts use what Optuna's tutorials and its FAQ use, and print only what both must agree on.
"""

import os
import subprocess
import sys
import tempfile

SCRIPTS = {
    "pruning_callbacks": """
import lightgbm
import numpy
import optuna_integration
import xgboost
x = numpy.random.default_rng(0).normal(size=(200, 3))
y = x[:, 0] + 0.5 * x[:, 1]
def by_lightgbm(trial):
    rate = trial.suggest_float("rate", 1e-6, 1, log=True)
    data = lightgbm.Dataset(x[:100], y[:100])
    options = {"learning_rate": rate, "objective": "l2", "verbosity": -1, "num_threads": 1}
    callback = optuna_integration.LightGBMPruningCallback(trial, "l2")
    lightgbm.train(options, data, 10, [lightgbm.Dataset(x[100:], y[100:], reference=data)], callbacks=[callback])
    return rate
def by_xgboost(trial):
    rate = trial.suggest_float("rate", 1e-6, 1, log=True)
    options = {"eta": rate, "nthread": 1}
    callback = optuna_integration.XGBoostPruningCallback(trial, "valid-rmse")
    valid = xgboost.DMatrix(x[100:], y[100:])
    xgboost.train(options, xgboost.DMatrix(x[:100], y[:100]), 10, [(valid, "valid")], callbacks=[callback], verbose_eval=False)
    return rate
for objective in (by_lightgbm, by_xgboost):
    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=0.9, n_warmup_steps=5))
    for rate in (0.5, 1e-5):
        study.enqueue_trial({"rate": rate})
    study.optimize(objective, n_trials=2)
    print([(trial.state.name, trial.last_step) for trial in study.trials])
""",
    "search": """
def objective(trial):
    return (trial.suggest_float("x", -10, 10) - 2) ** 2
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
study.optimize(objective, n_trials=30)
print(list(study.best_params), study.best_value < 3, len(study.trials), study.direction.name)
print(study.direction == optuna.study.StudyDirection.MINIMIZE, study.best_trials == [study.best_trial])
""",
    "trial_of_the_past": """
def objective(trial):
    kind = trial.suggest_categorical("kind", ["a", "b"])
    return trial.suggest_float("x", 0, 1) + trial.suggest_int("n", 1, 9, log=True) + len(kind)
study = optuna.create_study()
study.optimize(objective, n_trials=5)
print(objective(study.best_trial) == study.best_value)
print(objective(optuna.trial.FixedTrial({"kind": "a", "x": 0.5, "n": 3})))
try:
    objective(optuna.trial.FixedTrial({"kind": "a"}))
except ValueError:
    print("refused")
""",
    "storage": """
for _ in range(2):
    study = optuna.create_study(study_name="a", storage="sqlite:///a.db", load_if_exists=True)
    study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=3)
study.set_user_attr("who", ["me"])
print(len(study.trials), study.user_attrs, optuna.get_all_study_names("sqlite:///a.db"))
try:
    optuna.create_study(study_name="a", storage="sqlite:///a.db")
except optuna.exceptions.DuplicatedStudyError:
    print("duplicated")
optuna.copy_study(from_study_name="a", from_storage="sqlite:///a.db", to_storage="sqlite:///b.db")
copy = optuna.load_study(study_name=None, storage="sqlite:///b.db")
print(copy.study_name, [trial.values for trial in copy.trials] == [trial.values for trial in study.trials])
summary = optuna.get_all_study_summaries("sqlite:///b.db")[0]
print(summary.n_trials, summary.user_attrs, summary.best_trial.value == study.best_value)
optuna.delete_study(study_name="a", storage="sqlite:///a.db")
print(optuna.get_all_study_names("sqlite:///a.db"))
try:
    optuna.load_study(study_name="a", storage="sqlite:///a.db")
except KeyError:
    print("missing")
""",
    "ask_and_tell": """
from optuna.distributions import CategoricalDistribution, FloatDistribution
study = optuna.create_study(direction="maximize")
trial = study.ask({"x": FloatDistribution(0, 1), "kind": CategoricalDistribution(["a"])})
print(sorted(trial.params), trial.number)
print(study.tell(trial.number, 0.7).state)
for values in (None, float("nan"), "word", [1.0, 2.0]):
    print(study.tell(study.ask(), values).state)
    try:
        study.tell(study.ask(), values, state=optuna.trial.TrialState.COMPLETE)
    except ValueError:
        print("refused")
trial = study.ask()
trial.report(0.3, 1)
trial.report(0.4, 1)
print(study.tell(trial, state=optuna.trial.TrialState.PRUNED).value, study.trials[-1].intermediate_values)
for number in (trial.number, 100):
    try:
        study.tell(number, 1.0)
    except ValueError:
        print("refused")
print(study.tell(trial, 1.0, skip_if_finished=True).state)
""",
    "callbacks": """
from optuna.study import MaxTrialsCallback
from optuna.trial import TrialState
study = optuna.create_study()
study.optimize(lambda trial: 1.0, callbacks=[lambda study, trial: study.stop() if trial.number >= 4 else None])
print(len(study.trials))
study.optimize(lambda trial: 1.0, callbacks=[MaxTrialsCallback(10, states=(TrialState.COMPLETE,))])
print(len(study.trials))
for use in (study.stop, lambda: study.optimize(lambda trial: study.optimize(lambda trial: 1.0, n_trials=1), n_trials=1)):
    try:
        use()
    except RuntimeError:
        print("refused")
def fails(trial):
    raise KeyError("no")
study.optimize(fails, n_trials=1, catch=(KeyError,))
study.optimize(lambda trial: None, n_trials=1)
study.optimize(lambda trial: float("inf"), n_trials=1)
print([str(trial.state) for trial in study.trials[-4:]], study.trials[-1].value)
""",
    "enqueue": """
study = optuna.create_study()
study.enqueue_trial({"x": 1, "kind": "b"}, user_attrs={"memo": "one"})
study.enqueue_trial({"x": 1, "kind": "b"}, skip_if_exists=True)
study.enqueue_trial({"x": 2})
print(len(study.trials), [trial.state.name for trial in study.trials])
study.optimize(lambda trial: trial.suggest_float("x", 0, 9) + len(trial.suggest_categorical("kind", ["a", "b"])), n_trials=3)
print([trial.params["x"] for trial in study.trials[:2]], study.trials[0].user_attrs, len(study.trials))
""",
    "add_trial": """
from optuna.distributions import FloatDistribution
study = optuna.create_study()
unit = {"x": FloatDistribution(0, 9)}
study.add_trial(optuna.trial.create_trial(params={"x": 2.0}, distributions=unit, value=4.0, user_attrs={"m": 1}))
study.add_trial(optuna.create_trial(state=optuna.trial.TrialState.PRUNED, params={"x": 3.0}, distributions=unit,
                                    intermediate_values={1: 5.0}, value=5.0))
other = optuna.create_study()
other.add_trials(study.trials)
other.optimize(lambda trial: trial.suggest_float("x", 0, 9) + 9, n_trials=2)
print([(trial.number, trial.state.name) for trial in other.trials], other.best_value, other.trials[0].user_attrs)
print(other.trials[1].value, other.trials[1].intermediate_values, other.trials[0].params)
""",
    "data_frame": """
study = optuna.create_study()
study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_int("n", 0, 3), n_trials=3)
frame = study.trials_dataframe()
print(list(frame.columns), [str(kind)[:7] for kind in frame.dtypes])
print(list(study.trials_dataframe(multi_index=True).columns))
print(list(study.trials_dataframe(attrs=("number", "value", "params", "state")).columns))
""",
    "several_objectives": """
study = optuna.create_study(directions=["minimize", "maximize"])
study.set_metric_names(["loss", "speed"])
study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)), n_trials=20)
print(study.metric_names, [direction.name for direction in study.directions])
front = study.best_trials
worse = [one for one in study.trials if one.values[0] > front[0].values[0] and one.values[1] < front[0].values[1]]
print(len(front) > 0, not set(one.number for one in worse) & set(one.number for one in front))
print(list(study.trials_dataframe().columns))
for name in ("best_trial", "best_value", "direction"):
    try:
        getattr(study, name)
    except RuntimeError:
        print("refused")
""",
    "limits": """
def limit(trial):
    return (0.5 - trial.params["x"],)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1, constraints_func=limit))
study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=30)
print(study.best_value >= 0.5, min(trial.value for trial in study.trials) < 0.5)
""",
    "samplers": """
def objective(trial):
    return trial.suggest_float("x", 0, 1) + trial.suggest_int("n", 0, 3)
of = optuna.samplers
# Not GPSampler, for which Optuna needs torch.
for sampler in (of.TPESampler(seed=1, multivariate=True, group=True, constant_liar=True), of.RandomSampler(1),
                of.NSGAIISampler(seed=1), of.QMCSampler(seed=1),
                of.GridSampler({"x": [0, 0.5], "n": [1, 2]}), of.PartialFixedSampler({"n": 3}, of.RandomSampler(1))):
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=12)
    print(type(study.sampler).__name__, len(study.trials), {trial.params["n"] for trial in study.trials} == {3})
study.sampler = of.RandomSampler(2)
study.optimize(objective, n_trials=8)
print(len({trial.params["n"] for trial in study.trials}) > 1)
try:
    optuna.create_study(sampler=of.GridSampler({"x": [0]})).optimize(objective)
except ValueError:
    print("refused")
""",
    "own_sampler": """
class Own(optuna.samplers.BaseSampler):
    def __init__(self):
        self.random = optuna.samplers.RandomSampler(1)
    def infer_relative_search_space(self, study, trial):
        return optuna.search_space.intersection_search_space(study.get_trials(deepcopy=False))
    def sample_relative(self, study, trial, search_space):
        return {name: one.high for name, one in search_space.items()}
    def sample_independent(self, study, trial, name, distribution):
        return self.random.sample_independent(study, trial, name, distribution)
study = optuna.create_study(sampler=Own())
study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + trial.suggest_float("y", 2, 3), n_trials=3)
print([trial.params for trial in study.trials[1:]])
""",
    "own_pruner": """
class Own(optuna.pruners.BasePruner):
    def prune(self, study, trial):
        done = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        return len(done) > 0 and trial.last_step == 1
def objective(trial):
    for step in range(3):
        trial.report(1.0, step)
        if trial.should_prune():
            raise optuna.TrialPruned()
    return 1.0
study = optuna.create_study(pruner=Own())
study.optimize(objective, n_trials=3)
print([(trial.state.name, trial.last_step, trial.value) for trial in study.trials])
""",
    "distributions": """
from optuna.distributions import *
for one in (FloatDistribution(0, 1, step=0.25), IntDistribution(1, 8, log=True), CategoricalDistribution(["a", None])):
    print(json_to_distribution(distribution_to_json(one)) == one, one.single())
for use in (lambda: FloatDistribution(1, 0), lambda: FloatDistribution(0, 1, log=True), lambda: IntDistribution(0, 1, step=0)):
    try:
        use()
    except ValueError:
        print("refused")
""",
    "importance": """
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2 + 0.01 * trial.suggest_float("y", -1, 1), n_trials=60)
print(list(optuna.importance.get_param_importances(study)))
print(list(optuna.importance.get_param_importances(study, target=lambda trial: trial.params["y"])))
""",
    "logging": """
import logging, sys
optuna.logging.set_verbosity(optuna.logging.INFO)
optuna.logging.get_logger("optuna").addHandler(logging.StreamHandler(sys.stdout))
study = optuna.create_study(study_name="a", storage="sqlite:///a.db")
for value in (2.0, 1.0, 3.0):
    study.optimize(lambda trial: value, n_trials=1)
""",
}

client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")
environment = {**os.environ, "PYTHONPATH": client}
chosen = sys.argv[1:] or list(SCRIPTS)
differing = []
for name in chosen:
    printed = []
    for module in ("import optuna", "import hpsearch.optuna as optuna"):
        script = f"{module}\noptuna.logging.set_verbosity(optuna.logging.ERROR)\n" + SCRIPTS[name]
        if module != "import optuna":
            script = script.replace("from optuna", "from hpsearch.optuna")
        with tempfile.TemporaryDirectory() as directory:
            words = [sys.executable, "-W", "ignore", "-c", script]
            ended = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False, env=environment)
        lines = ended.stdout if ended.returncode == 0 else ended.stdout + ended.stderr
        # What is said of the storage is each one's own.
        printed.append([line for line in lines.splitlines() if not line.startswith("A new study")])
    if printed[0] == printed[1]:
        print(f"{name}: the same {len(printed[0])} lines")
        continue
    differing.append(name)
    print(f"{name} differs:\n  optuna   " + "\n           ".join(printed[0]))
    print("  hpsearch " + "\n           ".join(printed[1]))
sys.exit(f"{len(differing)} of {len(chosen)} scripts differ" if differing else 0)
