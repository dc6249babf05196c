"""Searches that a program runs itself: their loop, what is enqueued, and programs that share one."""

import math
import unittest

import hpsearch
from hpsearch._binary import output_of

from .harness import Case, program

SPACE = {"x": {"float": [0, 1]}, "kind": ["a", None]}


@unittest.skipUnless(program(), "HPSEARCH_BINARY is not set")
class Searches(Case):
    def test_a_search_runs_its_trials_and_stopped_ones_are_pruned(self) -> None:
        store = str(self.path / "a.db")
        pruner = {"type": "threshold", "upper": 0.5}
        with hpsearch.study("s", SPACE, trials=12, pruner=pruner, store=store) as search:
            for trial in search:
                if trial.report(1, trial.params["x"]):
                    trial.tell(trial.params["x"])
            best = search.best()
        rows = hpsearch.trials("s", store=store)
        self.assertEqual(len(rows), 12)
        for row in rows:
            state = "pruned" if row["params_x"] > 0.5 else "complete"
            self.assertEqual(row["state"], state, row)
        self.assertEqual(best["value"], min(row["params_x"] for row in rows))

    def test_metrics_and_curves_are_read(self) -> None:
        store = str(self.path / "a.db")
        with hpsearch.study("s", SPACE, trials=3, pruner="none", store=store) as search:
            trial = search.ask()
            self.assertEqual(hpsearch.series("s", store=store), [])
            for step, value in ((1, 0.5), (2, math.nan), (3, -math.inf)):
                trial.report(step, value)
            trial.tell(0.25, metrics={"acc": 0.75})
            search.ask().tell(0.5)
            search.ask()
        first, second, third = hpsearch.trials("s", store=store)
        self.assertEqual((first["value"], first["metrics_acc"]), (0.25, 0.75))
        self.assertEqual(first["metrics_value"], -math.inf)
        self.assertLess(first["started"], first["finished"])
        self.assertNotIn("metrics_acc", second)
        self.assertEqual(third["finished"], None)
        rows = hpsearch.trials("s", store=store, where="value>0.3")
        self.assertEqual([row["number"] for row in rows], [1])
        points = hpsearch.series("s", store, where="number=0")
        curve = [(row["step"], row["value"]) for row in points if row["metric"] == "value"]
        self.assertEqual(repr(curve), "[(1, 0.5), (2, nan), (3, -inf)]")
        self.assertEqual({row["trial"] for row in points}, {0})
        with self.assertRaisesRegex(hpsearch.HpsearchError, "where"):
            hpsearch.series("s", store, where="(")

    def test_an_exception_in_the_loop_fails_its_trial_and_an_interrupt_does_not(self) -> None:
        store = str(self.path / "a.db")

        def run(error: BaseException) -> None:
            with hpsearch.study("s", SPACE, trials=5, store=store) as search:
                for trial in search:
                    if trial.number == 1:
                        raise error
                    trial.tell(trial.params["x"])

        with self.assertRaises(KeyboardInterrupt):
            run(KeyboardInterrupt())
        states = {row["number"]: row["state"] for row in hpsearch.trials("s", store=store)}
        self.assertEqual(states, {0: "complete", 1: "queued"})
        with self.assertRaisesRegex(ValueError, "boom"):
            run(ValueError("boom"))
        row = next(row for row in hpsearch.trials("s", store=store) if row["number"] == 1)
        self.assertEqual((row["state"], row["reason"]), ("failed", "ValueError: boom"))

    def test_a_trial_that_a_loop_was_left_with_is_given_again_by_the_next_one(self) -> None:
        store = str(self.path / "a.db")
        for name in ("s", None):
            search = hpsearch.study(name, SPACE, trials=4, store=store if name else None)
            with self.assertRaises(KeyboardInterrupt):
                for trial in search:
                    if trial.number == 1:
                        trial.report(1, 100.0)
                        trial.report(2, 100.0)
                        raise KeyboardInterrupt
                    trial.tell(0.5)
            left, numbers = trial, []
            for trial in search:
                numbers.append(trial.number)
                if trial.number == 1:
                    self.assertEqual((trial.is_resumed, trial.params), (True, left.params))
                    trial.report(1, 0.25)
                trial.tell(0.25)
                if trial.number == 2:
                    break
            # What was told is over.
            numbers += [trial.number for trial in search if trial.tell(0.75) is None]
            self.assertEqual(numbers, [1, 2, 3])
            if name is not None:
                points = hpsearch.series(name, store, where="number=1")
                self.assertEqual([(row["step"], row["value"]) for row in points], [(1, 0.25)])
                output_of(["verify"], store, [name])
            search.close()

    def test_a_cell_that_begins_the_search_again_gets_what_the_one_before_has_left(self) -> None:
        store = str(self.path / "a.db")
        first = hpsearch.study("s", SPACE, trials=3, store=store)
        self.addCleanup(first.close)
        for trial in first:
            if trial.number == 1:
                break
            trial.tell(0.5)
        # `trial` keeps the first one alive.
        with hpsearch.study("s", SPACE, trials=3, store=store) as second:
            self.assertEqual([one["id"] for one in second.open], [1])
            numbers = []
            for again in second:
                numbers.append(again.number)
                again.tell(0.25)
            self.assertEqual(numbers, [1, 2])
        with self.assertRaisesRegex(hpsearch.HpsearchError, "complete"):
            trial.tell(0.75)

    def test_a_trial_that_is_killed_has_failed_whatever_it_is_told(self) -> None:
        store = str(self.path / "a.db")
        with hpsearch.study("s", SPACE, trials=2, store=store) as search:
            trial = search.ask()
            output_of(["kill", "s", "0"], store)
            with self.assertWarnsRegex(UserWarning, "trial 0 was killed: it counts as failed"):
                trial.tell(0.5)
        self.assertEqual([row["state"] for row in hpsearch.trials("s", store)], ["failed"])

    def test_an_objective_without_a_value_fails_its_trial_and_one_that_ended_it_is_not_told(self):
        with hpsearch.study(space=SPACE, trials=5) as search:
            def objective(trial):
                if trial.number == 1:
                    return trial.prune()
                if trial.number == 2:
                    return trial.fail("no")
                if trial.number == 3:
                    return trial.tell(0.25)
                return None if trial.number == 0 else 0.5

            with self.assertWarnsRegex(UserWarning, "trial 0 has failed: .* number, not None"):
                search.optimize(objective)
            states = [trial["state"] for trial in search._say({"cmd": "trials"})["trials"]]
            self.assertEqual(states, ["failed", "pruned", "failed", "complete", "complete"])
            self.assertEqual(search.best()["value"], 0.25)
        with hpsearch.study(space=SPACE, trials=1) as search:
            with self.assertRaisesRegex(hpsearch.HpsearchError, "2 values"):
                search.optimize(lambda trial: [1, 2])
            states = [trial["state"] for trial in search._say({"cmd": "trials"})["trials"]]
            self.assertEqual(states, ["failed"])

    def test_a_tuple_of_two_numbers_is_neither_a_range_nor_two_choices(self) -> None:
        for pair, written in (((0, 1), r'"int": \[0, 1\]'), ((1e-5, 1), r'"float": \[1e-05, 1\]')):
            with self.assertRaisesRegex(ValueError, f"`lr` is a tuple of two .* {{{written}}}"):
                hpsearch.study(space={"lr": pair})
        with hpsearch.study(space={"a": ("x", "y"), "b": (1, 2, 3), "c": [0, 1]}) as search:
            params = next(iter(search)).params
        self.assertIn(params["a"], ("x", "y"))
        self.assertIn(params["b"], (1, 2, 3))
        self.assertIn(params["c"], (0, 1))

    def test_directions_have_short_forms(self) -> None:
        with hpsearch.study(space=SPACE, direction="max", trials=8) as search:
            search.optimize(lambda trial: trial.params["x"])
            best = search.best()
            self.assertGreater(best["value"], 0.5)
        with hpsearch.study(space=SPACE, directions=["min", "maximize"], trials=1) as search:
            search.optimize(lambda trial: [trial.params["x"], 1])
        with self.assertRaisesRegex(ValueError, '"minimize" or "maximize", not \'up\''):
            hpsearch.study(space=SPACE, direction="up")

    def test_modules_and_what_is_loaded_late_are_listed(self) -> None:
        self.assertLessEqual({"integrations", "optuna", "study", "log"}, set(dir(hpsearch)))
        self.assertTrue(callable(hpsearch.optuna.create_study))

    def test_what_is_enqueued_is_run_first_and_what_it_lacks_is_sampled(self) -> None:
        with hpsearch.study(space=SPACE, trials=3) as search:
            search.enqueue({"x": 0.25, "kind": None})
            search.enqueue({"x": 0.5})
            with self.assertRaisesRegex(hpsearch.HpsearchError, "`2` is not a value of `x`"):
                search.enqueue({"x": 2})
            trials = list(search)
        self.assertEqual([trial.params["x"] for trial in trials[:2]], [0.25, 0.5])
        self.assertIsNone(trials[0].params["kind"])
        self.assertIn(trials[1].params["kind"], ("a", None))

    def test_a_trial_of_a_program_that_is_killed_goes_to_one_that_shares_the_study(self) -> None:
        words = f"""
            import hpsearch, sys
            search = hpsearch.study("s", {SPACE!r}, trials=10_000, store="a.db")
            """
        first = self.start(words + "trial = search.ask(); print(trial.params['x'], flush=True)\n"
                           + "            sys.stdin.read()", stdin=-1)
        assert first.stdout is not None
        x = float(first.stdout.readline())
        second = self.start(words + """
            mine = search.ask()
            mine.report(1, 0.5)
            print(mine.number, flush=True)
            sys.stdin.readline()
            mine.report(2, 0.5)
            found = None
            while found is None:
                trial = search.ask()
                found = trial if trial.is_resumed else trial.tell(1.0)
            found.tell(0.0)
            mine.tell(0.25)
            print(found.number, found.params['x'])
            """, stdin=-1)
        assert second.stdout is not None
        self.assertEqual(second.stdout.readline(), "1\n")
        first.kill()
        first.wait()
        out, err = second.communicate("\n", timeout=60)
        self.assertEqual(out.split(), ["0", repr(x)], err)
        values = {row["number"]: row["value"] for row in
                  hpsearch.trials("s", store=str(self.path / "a.db"))}
        self.assertEqual((values[0], values[1]), (0.0, 0.25))

    def test_a_program_that_means_another_search_is_told_how_it_differs(self) -> None:
        store = str(self.path / "a.db")
        with hpsearch.study("s", SPACE, store=store):
            for other in ({"direction": "maximize"}, {"seed": 4}, {"sampler": "random"}):
                with self.assertRaisesRegex(hpsearch.HpsearchError, "as another search") as raised:
                    hpsearch.study("s", SPACE, store=store, **other)
                self.assertIn(next(iter(other)), str(raised.exception))
                self.assertIn("give `accept=True`", str(raised.exception))

    def test_a_search_that_is_begun_again_as_another_takes_the_place_of_the_first(self) -> None:
        store = str(self.path / "a.db")
        first = hpsearch.study("s", SPACE, store=store, trials=2)
        first.ask().tell(1.0)
        other = {"store": store, "trials": 3, "sampler": "random", "accept": True}

        def begins(trial: hpsearch.AskedTrial) -> float:
            with self.assertRaisesRegex(hpsearch.HpsearchError, "`optimize` must end before"):
                hpsearch.study("s", SPACE, **other)
            return 0.5

        first.optimize(begins)
        with hpsearch.study("s", SPACE, **other) as second:
            second.optimize(lambda trial: 0.25)
            with self.assertRaisesRegex(hpsearch.HpsearchError, "the search is closed"):
                first.ask()
        origins = [row["origin"] for row in sorted(hpsearch.trials("s", store=store),
                                                   key=lambda row: row["number"])]
        self.assertEqual(origins[2:], ["random"])

    def test_another_number_of_trials_takes_the_place_of_the_first_search(self) -> None:
        store = str(self.path / "a.db")
        first = hpsearch.study("s", SPACE, store=store, trials=2)
        first.ask()
        second = hpsearch.study("s", SPACE, store=store, trials=3)
        self.assertEqual([one["id"] for one in second.open], [0])
        with self.assertRaisesRegex(hpsearch.HpsearchError, "the search is closed"):
            first.ask()
        # This one shares the second's study.
        peer = hpsearch.study("s", SPACE, store=store, trials=3)
        with hpsearch.study("s", SPACE, store=store) as third:
            for trial in third:
                trial.tell(0.5)
                if trial.number == 4:
                    break
        for search in (second, peer):
            with self.assertRaisesRegex(hpsearch.HpsearchError, "the search is closed"):
                search.ask()
        with hpsearch.study("s", SPACE, store=store, trials=3):
            with self.assertRaisesRegex(hpsearch.HpsearchError, "give `accept=True`"):
                hpsearch.study("s", SPACE, store=store, trials=4, seed=4)

    def test_a_change_that_is_accepted_changes_the_study(self) -> None:
        store = str(self.path / "a.db")
        with hpsearch.study("s", SPACE, trials=1, store=store) as search:
            search.ask().tell(1.0)
        wider = {**SPACE, "more": ["a", "b"]}
        with self.assertRaises(hpsearch.HpsearchError):
            hpsearch.study("s", wider, trials=2, store=store)
        with hpsearch.study("s", wider, trials=2, store=store, accept=True) as search:
            self.assertIn(search.ask().params["more"], ("a", "b"))

    def test_an_answer_that_ctrl_c_kept_from_being_read_is_skipped(self):
        class Interrupted:
            def __init__(self, stream, reads):
                self._stream, self._reads = stream, reads

            def readline(self):
                if self._reads:
                    self._stream.readline()
                self._reads = None
                raise KeyboardInterrupt

            def __getattr__(self, name):
                return getattr(self._stream, name)

        with hpsearch.study(space={"x": {"float": [0, 1]}}, trials=9) as search:
            stream = search._process.stdout
            for reads in (False, True):
                first = search.ask()
                search._process.stdout = Interrupted(stream, reads)
                with self.assertRaises(KeyboardInterrupt):
                    first.report(1, 0.5)
                search._process.stdout = stream
                second = search.ask()
                self.assertGreater(second.number, first.number)
                second.tell(0.25)
                first.tell(0.5)
                self.assertEqual(search.best()["value"], 0.25)
            # The trial of an answer that was not read is given again.
            search._process.stdout = Interrupted(stream, False)
            with self.assertRaises(KeyboardInterrupt):
                search.ask()
            search._process.stdout = stream
            lost = search.ask()
            self.assertEqual((lost.number, lost.is_resumed), (second.number + 1, True))


if __name__ == "__main__":
    unittest.main()
