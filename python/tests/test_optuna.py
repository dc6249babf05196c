"""Optuna's interface: what it answers, what it stores, and what it says it does not have."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock
import warnings

import hpsearch
import hpsearch.optuna as optuna
from hpsearch._binary import required
from hpsearch._search import Search
from hpsearch.optuna.trial import TrialState

from .harness import PYTHON, Case

optuna.logging.set_verbosity(optuna.logging.ERROR)


def parabola(trial):
    x = trial.suggest_float("x", -10, 10)
    kind = trial.suggest_categorical("kind", ["a", None, 3, True])
    if kind == "a":
        return (x - 2) ** 2 + trial.suggest_int("y", 1, 9)
    return (x - 2) ** 2 + trial.suggest_float("z", 1e-3, 1, log=True)


class OptunaTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.store = os.path.join(self.directory.name, "a.db")

    def study(self, **options):
        study = optuna.create_study(**options)
        self.addCleanup(study._search.close)
        return study

    def test_a_search_finds_the_minimum_and_values_belong_to_params(self):
        study = self.study(sampler=optuna.samplers.TPESampler(seed=1))
        study.enqueue_trial({"x": 5.0, "kind": "a", "y": 2})
        study.optimize(parabola, n_trials=40)
        self.assertEqual(study.trials[0].params, {"x": 5.0, "kind": "a", "y": 2})
        self.assertEqual(study.trials[0].value, 11.0)
        self.assertLess(study.best_value, 1.5)
        for trial in study.trials:
            if "z" in trial.params:
                self.assertEqual(
                    trial.value, (trial.params["x"] - 2) ** 2 + trial.params["z"]
                )

    def test_the_default_searches_all_parameters_together_as_optunas_does(self):
        of = optuna.samplers.TPESampler
        for sampler, expected in (
            (of(), "tpe"),
            (of(multivariate=True), "tpe"),
            (of(multivariate=False), "tpe-independent"),
        ):
            self.assertEqual(sampler._spec_for(1)["type"], expected)
        study = self.study()
        study.optimize(parabola, n_trials=2)

    def test_every_sampler_and_pruner_runs(self):
        def reports(trial):
            value = parabola(trial)
            for step in range(4):
                trial.report(value + 1 / (step + 1), step)
                if trial.should_prune():
                    raise optuna.TrialPruned()
            return value

        samplers, pruners = optuna.samplers, optuna.pruners
        for sampler in (samplers.RandomSampler(1), samplers.QMCSampler(seed=1),
                        samplers.GPSampler(seed=1), samplers.TPESampler(multivariate=True)):
            study = self.study(sampler=sampler)
            study.optimize(reports, n_trials=14)
            self.assertEqual(len(study.trials), 14)
        for pruner in (pruners.SuccessiveHalvingPruner(), pruners.HyperbandPruner(1, 9),
                       pruners.PercentilePruner(25.0), pruners.ThresholdPruner(upper=5.0),
                       pruners.WilcoxonPruner(), pruners.NopPruner(),
                       pruners.PatientPruner(pruners.MedianPruner(), 1)):
            study = self.study(pruner=pruner)
            study.optimize(reports, n_trials=14)
            pruned = study.get_trials(states=[TrialState.PRUNED])
            if isinstance(pruner, pruners.NopPruner):
                self.assertEqual(pruned, [])

    def test_a_trial_that_is_stopped_is_told_after_another_was_asked_for(self):
        study = self.study(pruner=optuna.pruners.ThresholdPruner(upper=1.0))
        for state in (None, TrialState.PRUNED, TrialState.FAIL):
            stopped = study.ask()
            stopped.report(5.0, 1)
            self.assertTrue(stopped.should_prune())
            other = study.ask()
            # It ignores what it is answered, as in Optuna it may.
            stopped.report(6.0, 2)
            self.assertTrue(stopped.should_prune())
            told = study.tell(stopped, 0.125 if state is None else None, state=state)
            ended = {None: (TrialState.COMPLETE, 0.125), TrialState.PRUNED: (state, 6.0),
                     TrialState.FAIL: (state, None)}
            self.assertEqual((told.state, told.value), ended[state])
            self.assertEqual(study.tell(other, 0.25).state, TrialState.COMPLETE)
        with self.assertRaisesRegex(ValueError, "trial 2 is PRUNED already"):
            study.tell(2, 0.5)
        self.assertEqual((study.trials[0].value, study.best_value), (0.125, 0.125))

    def test_a_value_is_kept_though_another_thread_asks_after_a_stop(self):
        study = self.study(pruner=optuna.pruners.ThresholdPruner(upper=1.0))
        asked, stopped = threading.Event(), threading.Event()

        def objective(trial):
            if trial.number > 0:
                asked.set()
                return 5.0
            trial.report(2.0, 1)
            stopped.set()
            self.assertTrue(asked.wait(30))
            return -1.0

        first = threading.Thread(target=study.optimize, args=(objective,), kwargs={"n_trials": 1})
        first.start()
        self.assertTrue(stopped.wait(30))
        study.optimize(objective, n_trials=1)
        first.join()
        self.assertEqual((study.best_trial.number, study.best_value), (0, -1.0))

    def test_threads_share_a_study_whose_pruner_stops_trials(self):
        study = self.study(sampler=optuna.samplers.RandomSampler(seed=1))
        raised = []

        def objective(trial):
            x = trial.suggest_float("x", 0, 1)
            for step in range(10):
                trial.report(x + step / 10, step)
            return x

        def optimize():
            try:
                study.optimize(objective, n_trials=12)
            except Exception as error:
                raised.append(error)

        threads = [threading.Thread(target=optimize) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((raised, len(study.trials)), ([], 48))

    def test_jobs_are_threads_that_run_as_many_trials_as_are_asked_for(self):
        study = self.study(sampler=optuna.samplers.RandomSampler(seed=1))
        together = threading.Barrier(3)
        numbers = []

        def objective(trial):
            if trial.number < 3:
                together.wait(30)
            return parabola(trial)

        def callback(study, trial):
            numbers.append((trial.number, len(study.trials)))

        study.optimize(objective, n_trials=20, n_jobs=3, callbacks=[callback])
        self.assertEqual(sorted(number for number, _ in numbers), list(range(20)))
        self.assertEqual({trial.state for trial in study.trials}, {TrialState.COMPLETE})
        # None begins after the first failure but those that were due already.
        with self.assertRaises(ZeroDivisionError):
            study.optimize(lambda trial: 1 / 0, n_trials=200, n_jobs=2)
        self.assertLess(len(study.trials), 200)
        stop = optuna.study.MaxTrialsCallback(1)
        count = len(study.trials)
        study.optimize(parabola, n_trials=200, n_jobs=2, callbacks=[stop])
        self.assertLess(len(study.trials), count + 5)
        study.optimize(parabola, timeout=0.0, n_jobs=-1)

    def test_user_attributes_are_stored_as_notes(self):
        study = self.study(study_name="s", storage=self.store)

        def objective(trial):
            trial.set_user_attr("model", {"layers": [1, 2]})
            trial.set_user_attr("a: b", "c: 1")
            trial.set_user_attr("epoch", 1)
            trial.set_user_attr("epoch", trial.number + 2)
            return trial.suggest_float("x", 0, 1)

        study.optimize(objective, n_trials=2)
        out = study.ask()
        out.set_user_attr("epoch", 7)
        study.set_user_attr("data", "größe")
        with self.assertRaisesRegex(TypeError, "`bad` has .*which JSON does not have"):
            out.set_user_attr("bad", object())
        with self.assertRaisesRegex(ValueError, "`long` has 4001 bytes .* set the path"):
            out.set_user_attr("long", "x" * 3993)
        study.set_user_attr("long", "x" * 3992)
        known = study.trials
        study._search._process.kill()
        study._search.close()
        noted = [hpsearch.trials("s", store=self.store)[0]["notes"][0]["text"]]
        self.assertEqual(noted, ['model: {"layers": [1, 2]}'])
        again = optuna.load_study(study_name="s", storage=self.store)
        self.addCleanup(again._search.close)
        self.assertEqual(again.user_attrs, {"data": "größe", "long": "x" * 3992})
        for before, after in zip(known[:2], again.trials):
            self.assertEqual(after.user_attrs, before.user_attrs)
            self.assertEqual(after.user_attrs["epoch"], before.number + 2)
            self.assertLess(abs(after.datetime_start - before.datetime_start).total_seconds(), 5)
            self.assertGreaterEqual(after.duration.total_seconds(), 0)
        self.assertEqual(again.best_trial.user_attrs["a: b"], "c: 1")
        # The one that was out continues with what it had.
        resumed = again.ask()
        self.assertEqual((resumed.number, resumed.user_attrs), (2, {"epoch": 7}))

    def test_the_example_of_the_documentation_runs(self):
        page = PYTHON.parent / "docs" / "python.md"
        if not page.exists():
            self.skipTest("there is no checkout beside the tests")
        section = page.read_text(encoding="utf-8").split("## Optuna's interface")[1]
        example = section.split("```python\n")[1].split("```")[0]
        case = Case()
        case.setUp()
        self.addCleanup(case.doCleanups)
        said = case.run_program(example).stdout
        self.assertRegex(said, r"^{'x': [0-9.]+} {'data': 'v2'}\n$")
        rows = hpsearch.trials("digits", store=str(case.path / "runs" / "hpsearch.db"))
        self.assertEqual(len(rows), 100)

    def test_a_progress_bar_is_refused_with_a_warning(self):
        study = self.study()
        with self.assertWarnsRegex(UserWarning, "hpsearch watch"):
            study.optimize(parabola, n_trials=2, show_progress_bar=True)
        self.assertEqual(len(study.trials), 2)

    def test_a_data_frame_has_optunas_columns(self):
        study = self.study(direction="max")
        study.enqueue_trial({"x": 1.0, "kind": "a", "y": 2})
        study.enqueue_trial({"x": 2.0, "kind": None, "z": 0.5})

        def objective(trial):
            trial.set_user_attr("size", trial.number + 5)
            return parabola(trial)

        study.optimize(objective, n_trials=2)
        pandas = types.SimpleNamespace(DataFrame=dict)
        with unittest.mock.patch.dict(sys.modules, pandas=pandas):
            frame = study.trials_dataframe()
            some = study.trials_dataframe(attrs=("state", "number"))
            with self.assertRaisesRegex(ValueError, "'colour'"):
                study.trials_dataframe(attrs=("colour",))
        self.assertEqual(
            list(frame),
            ["number", "value", "datetime_start", "datetime_complete", "duration", "params_kind",
             "params_x", "params_y", "params_z", "user_attrs_size", "state"],
        )
        self.assertEqual((frame["value"], frame["params_y"]), ([3.0, 0.5], [2, None]))
        self.assertEqual(frame["user_attrs_size"], [5, 6])
        self.assertEqual(some, {"state": ["COMPLETE", "COMPLETE"], "number": [0, 1]})

    def test_a_name_has_one_distribution_in_a_trial(self):
        trial = self.study().ask()
        value = trial.suggest_float("x", 0, 1)
        trial.suggest_categorical("kind", ["a", "b"])
        with self.assertWarnsRegex(RuntimeWarning, "`x` was suggested from .*high=1.0"):
            self.assertEqual(trial.suggest_float("x", 5, 6), value)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(trial.suggest_float("x", 0, 1), value)
        for suggest in (
            lambda: trial.suggest_int("x", 0, 1),
            lambda: trial.suggest_float("x", 0.5, 1, log=True),
            lambda: trial.suggest_categorical("kind", ["a"]),
        ):
            with self.assertRaises(ValueError):
                suggest()

    def test_a_tuple_may_be_a_choice(self):
        study = self.study()
        study.enqueue_trial({"layers": (64, 32)})
        # Random draws could miss it.
        study.enqueue_trial({"layers": (64,)})
        choices = [(64,), (64, 32), [True, "relu"]]
        study.optimize(lambda trial: len(trial.suggest_categorical("layers", choices)), n_trials=9)
        self.assertEqual(study.trials[0].params, {"layers": (64, 32)})
        self.assertLessEqual(
            {type(trial.params["layers"]) for trial in study.trials}, {tuple, list}
        )
        self.assertEqual(study.best_params, {"layers": (64,)})
        with self.assertRaisesRegex(ValueError, "cannot be a choice"):
            study.ask().suggest_categorical("kind", [{"a": 1}])

    def test_a_number_of_numpy_may_be_a_choice(self):
        class Number(int):
            def item(self):
                return int(self)

        one, two = Number(1), Number(2)
        study = self.study()
        study.enqueue_trial({"size": 2})
        study.optimize(lambda trial: trial.suggest_categorical("size", [one, two]), n_trials=1)
        self.assertIsInstance(study.best_params["size"], Number)
        self.assertEqual(study.best_params, {"size": 2})

    def test_a_grid_is_tried_once(self):
        grid = {"x": [1.0, 2.0], "kind": ["a"], "y": [1, 2]}
        study = self.study(sampler=optuna.samplers.GridSampler(grid))
        study.optimize(parabola)
        self.assertEqual(len(study.trials), 4)
        self.assertEqual(study.best_params, {"x": 2.0, "kind": "a", "y": 1})
        cells = {tuple(sorted(trial.params.items())) for trial in study.trials}
        self.assertEqual(len(cells), 4)

    def test_what_is_enqueued_is_stored(self):
        study = self.study(study_name="s", storage=self.store)
        for _ in range(2):
            study.enqueue_trial({"x": 5.0, "kind": None}, skip_if_exists=True)
        self.assertEqual([trial.state for trial in study.trials], [TrialState.WAITING])
        study._search._process.kill()
        study._search.close()
        again = self.study(study_name="s", storage=self.store, load_if_exists=True)
        again.optimize(parabola, n_trials=2)
        first, second = again.trials
        self.assertEqual((first.params["x"], first.params["kind"]), (5.0, None))
        self.assertEqual(first.value, 9 + first.params["z"])
        self.assertNotEqual(second.params["x"], 5.0)

    def test_programs_share_a_stored_study(self):
        program = """
            import os, sys
            import hpsearch.optuna as optuna
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            study = optuna.create_study(study_name="s", storage="a.db", load_if_exists=True)
            stop = optuna.study.MaxTrialsCallback(24)
            study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, callbacks=[stop])
            # Another program may tell a better value in between.
            least = min(trial.value for trial in study.trials if trial.value is not None)
            print(len(study.trials), study.best_value <= least)
            """
        case = Case()
        case.setUp()
        self.addCleanup(case.doCleanups)
        for process in [case.start(program) for _ in range(4)]:
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
            # Each sees the trials of all.
            self.assertGreaterEqual(int(out.split()[0]), 24, out)
            self.assertEqual(out.split()[1], "True")
        rows = hpsearch.trials("s", store=str(case.path / "a.db"))
        self.assertEqual({row["state"] for row in rows}, {"complete"})
        self.assertLessEqual(len(rows), 24 + 3)
        values = [row["value"] == row["params_x"] ** 2 for row in rows]
        self.assertTrue(all(values))

    def test_a_stored_study_continues(self):
        study = self.study(study_name="s", storage=self.store)
        study.optimize(parabola, n_trials=3)
        out = study.ask()
        x = out.suggest_float("x", -10, 10)
        study._search._process.kill()
        study._search.close()
        with self.assertRaises(optuna.exceptions.DuplicatedStudyError):
            optuna.create_study(study_name="s", storage=self.store)
        again = optuna.load_study(study_name="s", storage=self.store)
        self.addCleanup(again._search.close)
        self.assertEqual(again._search.open[0]["params"]["x"], x)
        again.optimize(parabola, n_trials=3)
        self.assertEqual([trial.state for trial in again.trials], [TrialState.COMPLETE] * 6)
        again._search.close()
        rows = hpsearch.trials("s", store=self.store)
        self.assertEqual(len(rows), 6)

    def test_what_is_not_given_is_as_stored(self):
        sampler = optuna.samplers.RandomSampler(seed=7)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=2)
        study = self.study(study_name="s", storage=self.store, sampler=sampler, pruner=pruner)
        study.optimize(parabola, n_trials=2)
        study._search.close()

        def stored():
            shown = subprocess.run([required(), "show", "s", "--json", "--store", self.store],
                                   capture_output=True, check=True)
            specification = json.loads(shown.stdout)["specification"]
            return [specification[key] for key in ("seed", "sampler", "pruner")]

        before = stored()
        self.assertEqual(before[0], 7)
        self.assertEqual(before[1]["name"], "random")
        again = optuna.load_study(study_name="s", storage=self.store)
        self.addCleanup(again._search.close)
        again.optimize(parabola, n_trials=1)
        again._search.close()
        self.assertEqual(stored(), before)
        # Another sampler is taken, and as in Optuna no seed is stored.
        sampler = optuna.samplers.TPESampler(seed=8)
        other = self.study(study_name="s", storage=self.store, sampler=sampler,
                           load_if_exists=True)
        other._search.close()
        seed, sampler, pruner = stored()
        self.assertEqual((seed, pruner), (7, before[2]))
        self.assertNotEqual(sampler["name"], "random")

    def test_a_study_keeps_the_names_of_its_metrics(self):
        for name, directions, metrics in (
            ("one", ["maximize"], ["accuracy"]),
            ("two", ["minimize", "maximize"], ["err", "speed"]),
        ):
            request = {"cmd": "init", "space": [], "define": True, "directions": directions,
                       "metric_names": metrics}
            search = Search(name, request, self.store)
            search._say({"cmd": "ask"})
            told = {"value": 0.5} if len(metrics) == 1 else {"values": [0.5, 0.5]}
            search._say({"cmd": "tell", "id": 0, **told})
            search.close()
            again = optuna.load_study(study_name=name, storage=self.store)
            self.addCleanup(again._search.close)
            self.assertEqual(again.directions, directions)
            again.tell(again.ask(), [0.9] * len(metrics))
            self.assertEqual(again.best_trials[-1].values, [0.9] * len(metrics))
            again._search.close()
            same = self.study(study_name=name, storage=self.store, directions=directions,
                              load_if_exists=True)
            self.assertEqual(len(same.trials), 2)

    def test_a_hidden_trial_is_not_the_best(self):
        study = self.study(study_name="s", storage=self.store)
        for value in (1.0, 3.0, 2.0):
            study.tell(study.ask(), value)
        self.assertEqual(study.best_trial.number, 0)
        study._search.close()
        hidden = subprocess.run([required(), "rm", "s", "0", "--yes", "--store", self.store],
                                capture_output=True, check=False)
        self.assertEqual(hidden.returncode, 0, hidden.stderr)
        again = optuna.load_study(study_name="s", storage=self.store)
        self.addCleanup(again._search.close)
        self.assertEqual((again.best_trial.number, again.best_value), (2, 2.0))

    def test_without_a_value_there_is_no_best_trial(self):
        study = self.study()
        with self.assertRaisesRegex(ValueError, "No trials are completed yet"):
            study.best_trial

    def test_a_database_of_optuna_is_imported_first(self):
        connection = sqlite3.connect(self.store)
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.close()
        with self.assertRaisesRegex(hpsearch.HpsearchError, "hpsearch import "):
            optuna.load_study(study_name="s", storage="sqlite:///" + self.store)

    def test_failures_are_caught_where_that_is_said(self):
        def fails(trial):
            raise KeyError("no")

        study = self.study()
        study.optimize(fails, n_trials=2, catch=KeyError)
        with self.assertRaises(KeyError):
            study.optimize(fails, n_trials=2)
        study.optimize(lambda trial: float("nan"), n_trials=1)
        self.assertEqual([trial.state for trial in study.trials], [TrialState.FAIL] * 4)

    def test_caught_failures_never_end_an_optimize(self):
        def fails(trial):
            trial.suggest_float("x", 0, 1)
            raise KeyError("no")

        study = self.study()
        study.optimize(fails, n_trials=25, catch=KeyError)
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
        study.optimize(fails, n_trials=12, catch=KeyError)
        self.assertEqual(len(study.trials), 38)

    def test_several_objectives_have_a_front(self):
        def both(trial):
            x = trial.suggest_float("x", 0, 1)
            return x, (x - 1) ** 2 if x < 0.5 else 2.0

        study = self.study(directions=["minimize", "minimize"], study_name="m", storage=self.store)
        study.optimize(both, n_trials=12)
        front = study.best_trials
        values = [trial.values for trial in study.trials]

        def is_dominated(own):
            return any(
                all(a <= b for a, b in zip(other, own)) and other != own for other in values
            )

        self.assertEqual(
            [trial.number for trial in front],
            [number for number, own in enumerate(values) if not is_dominated(own)],
        )
        self.assertEqual(study.directions, ["minimize", "minimize"])
        for name in ("best_trial", "best_value", "direction"):
            with self.assertRaises(RuntimeError):
                getattr(study, name)
        with self.assertRaisesRegex(ValueError, "the number of values 1 did not match"):
            study.tell(study.ask(), 1.0, state=TrialState.COMPLETE)
        study._search.close()
        again = optuna.load_study(study_name="m", storage=self.store)
        self.addCleanup(again._search.close)
        self.assertEqual([trial.values for trial in again.best_trials],
                         [trial.values for trial in front])

    def test_what_there_is_not_is_named(self):
        study = self.study()
        for name, use in (
            ("artifacts", lambda: optuna.artifacts.FileSystemArtifactStore("files")),
            ("integration", lambda: optuna.integration.TensorBoardCallback("logs", "loss")),
            ("terminator", lambda: optuna.terminator.TerminatorCallback()),
            ("runs/hpsearch.db", lambda: optuna.storages.JournalStorage(None)),
            ("JournalFileBackend", lambda: optuna.storages.journal.JournalFileBackend("a.log")),
            ("GridSampler", lambda: optuna.samplers.BruteForceSampler()),
            ("FloatDistribution(low", lambda: optuna.distributions.UniformDistribution(0, 1)),
            ("there are TPESampler", lambda: optuna.samplers.BestSampler),
            ("there are MedianPruner", lambda: optuna.pruners.BestPruner),
            ("hpsearch.optuna.samplers", lambda: optuna.create_study(sampler="tpe")),
            ("n_jobs", lambda: study.optimize(parabola, n_trials=1, n_jobs=0)),
            ("system_attrs", lambda: study.system_attrs),
            ("direction", lambda: optuna.create_study(directions=["minimize", "up"])),
            ("HyperbandPruner needs `max_resource`", lambda: optuna.pruners.HyperbandPruner()),
            ("bootstrap_count", lambda: optuna.pruners.SuccessiveHalvingPruner(1, 4, 0, 3)),
            ("mysql", lambda: optuna.create_study(storage="mysql://here")),
        ):
            with self.assertRaises(
                (AttributeError, NotImplementedError, TypeError, ValueError)
            ) as raised:
                use()
            self.assertIn(name, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
