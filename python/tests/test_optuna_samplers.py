"""Optuna's interface: samplers and pruners of the program, those set later, and limits."""

import os
import tempfile
import unittest
import unittest.mock
import weakref

import hpsearch
import hpsearch.optuna as optuna
from hpsearch.optuna.trial import TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)
samplers = optuna.samplers


def bowl(trial):
    return trial.suggest_float("x", -1, 1) ** 2 + trial.suggest_float("y", -1, 1) ** 2


class SamplersTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.store = os.path.join(directory.name, "a.db")

    def study(self, **options):
        study = optuna.create_study(**options)
        self.addCleanup(lambda: study._search.close())
        return study

    def places(self):
        """In memory, and in a store."""
        return {}, {"study_name": "s", "storage": self.store}

    def test_cmaes_begins_after_the_first_trials(self):
        for place in self.places():
            sampler = samplers.CmaEsSampler(seed=1, n_startup_trials=2, popsize=6, sigma0=0.3)
            study = self.study(sampler=sampler, **place)
            study.optimize(bowl, n_trials=2)
            first = study.trials
            self.assertEqual(study._request["sampler"], {"type": "random"})
            study.optimize(bowl, n_trials=60, n_jobs=2)
            self.assertEqual(study._request["sampler"],
                             {"type": "cmaes", "population": 6, "sigma": 0.3})
            self.assertEqual((study.trials[:2], len(study.trials)), (first, 62))
            self.assertLess(study.best_value, 0.05)
        study._search.close()
        again = self.study(sampler=sampler, load_if_exists=True, **place)
        self.assertEqual(again._request["sampler"]["type"], "cmaes")

    def test_some_parameters_may_be_fixed(self):
        for place in self.places():
            study = self.study(sampler=samplers.TPESampler(seed=1), **place)
            study.optimize(bowl, n_trials=3)
            study.enqueue_trial({"x": 0.25})
            before = study.trials
            study.sampler = samplers.PartialFixedSampler({"y": 0.5}, study.sampler)
            study.optimize(bowl, n_trials=3)
            self.assertEqual(study.trials[:3], before[:3])
            self.assertEqual([trial.params["y"] for trial in study.trials[3:]], [0.5] * 3)
            self.assertEqual(study.trials[3].params["x"], 0.25)

    def test_another_sampler_or_pruner_may_be_set_between_trials(self):
        for place in self.places():
            study = self.study(**place)
            study.enqueue_trial({"x": 0.5, "y": 0.5})
            study.enqueue_trial({"x": 0.25, "y": 0.5})
            study.optimize(bowl, n_trials=1)
            out = study.ask()
            with self.assertRaisesRegex(RuntimeError, "trial 1 is running"):
                study.sampler = samplers.RandomSampler()
            study.tell(out, state=TrialState.FAIL)
            study.sampler = samplers.RandomSampler(seed=1)
            study.pruner = optuna.pruners.ThresholdPruner(upper=1.0)
            trial = study.ask()
            trial.report(2.0, 1)
            self.assertTrue(trial.should_prune())
            study.tell(trial, state=TrialState.PRUNED)
            self.assertEqual([trial.state.name for trial in study.trials],
                             ["COMPLETE", "FAIL", "PRUNED"])
            self.assertEqual((study._request["sampler"], study.best_value),
                             ({"type": "random"}, 0.5))

    def test_another_sampler_is_refused_while_others_run_the_study(self):
        place = {"study_name": "s", "storage": self.store}
        study = self.study(**place)
        other = self.study(load_if_exists=True, **place)
        # As where they are two programs.
        no_search = unittest.mock.patch("hpsearch._search._OPEN", weakref.WeakSet())
        refusal = self.assertRaisesRegex(hpsearch.HpsearchError, "while one program runs the study")
        with no_search, refusal:
            study.sampler = samplers.RandomSampler()
        for one in (study, other):
            one.optimize(bowl, n_trials=2)
        self.assertIsInstance(study.sampler, samplers.TPESampler)
        self.assertEqual([trial.state.name for trial in study.trials], ["COMPLETE"] * 4)

    def test_another_sampler_is_that_of_all_objects_of_the_program(self):
        place = {"study_name": "s", "storage": self.store}
        study = self.study(**place)
        other = self.study(load_if_exists=True, **place)
        out = other.ask()
        with self.assertRaisesRegex(RuntimeError, "trial 0 is running"):
            study.sampler = samplers.RandomSampler()
        other.tell(out, 1.0)
        for one in (study, other):
            one.sampler = samplers.RandomSampler()
            other.optimize(bowl, n_trials=1)
            study.sampler = samplers.TPESampler()
            one.optimize(bowl, n_trials=1)
        origins = {row["number"]: row["origin"] for row in
                   hpsearch.trials("s", store=self.store)}
        self.assertEqual(origins, {0: "tpe", 1: "random", 2: "tpe", 3: "random", 4: "tpe"})

    def test_seeds_and_bounds_are_exact_or_refused_with_their_limit(self):
        self.assertEqual(samplers.TPESampler(seed=2**63 - 1)._seed, 2**63 - 1)
        for seed in (2**63, -1):
            with self.assertRaisesRegex(ValueError, "from 0 to 9223372036854775807"):
                samplers.TPESampler(seed=seed)
        with self.assertRaisesRegex(TypeError, "must be an integer"):
            samplers.RandomSampler(seed=0.5)

        class Index:
            def __index__(self):
                return 2**53 + 1

        self.assertEqual(samplers.RandomSampler(seed=Index())._seed, 2**53 + 1)
        study = self.study()
        with self.assertRaisesRegex(ValueError, "`n`: the bounds .* 4503599627370496"):
            study.ask().suggest_int("n", 0, 2**60)
        self.assertLessEqual(study.ask().suggest_int("n", 2**52 - 1, 2**52), 2**52)

    def test_a_sampler_of_the_program_proposes(self):
        class Own(samplers.BaseSampler):
            def __init__(self):
                self.told = []
                self._random = samplers.RandomSampler(seed=1)

            def infer_relative_search_space(self, study, trial):
                trials = study.get_trials(deepcopy=False)
                return optuna.search_space.intersection_search_space(trials)

            def sample_relative(self, study, trial, search_space):
                return {name: one.low for name, one in search_space.items()}

            def sample_independent(self, study, trial, name, distribution):
                return self._random.sample_independent(study, trial, name, distribution)

            def after_trial(self, study, trial, state, values):
                self.told.append((trial.number, values))

        sampler = Own()
        study = self.study(sampler=sampler)
        study.enqueue_trial({"x": 0.5})
        study.optimize(bowl, n_trials=3)
        first, second, third = [trial.params for trial in study.trials]
        self.assertEqual((first["x"], second, third),
                         (0.5, {"x": -1.0, "y": -1.0}, {"x": -1.0, "y": -1.0}))
        self.assertTrue(-1 <= first["y"] <= 1)
        self.assertEqual(sampler.told, [(trial.number, trial.values) for trial in study.trials])

    def test_random_values_are_of_their_distribution(self):
        from hpsearch.optuna.distributions import (
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        draws = samplers.RandomSampler(seed=1).sample_independent
        for one, least in ((FloatDistribution(0, 1), 40),
                           (FloatDistribution(1e-3, 1, log=True), 40),
                           (FloatDistribution(0, 1, step=0.3), 4),
                           (IntDistribution(1, 9, step=4), 3),
                           (IntDistribution(1, 5, log=True), 5),
                           (CategoricalDistribution(["a", None]), 2)):
            drawn = [draws(None, None, "x", one) for _ in range(100)]
            self.assertTrue(all(map(one._contains, drawn)), one)
            self.assertGreaterEqual(len(set(drawn)), least, one)

    def test_a_pruner_of_the_program_stops_trials(self):
        class Own(optuna.pruners.BasePruner):
            def prune(self, study, trial):
                return trial.last_step >= 2 and trial.intermediate_values[2] > 0.5

        def objective(trial):
            x = trial.suggest_float("x", 0, 1)
            for step in range(4):
                trial.report(x, step)
                if trial.should_prune():
                    raise optuna.TrialPruned()
            return x

        study = self.study(pruner=Own())
        for x in (0.75, 0.25):
            study.enqueue_trial({"x": x})
        study.optimize(objective, n_trials=2)
        self.assertEqual([(trial.state.name, trial.last_step) for trial in study.trials],
                         [("PRUNED", 2), ("COMPLETE", 3)])

    def test_the_best_trial_satisfies_the_limits(self):
        def objective(trial):
            x = trial.suggest_float("x", 0, 1)
            trial.set_user_attr("limit", 0.5 - x)
            return x

        for place in self.places():
            sampler = samplers.TPESampler(
                seed=1, constraints_func=lambda trial: [trial.user_attrs["limit"]]
            )
            study = self.study(sampler=sampler, **place)
            # The limit is known only when one of them has ended.
            for x in (0.25, 0.75):
                study.enqueue_trial({"x": x})
            study.optimize(objective, n_trials=20)
            values = [trial.value for trial in study.trials if trial.value >= 0.5]
            self.assertEqual(study.best_value, min(values))
            self.assertLess(min(trial.value for trial in study.trials), 0.5)
        study._search.close()
        again = optuna.load_study(study_name="s", storage=self.store)
        self.addCleanup(again._search.close)
        self.assertEqual(again.best_value, min(values))

    def test_limits_may_be_set_by_the_objective(self):
        def objective(trial):
            x = trial.suggest_float("x", 0, 1)
            trial.set_constraint("least", 0.5 - x)
            return x, -x

        study = self.study(directions=["minimize", "maximize"])
        for x in (0.25, 0.75):
            study.enqueue_trial({"x": x})
        study.optimize(objective, n_trials=12, n_jobs=3)
        self.assertGreaterEqual(min(trial.values[0] for trial in study.best_trials), 0.5)
        self.assertEqual(study.trials[0].constraints, {"least": 0.25})
        with self.assertRaisesRegex(ValueError, "identifier"):
            study.ask().set_constraint("a b", 1.0)

    def test_a_study_keeps_its_constraints(self):
        constraints = [{"require": "x * n <= 1"}, {"limit": "size <= 3"}]
        space = {"x": {"float": [0, 1]}, "n": {"int": [1, 4]}}
        with hpsearch.study("s", space, constraints=constraints, store=self.store) as search:
            search.ask().tell(0.5, metrics={"size": 1})
        study = optuna.load_study(study_name="s", storage=self.store)
        self.addCleanup(study._search.close)
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1) - trial.suggest_int("n", 1, 4),
                       n_trials=12)
        products = [trial.params["x"] * trial.params["n"] for trial in study.trials]
        self.assertLessEqual(max(products), 1.0)
        # The others have no size.
        self.assertEqual(study.best_trial.number, 0)

    def test_a_grid_has_all_parameters(self):
        study = self.study(sampler=samplers.GridSampler({"x": [0.0, 0.5]}))
        with self.assertRaisesRegex(ValueError, "`y` is not in the grid: it has x"):
            study.optimize(bowl)


if __name__ == "__main__":
    unittest.main()
