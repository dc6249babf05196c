"""Optuna's interface: what a store has of a study that several threads, processes and other
programs work on."""

import contextlib
import json
import os
import sqlite3
import tempfile
import unittest
import warnings
from pathlib import Path

import hpsearch
import hpsearch.optuna as optuna
from hpsearch._binary import output_of
from hpsearch.optuna.trial import TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)

#: A database of Optuna.
DEMO = Path(__file__).resolve().parents[2] / "tests" / "it" / "optuna" / "demo.sql"

#: A study of `hpsearch run`, whose trials 2 and 3 are pruned.
COMMAND = """
[study]
name = "cmd"
metric = "loss"
direction = "minimize"
[space]
x = { float = [0, 1] }
k = ["a", "b"]
[[enqueue]]
x = 0.25
k = "a"
[[enqueue]]
x = 0.125
k = "b"
[[enqueue]]
x = 0.5
k = "a"
[[enqueue]]
x = 0.75
k = "b"
[budget]
trials = 4
[pruner]
type = "threshold"
upper = 0.4
[command]
run = ["sh", "-c", '''
    echo "@hpsearch {\\"step\\": 1, \\"loss\\": $0, \\"other\\": 7}"
    read decision
    echo "@hpsearch {\\"step\\": 2, \\"loss\\": $0}"''', "{x}"]
"""


def branches(trial):
    kind = trial.suggest_categorical("k", ["a", "b"])
    return trial.suggest_float("x" + kind, 0, 1)


class StoredTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.store = os.path.join(directory.name, "a.db")

    def study(self, **options):
        study = optuna.create_study(study_name="s", storage=self.store, **options)
        self.addCleanup(lambda: study._search.close())
        return study

    def load(self, name="s", **options):
        study = optuna.load_study(study_name=name, storage=self.store, **options)
        self.addCleanup(lambda: study._search.close())
        return study

    def assert_verified(self):
        output_of(["verify"], self.store, ["s"])

    def params(self, number):
        row, = hpsearch.trials("s", store=self.store, where=f"number={number}")
        return {name[len("params_"):]: value for name, value in row.items()
                if name.startswith("params_")}

    def test_a_trial_that_is_pruned_after_another_has_begun_has_what_it_asked_for(self):
        first = self.study(pruner=optuna.pruners.ThresholdPruner(upper=0.5),
                           sampler=optuna.samplers.RandomSampler(seed=1))
        for kind in "ab":
            first.enqueue_trial({"k": kind})
            trial = first.ask()
            branches(trial)
            first.tell(trial, 0.1)
        # The second one's process is not the holder.
        for study in (first, self.load()):
            trial = study.ask()
            kind = trial.suggest_categorical("k", ["a", "b"])
            trial.report(0.9, 1)
            self.assertTrue(trial.should_prune())
            value = trial.suggest_float("x" + kind, 0, 1)
            other = study.ask()
            study.tell(trial, state=TrialState.PRUNED)
            self.assertEqual(self.params(trial.number), {"k": kind, "x" + kind: value})
            study.tell(other, branches(other))
            self.assertEqual(study.trials[trial.number].params, {"k": kind, "x" + kind: value})
        self.assert_verified()

    def test_a_parameter_is_removed_though_its_range_has_grown_since(self):
        study = self.study(sampler=optuna.samplers.RandomSampler(seed=1))

        def asked(high):
            trial = study.ask()
            trial.suggest_categorical("k", ["b"])
            if high is not None:
                trial.suggest_int("depth", 1, high)
            return trial

        study.tell(asked(5), 1.0)
        without, grown = asked(None), asked(8)
        study.tell(without, 0.5)
        study.tell(grown, 0.25)
        self.assertEqual(self.params(without.number), {"k": "b"})
        self.assert_verified()

    def test_a_search_that_another_process_continues_proposes_the_same(self):
        proposed = []
        for store in ("whole.db", "parts.db"):
            self.store = os.path.join(os.path.dirname(self.store), store)
            study = self.study(sampler=optuna.samplers.TPESampler(seed=1))
            for _ in range(12):
                trial = study.ask()
                study.tell(trial, branches(trial))
            # Each is proposed all parameters, and one is seen so by the next proposal.
            both = [study.ask(), study.ask()]
            for trial, value in [(trial, branches(trial)) for trial in both]:
                study.tell(trial, value)
            if store == "parts.db":
                study._search.close()
                study = self.load()
            for _ in range(3):
                trial = study.ask()
                study.tell(trial, branches(trial))
            proposed.append([trial.params for trial in study.trials])
            self.assert_verified()
        self.assertEqual(proposed[0], proposed[1])

    def test_an_archived_study_is_reached_by_its_name(self):
        study = self.study()
        study.optimize(branches, n_trials=2)
        study._search.close()
        output_of(["mv", "--archive"], self.store, ["s"])
        self.assertEqual(optuna.get_all_study_names(self.store), [])
        self.assertEqual(optuna.get_all_study_summaries(self.store), [])
        study = self.load()
        study.optimize(branches, n_trials=1)
        study._search.close()
        again = self.study(load_if_exists=True)
        self.assertEqual(len(again.trials), 3)
        with self.assertRaises(optuna.exceptions.DuplicatedStudyError):
            self.study()
        optuna.delete_study(study_name="s", storage=self.store)
        with self.assertRaisesRegex(KeyError, "no study 's'"):
            self.load()

    def test_a_study_that_hpsearch_runs_is_read(self):
        path = os.path.join(os.path.dirname(self.store), "study.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(COMMAND)
        output_of(["run"], self.store, [path])
        study = self.load("cmd")
        self.assertEqual([trial.state.name for trial in study.trials],
                         ["COMPLETE", "COMPLETE", "PRUNED", "PRUNED"])
        self.assertEqual([trial.value for trial in study.trials], [0.25, 0.125, 0.5, 0.75])
        self.assertEqual(study.trials[0].intermediate_values, {1: 0.25, 2: 0.25})
        self.assertEqual(sorted(study.trials[3].distributions), ["k", "x"])
        self.assertIsNotNone(study.trials[3].datetime_complete)
        self.assertEqual((study.best_value, study.best_params), (0.125, {"x": 0.125, "k": "b"}))
        self.assertEqual([trial.number for trial in study.best_trials], [1])
        self.assertEqual(study.metric_names, ["loss"])
        study.set_user_attr("data", "v2")
        self.assertEqual(self.load("cmd").user_attrs, {"data": "v2"})
        sampler = optuna.samplers.RandomSampler()
        for use in (study.ask, lambda: study.optimize(branches, n_trials=1),
                    lambda: study.enqueue_trial({"x": 0.5}),
                    lambda: study.add_trial(study.trials[0]),
                    lambda: setattr(study, "sampler", sampler)):
            with self.assertRaisesRegex(hpsearch.HpsearchError, "`cmd` is one of `hpsearch run`"):
                use()
        self.assertEqual(len(study.trials), 4)

    def test_an_imported_trial_has_its_attributes_and_constraints(self):
        database = os.path.join(os.path.dirname(self.store), "optuna.db")
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.executescript(DEMO.read_text(encoding="utf-8"))
            connection.execute("DELETE FROM trial_user_attributes")
            connection.execute("DELETE FROM trial_system_attributes")
            given = {"epoch": 7, "name": "a b", "list": [1, {"a": None}], "none": None}
            trial, = next(connection.execute("SELECT min(trial_id) FROM trials"))
            connection.executemany(
                "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (?, ?, ?)",
                [(trial, name, json.dumps(value)) for name, value in given.items()],
            )
            connection.executemany(
                "INSERT INTO trial_system_attributes (trial_id, key, value_json) VALUES (?, ?, ?)",
                [(trial, "constraints", "[-1.0, 0.5]"), (trial, "constraints:size", "0.25")],
            )
            connection.commit()
        output_of(["import"], self.store, [database])
        names = optuna.get_all_study_names(self.store)
        studies = [self.load(name) for name in names]
        first, = [study.trials[0] for study in studies if study.trials[0].user_attrs]
        self.assertEqual(first.user_attrs, given)
        self.assertEqual(first.constraints,
                         {"constraint_0": -1.0, "constraint_1": 0.5, "size": 0.25})
        study = next(study for study in studies if study.trials[0].user_attrs)
        output_of(["note", "--message=epoch: 8"], self.store, [study.study_name, "0"])
        self.assertEqual(self.load(study.study_name).trials[0].user_attrs, {**given, "epoch": 8})

    def test_a_study_of_tracked_runs_is_read(self):
        with hpsearch.init("s", store=self.store, config={"lr": 0.5}) as run:
            run.log({"loss": 0.25}, step=1)
        study = self.load()
        self.assertEqual([trial.params for trial in study.trials], [{"lr": 0.5}])
        with self.assertRaisesRegex(hpsearch.HpsearchError, "tracked runs"):
            study.ask()

    def test_a_study_that_is_stopped_ends_its_optimize_and_continues(self):
        study = self.study()

        def stops(trial):
            if trial.number == 1:
                output_of(["stop"], self.store, ["s"])
            return trial.suggest_float("x", 0, 1)

        with self.assertLogs("hpsearch.optuna", "WARNING") as logs:
            study.optimize(stops, n_trials=9)
        self.assertIn("stopped on request", logs.output[0])
        self.assertLess(len(study.trials), 9)
        before = len(study.trials)
        study.optimize(stops, n_trials=3)
        self.assertEqual(len(study.trials), before + 3)
        self.assert_verified()

    def test_a_study_between_two_optimize_is_free_for_other_commands(self):
        study = self.study()
        study.enqueue_trial({"k": "a", "xa": 0.5})
        study.optimize(branches, n_trials=1)
        again = self.study(load_if_exists=True)
        again.optimize(branches, n_trials=0)
        output_of(["mv"], self.store, ["s", "u"])
        output_of(["mv"], self.store, ["u", "s"])
        best = study.best_trial
        self.assertEqual((best.params, best.value), ({"k": "a", "xa": 0.5}, 0.5))
        study.optimize(branches, n_trials=2)
        out = study.ask()
        self.assertRaises(hpsearch.HpsearchError, output_of, ["rm", "--yes"], self.store, ["s"])
        # A trial that was asked for outside of `optimize` stays this program's.
        study.optimize(branches, n_trials=1)
        study.tell(out, 1.0)
        study.optimize(branches, n_trials=1)
        self.assertEqual(len(study.trials), 6)
        output_of(["mv"], self.store, ["s", "t"])
        with self.assertRaisesRegex(hpsearch.HpsearchError, "`s` is no longer in the store"):
            study.optimize(branches, n_trials=1)
        self.assertEqual(optuna.get_all_study_names(self.store), ["t"])

    def test_a_study_that_was_made_again_under_its_name_is_not_continued_as_the_one_before(self):
        before = self.study()
        before.optimize(branches, n_trials=2)
        output_of(["rm", "--yes"], self.store, ["s"])
        study = self.study()
        study.optimize(branches, n_trials=1)
        for _ in range(2):
            with self.assertRaisesRegex(hpsearch.HpsearchError, "`s` was removed or renamed"):
                before.optimize(branches, n_trials=1)
            # While the new one's search is open, too.
            study.sampler = optuna.samplers.RandomSampler(seed=4)
        study.optimize(branches, n_trials=1)
        again = self.load()
        again.optimize(branches, n_trials=1)
        study.optimize(branches, n_trials=1)
        self.assertEqual(len(again.trials), 4)
        with self.assertRaisesRegex(hpsearch.HpsearchError, "`s` was removed or renamed"):
            before.optimize(branches, n_trials=1)
        self.assert_verified()

    def test_another_sampler_proposes_for_every_object_of_a_grid(self):
        def line(trial):
            return trial.suggest_float("x", 0, 1)

        one = self.study(sampler=optuna.samplers.GridSampler({"x": [0.0, 0.5]}))
        one.optimize(line)
        two = self.study(
            sampler=optuna.samplers.GridSampler({"x": [0.0, 0.5, 1.0]}), load_if_exists=True
        )
        two.optimize(line)
        two.sampler = optuna.samplers.TPESampler(seed=1)
        two.optimize(line, n_trials=2)
        one.optimize(line, n_trials=1)
        self.assertEqual(len(one.trials), 6)

    def test_a_cell_that_runs_again_goes_on_with_its_sampler(self):
        cell = self.study()
        cell.optimize(branches, n_trials=2)
        again = self.study(load_if_exists=True, sampler=optuna.samplers.RandomSampler(),
                           pruner=optuna.pruners.NopPruner())
        again.optimize(branches, n_trials=2)
        # The other object is of the same study.
        cell.optimize(branches, n_trials=1)
        self.assertEqual((len(cell.trials), cell.sampler), (5, again.sampler))
        rows = sorted(hpsearch.trials("s", store=self.store), key=lambda row: row["number"])
        self.assertEqual([row["origin"] for row in rows], ["tpe"] * 2 + ["random"] * 3)
        # What cannot be changed leaves the study as it was.
        with self.assertRaisesRegex(hpsearch.HpsearchError, "direction"):
            self.study(load_if_exists=True, direction="maximize")
        again.optimize(branches, n_trials=1)

        def opens(trial):
            self.study(load_if_exists=True, sampler=optuna.samplers.TPESampler())

        # Of two processes, either may have the study then.
        with self.assertRaisesRegex(hpsearch.HpsearchError,
                                    "as another search: sampler.type: (random -> tpe|tpe -> random)"):
            again.optimize(opens, n_trials=1)
        self.assert_verified()

    def test_a_trial_that_is_given_again_has_the_reports_of_its_last_attempt(self):
        study = self.study(pruner=optuna.pruners.NopPruner())
        trial = study.ask()
        x = trial.suggest_float("x", 0, 1)
        trial.suggest_int("first", 1, 2)
        for step in range(3):
            trial.report(100 + step, step)
        study._search._process.kill()
        study._search.close()
        study = self.load()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = study.ask()
            self.assertEqual((again.number, again.suggest_float("x", 0, 1)), (0, x))
            for step in range(2):
                again.report(step, step)
        study.tell(again, 0.5)
        frozen, = study.trials
        self.assertEqual(frozen.intermediate_values, {0: 0.0, 1: 1.0})
        self.assertEqual(list(frozen.distributions), ["x"])
        points = [(row["step"], row["value"]) for row in hpsearch.series("s", self.store)]
        self.assertEqual(points, [(0, 0.0), (1, 1.0)])
        self.assert_verified()

    def test_a_trial_that_is_killed_has_failed_whatever_it_is_told(self):
        def kill(number):
            output_of(["kill", "s", str(number)], self.store)

        study = self.study(pruner=optuna.pruners.NopPruner())

        def objective(trial):
            x = trial.suggest_float("x", 0, 1)
            if trial.number == 1:
                kill(1)
            if trial.number == 2:
                kill(2)
                raise optuna.TrialPruned
            return -99.0 if trial.number == 1 else x

        with self.assertLogs("hpsearch.optuna", "WARNING") as logs:
            study.optimize(objective, n_trials=3)
        told = [record.getMessage() for record in logs.records]
        self.assertEqual(told, [f"Trial {number} was killed: it counts as failed."
                                for number in (1, 2)])
        trials = study.trials
        self.assertEqual([trial.state.name for trial in trials], ["COMPLETE", "FAIL", "FAIL"])
        self.assertEqual([trial.value for trial in trials[1:]], [None, None])
        self.assertEqual(study.best_trial.number, 0)

    def test_the_value_of_a_pruned_trial_is_its_last_report(self):
        study = self.study(pruner=optuna.pruners.ThresholdPruner(upper=0.5))
        for value in (0.75, float("nan")):
            trial = study.ask()
            trial.report(value, 1)
            study.tell(trial, state=TrialState.PRUNED)
        values = [trial.value for trial in study.trials]
        self.assertEqual(values, [0.75, None])
        study._search.close()
        self.assertEqual([trial.value for trial in self.load().trials], values)


if __name__ == "__main__":
    unittest.main()
