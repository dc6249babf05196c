"""Optuna's interface: studies of stores, trials of other studies, and what is made of them."""

import enum
import os
import sys
import tempfile
import types
import unittest
import unittest.mock
import warnings

import hpsearch
import hpsearch.optuna as optuna
from hpsearch._binary import NoStoreError
from hpsearch.optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)
from hpsearch.optuna.trial import FixedTrial, TrialState

from .harness import Case

optuna.logging.set_verbosity(optuna.logging.ERROR)
UNIT = FloatDistribution(0, 1)


def layered(trial):
    layers = trial.suggest_categorical("layers", [(1,), (1, 2)])
    return len(layers) + trial.suggest_int("n", 1, 9, log=True) + trial.suggest_float("x", 0, 1)


class StudiesTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.store = os.path.join(directory.name, "a.db")

    def study(self, **options):
        study = optuna.create_study(**options)
        self.addCleanup(study._search.close)
        return study

    def test_the_studies_of_a_store_are_listed_copied_and_deleted(self):
        url = "sqlite:///" + self.store
        self.assertEqual(optuna.get_all_study_names(url), [])
        study = self.study(study_name="a", storage=optuna.storages.RDBStorage(url))
        study.set_user_attr("data", "v2")
        study.optimize(layered, n_trials=3)
        alone = optuna.load_study(study_name=None, storage=url)
        self.assertEqual((alone.study_name, len(alone.trials)), ("a", 3))
        optuna.copy_study(from_study_name="a", from_storage=url, to_storage=url, to_study_name="b")
        self.assertEqual(sorted(optuna.study.get_all_study_names(url)), ["a", "b"])
        for summary in optuna.get_all_study_summaries(url):
            self.assertEqual((summary.n_trials, summary.user_attrs), (3, {"data": "v2"}))
            self.assertEqual(summary.best_trial.value, study.best_value)
            self.assertEqual(summary.direction.name, "MINIMIZE")
        with self.assertRaisesRegex(ValueError, "2 studies: "):
            optuna.load_study(study_name=None, storage=url)
        copy = optuna.load_study(study_name="b", storage=url)
        self.assertEqual([trial.values for trial in copy.trials],
                         [trial.values for trial in study.trials])
        self.assertEqual([trial.params for trial in copy.trials],
                         [{**trial.params, "layers": list(trial.params["layers"])}
                          for trial in study.trials])
        optuna.delete_study(study_name="a", storage=url)
        self.assertEqual(optuna.get_all_study_names(url), ["b"])
        copy._search.close()
        for use in (optuna.delete_study, optuna.load_study):
            with self.assertRaisesRegex(KeyError, "no study 'a'"):
                use(study_name="a", storage=url)

    def test_an_address_of_sqlalchemy_is_one_of_a_store(self):
        path = optuna.study._path
        server = optuna.storages.RDBStorage("postgresql+psycopg2://me@db:5432/lab")
        self.assertEqual(path(server), "postgresql://me@db:5432/lab")
        self.assertEqual(path("sqlite:////tmp/a.db"), "/tmp/a.db")
        self.assertIsNone(path(optuna.storages.InMemoryStorage()))

    def test_a_server_without_a_store_has_no_studies(self):
        server = "postgresql://me@db/lab"
        absent = NoStoreError("there is no store at `db`\nhelp: create one")
        gone = hpsearch.HpsearchError("the server of the store `db` cannot be reached")
        for why, is_absent in ((absent, True), (gone, False)):
            fails = unittest.mock.patch("hpsearch.optuna.study.json_of", side_effect=why)
            with fails:
                if is_absent:
                    self.assertEqual(optuna.get_all_study_names(server), [])
                else:
                    with self.assertRaisesRegex(hpsearch.HpsearchError, "cannot be reached"):
                        optuna.get_all_study_names(server)

    def test_studies_without_a_name_get_one_each(self):
        names = {self.study(**place).study_name
                 for place in ({}, {}, {"storage": self.store}, {"storage": self.store})}
        self.assertEqual(len(names), 4)

    def test_a_study_that_is_dropped_ends_its_process(self):
        study = optuna.create_study(study_name="a", storage=self.store)
        process = study._search._process
        del study
        self.assertEqual(process.poll(), 0)

    def test_trials_that_have_ended_are_added(self):
        study = self.study(study_name="s", storage=self.store)
        study.enqueue_trial({"x": 0.25}, user_attrs={"from": "me"})
        study.add_trial(optuna.create_trial(
            params={"x": 0.5, "kind": "b"}, value=4.0, user_attrs={"size": 1},
            distributions={"x": UNIT, "kind": CategoricalDistribution(["a", "b"])},
            intermediate_values={3: 5.0},
        ))
        study.add_trial(optuna.create_trial(state=TrialState.PRUNED, params={"x": 0.75},
                                            distributions={"x": UNIT},
                                            intermediate_values={1: 6.0}, value=6.0))
        study.add_trial(optuna.create_trial(state=TrialState.FAIL))
        self.assertEqual(study.best_value, 4.0)
        known = study.trials
        self.assertEqual([trial.state.name for trial in known],
                         ["WAITING", "COMPLETE", "PRUNED", "FAIL"])
        # The one that waited runs first.
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
        first = study.trials[0]
        self.assertEqual((first.value, first.user_attrs), (0.25, {"from": "me"}))
        self.assertEqual(len(study.trials), 5)
        study._search.close()
        again = optuna.load_study(study_name="s", storage=self.store)
        self.addCleanup(again._search.close)
        added = again.trials[1]
        self.assertEqual((added.params, added.value), ({"x": 0.5, "kind": "b"}, 4.0))
        self.assertEqual((added.intermediate_values, added.user_attrs), ({3: 5.0}, {"size": 1}))
        self.assertEqual(added.distributions, known[1].distributions)
        self.assertEqual(again.trials[2].state, TrialState.PRUNED)
        other = self.study()
        other.add_trials(again.trials)
        self.assertEqual([trial.value for trial in other.trials],
                         [trial.value for trial in again.trials])
        with self.assertRaisesRegex(ValueError, "did not match the number of objectives"):
            self.study(directions=["minimize"] * 2).add_trial(known[1])
        with self.assertRaisesRegex(ValueError, "`x` = 2.0 is not in"):
            optuna.create_trial(params={"x": 2.0}, distributions={"x": UNIT}, value=1.0)

    def test_an_objective_is_called_with_a_trial_of_the_past(self):
        study = self.study(study_name="s", storage=self.store)
        study.optimize(layered, n_trials=3)
        self.assertEqual(layered(study.best_trial), study.best_value)
        study._search.close()
        again = optuna.load_study(study_name="s", storage=self.store)
        self.addCleanup(again._search.close)
        for trial in again.trials:
            self.assertEqual(layered(trial), trial.value)
        with self.assertRaisesRegex(ValueError, "no parameter `other`"):
            again.trials[0].suggest_float("other", 0, 1)
        fixed = FixedTrial({"layers": (1, 2), "n": 3, "x": 0.5})
        self.assertEqual(layered(fixed), 5.5)
        self.assertEqual(fixed.params["n"], 3)
        with self.assertWarnsRegex(UserWarning, "`x` = 7 is not in"):
            FixedTrial({"x": 7}).suggest_float("x", 0, 1)

    def test_a_value_that_is_none_fails_its_trial(self):
        study = self.study()
        for value in (None, float("nan"), "no", [1.0, 2.0]):
            with self.assertWarns(UserWarning):
                self.assertEqual(study.tell(study.ask(), value).state, TrialState.FAIL)
            with self.assertRaises(ValueError):
                study.tell(study.ask(), value, state=TrialState.COMPLETE)
        for number in (0, 100):
            with self.assertRaisesRegex(ValueError, f"trial {number}"):
                study.tell(number, 1.0)
        with self.assertRaisesRegex(ValueError, "has no values"):
            study.tell(study.ask(), 1.0, state=TrialState.FAIL)

    def test_only_one_report_of_a_step_counts(self):
        trial = self.study().ask()
        trial.report(1.0, 1)
        with self.assertWarnsRegex(UserWarning, "step 1 was reported before"):
            trial.report(2.0, 1)
        for value, step in ((1.0, -1), ("a", 2), (None, 2), (1.0, "b")):
            with self.assertRaises((TypeError, ValueError)):
                trial.report(value, step)
        self.assertEqual(trial._frozen.intermediate_values, {1: 1.0})

    def test_stop_and_optimize_are_refused_where_optuna_refuses_them(self):
        study = self.study()
        with self.assertRaisesRegex(RuntimeError, "not outside"):
            study.stop()
        with self.assertRaisesRegex(RuntimeError, "by an objective"):
            study.optimize(lambda trial: study.optimize(layered, n_trials=1), n_trials=1)
        study.optimize(layered, n_trials=9, callbacks=[lambda study, trial: study.stop()])
        self.assertEqual(len(study.trials), 2)

    def test_an_enqueued_value_outside_of_its_range_is_refused(self):
        study = self.study()
        study.enqueue_trial({"y": 0.5})
        study.enqueue_trial({"x": 50.0})
        with self.assertRaisesRegex(ValueError, "`x` was enqueued as 50.0, which is not in"):
            study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
        with self.assertRaisesRegex(hpsearch.HpsearchError, "`5` is not a value of `x`"):
            study.enqueue_trial({"x": 5})

    def test_metrics_have_names(self):
        study = self.study(directions=["minimize", "maximize"], study_name="m", storage=self.store)
        self.assertIsNone(study.metric_names)
        study.set_metric_names(["loss", "speed"])
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 1.0), n_trials=2)
        self.assertEqual(study.metric_names, ["loss", "speed"])
        with self.assertRaisesRegex(ValueError, "before"):
            study.set_metric_names(["a", "b"])
        study._search.close()
        again = optuna.load_study(study_name="m", storage=self.store)
        self.addCleanup(again._search.close)
        self.assertEqual(again.metric_names, ["loss", "speed"])
        memory = self.study()
        memory.optimize(layered, n_trials=2)
        before = memory.trials
        memory.set_metric_names(["loss"])
        self.assertEqual((memory.metric_names, memory.trials), (["loss"], before))

    def test_what_callbacks_of_optuna_integration_use_is_that_of_optuna(self):
        class StudyDirection(enum.IntEnum):
            MINIMIZE, MAXIMIZE = 1, 2

        class FloatDistribution:
            def _asdict(self):
                return {"low": 0.25, "high": 0.5, "log": False, "step": None}

        class TrialPruned(Exception):
            pass

        theirs = types.ModuleType("optuna.exceptions")
        theirs.TrialPruned = TrialPruned
        study = optuna.create_study()
        self.addCleanup(study._search.close)

        def objective(trial):
            self.assertTrue(0.25 <= trial._suggest("x", FloatDistribution()) <= 0.5)
            trial.storage.set_trial_system_attr(trial._trial_id, "scores", [1.0])
            trial.report(0.75, 1)
            raise TrialPruned("by a callback")

        with unittest.mock.patch.dict(sys.modules, {"optuna.exceptions": theirs}):
            study.optimize(objective, n_trials=1)
        trial, = study.trials
        self.assertEqual((trial.state, trial.value), (TrialState.PRUNED, 0.75))
        self.assertEqual(trial.distributions, {"x": optuna.distributions.FloatDistribution(0.25, 0.5)})
        self.assertTrue(study.direction == StudyDirection.MINIMIZE)
        self.assertFalse(study.direction != StudyDirection.MINIMIZE)
        self.assertTrue(study.direction != StudyDirection.MAXIMIZE)
        self.assertEqual({study.direction: 1}["minimize"], 1)

    def test_the_callbacks_are_those_of_optuna_integration(self):
        with self.assertRaisesRegex(NotImplementedError, "install `optuna-integration`"):
            optuna.integration.LightGBMPruningCallback(None, "auc")
        theirs = types.ModuleType("optuna_integration")
        theirs.LightGBMPruningCallback = object()
        with unittest.mock.patch.dict(sys.modules, {"optuna_integration": theirs}):
            self.assertIs(optuna.integration.LightGBMPruningCallback,
                          theirs.LightGBMPruningCallback)

    def test_directions_and_states_are_optunas(self):
        study = self.study(direction=optuna.study.StudyDirection.MAXIMIZE)
        self.assertEqual(study.direction.name, "MAXIMIZE")
        self.assertEqual(study.direction, "maximize")
        self.assertEqual(str(TrialState.FAIL), "TrialState.FAIL")
        self.assertEqual(study.best_trials, [])
        for value in (1.0, 2.0, 2.0):
            study.tell(study.ask(), value)
        self.assertEqual([trial.number for trial in study.best_trials], [1, 2])

    def test_distributions_are_read_as_they_were_written(self):
        for one in (UNIT, FloatDistribution(1e-3, 1, log=True), FloatDistribution(0, 1, step=0.25),
                    IntDistribution(1, 9, step=2), IntDistribution(1, 9, log=True),
                    CategoricalDistribution(["a", None, 1])):
            self.assertEqual(json_to_distribution(distribution_to_json(one)), one)
            self.assertFalse(one.single())
        for low, high, options in ((1, 0, {}), (0, 1, {"log": True}), (0, 1, {"step": 0}),
                                   (0, float("inf"), {})):
            with self.assertRaises(ValueError):
                FloatDistribution(low, high, **options)

    def test_a_data_frame_may_have_two_levels(self):
        study = self.study()
        study.optimize(layered, n_trials=2)
        named = self.study(directions=["minimize"] * 2)
        named.set_metric_names(["loss", "time"])

        class Frame(dict):
            columns = None

        index = types.SimpleNamespace(from_tuples=list)
        pandas = types.SimpleNamespace(DataFrame=Frame, MultiIndex=index)
        with unittest.mock.patch.dict(sys.modules, pandas=pandas):
            frame = study.trials_dataframe(attrs=("number", "value", "params"), multi_index=True)
            flat = named.trials_dataframe()
        self.assertEqual(frame.columns, [("number", ""), ("value", ""), ("params", "layers"),
                                         ("params", "n"), ("params", "x")])
        self.assertEqual(list(flat)[1:3], ["values_loss", "values_time"])

    def test_importances_are_those_of_hpsearch(self):
        def objective(trial):
            return trial.suggest_float("x", -1, 1) ** 2 + trial.suggest_float("y", 0, 1) / 100

        sampler = optuna.samplers.RandomSampler(seed=1)
        memory = self.study(sampler=sampler)
        stored = self.study(sampler=sampler, study_name="s", storage=self.store)
        shares = []
        for study in (memory, stored):
            with self.assertRaisesRegex(ValueError, "importances need 10 trials"):
                optuna.importance.get_param_importances(study)
            study.optimize(objective, n_trials=40)
            shares.append(optuna.importance.get_param_importances(study))
        self.assertEqual(list(shares[0]), ["x", "y"])
        self.assertAlmostEqual(sum(shares[1].values()), 1.0)
        of = optuna.importance.get_param_importances(
            memory, evaluator=optuna.importance.FanovaImportanceEvaluator(seed=1),
            target=lambda trial: trial.params["y"],
        )
        self.assertGreater(of["y"], 0.9)
        with self.assertRaisesRegex(NotImplementedError, "PedAnovaImportanceEvaluator"):
            optuna.importance.MeanDecreaseImpurityImportanceEvaluator()

    def test_plots_are_drawn_by_optuna_or_refused(self):
        from hpsearch.optuna.visualization import plot_slice

        study = self.study(direction="maximize")
        study.set_metric_names(["score"])
        study.optimize(layered, n_trials=2)
        with unittest.mock.patch.dict(sys.modules, {"optuna": None}):
            self.assertFalse(optuna.visualization.is_available())
            with self.assertRaisesRegex(ImportError, "pip install optuna .*`hpsearch report`"):
                plot_slice(study)
        copied = unittest.mock.MagicMock()
        other = unittest.mock.MagicMock()
        other.create_study.return_value = copied
        modules = {"optuna": other, "optuna.visualization": other.visualization}
        with unittest.mock.patch.dict(sys.modules, modules):
            drawn = plot_slice(study, params=["x"])
        self.assertIs(drawn, other.visualization.plot_slice.return_value)
        other.visualization.plot_slice.assert_called_once_with(copied, params=["x"])
        self.assertEqual(other.create_study.call_args.kwargs["directions"], ["maximize"])
        copied.set_metric_names.assert_called_once_with(["score"])
        self.assertEqual(copied.add_trial.call_count, 2)
        made = [call.kwargs for call in other.trial.FrozenTrial.call_args_list]
        self.assertEqual([one["values"] for one in made],
                         [trial.values for trial in study.trials])
        self.assertLessEqual({one["params"]["layers"] for one in made}, {"[1]", "[1, 2]"})

    def test_the_logger_of_optuna_is_that_of_hpsearch(self):
        program = """
            import logging, sys
            import hpsearch.optuna as optuna
            optuna.logging.get_logger("optuna").addHandler(logging.StreamHandler(sys.stdout))
            study = optuna.create_study()
            for value in (2.0, 1.0, 3.0):
                study.optimize(lambda trial: value, n_trials=1)
            """
        case = Case()
        case.setUp()
        self.addCleanup(case.doCleanups)
        said = case.run_program(program).stdout.splitlines()
        self.assertEqual(said[-1], "Trial 2 finished with value: 3.0 and parameters: {}. Best is "
                                   "trial 1 with value: 1.0.")

    def test_the_cause_of_a_failure_is_stored(self):
        study = self.study(study_name="s", storage=self.store)

        def fails(trial):
            raise KeyError("no data")

        study.optimize(fails, n_trials=1, catch=KeyError)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            study.tell(study.ask(), float("nan"))
        rows = sorted(hpsearch.trials("s", store=self.store), key=lambda row: row["number"])
        self.assertEqual([row["reason"] for row in rows],
                         ["KeyError: 'no data'", "the value NaN is not acceptable"])


if __name__ == "__main__":
    unittest.main()
