"""Numbers, steps and configurations from what programs have."""

import argparse
import dataclasses
import enum
import fractions
import json
import math
import pathlib
import sys
import unittest

from hpsearch import _media, _messages, _secrets, _values

from .harness import Case


class Zero:
    """An array of one element, as foreign types have."""

    def __float__(self) -> float:
        raise TypeError("only scalars")

    def item(self) -> float:
        return 0.25


class Hostile:
    def __float__(self) -> float:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Values(Case):
    def setUp(self) -> None:
        super().setUp()
        _messages.forget()
        said = []
        self.said = said
        original, _messages.say = _messages.say, said.append
        self.addCleanup(setattr, _messages, "say", original)

    def test_numbers_of_any_kind_are_taken(self) -> None:
        taken = _values.metrics(
            {"a": 1, "b": 0.5, "c": True, "d": fractions.Fraction(1, 4), "e": Zero(), 3: 4.0}
        )
        self.assertEqual(taken, {"a": 1, "b": 0.5, "c": 1.0, "d": 0.25, "e": 0.25, "3": 4.0})
        not_finite = _values.metrics({"nan": math.nan, "inf": -math.inf})
        self.assertTrue(math.isnan(not_finite["nan"]) and not_finite["inf"] == -math.inf)
        self.assertEqual(self.said, [])

    def test_nested_names_are_joined(self) -> None:
        taken = _values.metrics({"train": {"loss": 1.0, "by class": {"a": 2.0}}, "lr": 0.1})
        self.assertEqual(taken, {"train/loss": 1.0, "train/by class/a": 2.0, "lr": 0.1})

    def test_what_is_not_logged_says_what_keeps_it(self) -> None:
        class Figure:
            def savefig(self) -> None:
                """As matplotlib's."""

        values = {"word": "text", "plot": Figure(), "rows": [{"a": 1}], "none": None}
        self.assertEqual(_values.metrics(values), {})
        kept = [text.rpartition("`run.")[2].partition("(")[0] for text in self.said]
        self.assertEqual(kept[:3], ["text", "image", "table"])
        self.assertNotIn("run.", self.said[3])

    def test_a_list_of_dictionaries_is_kept_as_json(self) -> None:
        config = {"layers": [{"n": 1}, {"n": [2, {"m": None}]}], "sizes": [1, 2], "a": {"b": []}}
        flat = {"layers": '[{"n": 1}, {"n": [2, {"m": null}]}]', "sizes": [1, 2], "a.b": []}
        self.assertEqual(_values.plain(config), flat)

    def test_what_is_no_number_is_dropped_with_one_message_a_name(self) -> None:
        odd = {"word": "0.5", "none": None, "huge": 10**400, "own": Hostile(), "loss": 1.0}
        for _ in range(3):
            self.assertEqual(_values.metrics(odd), {"loss": 1.0})
        self.assertEqual(len(self.said), 4, self.said)
        self.assertIn("`word` must be a number, not `'0.5'`", self.said[0])

    def test_names_of_the_protocol_are_no_metrics(self) -> None:
        self.assertEqual(_values.metrics({"checkpoint": 1.0, "hpsearch_end": 2, "a": 3.0}), {"a": 3.0})
        self.assertEqual(len(self.said), 2)

    def test_steps_are_integers(self) -> None:
        self.assertEqual([_values.as_step(step) for step in (0, 7, 3.0, True)], [0, 7, 3, 1])
        for step in (-1, 1.5, "3", None, math.nan, math.inf, 2**60):
            self.assertIsNone(_values.as_step(step), step)
        self.assertEqual(len(self.said), 1)

    def test_configurations_come_in_many_shapes(self) -> None:
        @dataclasses.dataclass
        class Config:
            lr: float = 0.1

        for shape in ({"lr": 0.1}, argparse.Namespace(lr=0.1), Config()):
            self.assertEqual(_values.configuration(shape), {"lr": 0.1})
        self.assertEqual(_values.configuration(None), {})
        with self.assertRaises(TypeError):
            _values.configuration(5)
        nested = {"model": Config(0.2), "args": argparse.Namespace(n=3), "all": [Config(0.3)]}
        self.assertEqual(
            _values.plain(nested), {"model.lr": 0.2, "args.n": 3, "all": '[{"lr": 0.3}]'}
        )

    def test_floats_of_an_image_are_up_to_one_or_up_to_255(self) -> None:
        for rows, line in (([[0.0, 0.5, 1.0]], (0, 128, 255)),
                           ([[0.0, 127.6, 255.0]], (0, 128, 255)),
                           ([[math.nan, -1.0, math.inf]], (0, 0, 255)),
                           ([[0, 1, 300]], (0, 1, 255))):
            self.assertEqual(_media._pixels(rows), (3, 1, [bytes(line)]), rows)

    def test_tables_keep_what_is_no_number_by_its_name(self) -> None:
        table = _media.table([{"a": math.nan, "b": math.inf, "c": None}], None)
        self.assertEqual(table["rows"][0][1:], [math.inf, None])
        self.assertTrue(math.isnan(table["rows"][0][0]))

    def test_configurations_become_flat_json(self) -> None:
        class Kind(enum.Enum):
            A = 1

        plain = _values.plain(
            {"model": {"layers": 2, "empty": {}}, "betas": (0.9, 0.99), "kind": Kind.A, "x": Zero()}
        )
        # As NumPy writes it, not as the nearest float of Python.
        single = type("float32", (), {"__str__": lambda _: "0.1", "item": lambda _: 0.10000000149})
        self.assertEqual(_values.plain({"lr": single(), "seed": 10**30}), {"lr": 0.1, "seed": str(10**30)})
        self.assertEqual(
            plain,
            {
                "model.layers": 2,
                "model.empty": "{}",
                "betas": [0.9, 0.99],
                "kind": str(Kind.A),
                "x": 0.25,
            },
        )
        loop: dict = {}
        loop["again"] = loop
        self.assertEqual(len(_values.plain(loop)), 1)


class Import(Case):
    def test_the_module_needs_nothing_but_the_standard_library(self) -> None:
        done = self.run_program(
            """
            import sys, hpsearch
            # Of a wheel it lies among the packages: they are hidden once it is found.
            sys.path[:] = [path for path in sys.path if "site-packages" not in path]
            import hpsearch._search, hpsearch._tracked, hpsearch._trial
            heavy = {"asyncio", "multiprocessing", "urllib.request", "numpy", "torch"}
            print(sorted(heavy & set(sys.modules)))
            """
        )
        self.assertEqual(done.stdout, "[]\n")

    def test_what_a_search_needs_is_imported_with_the_first_search(self) -> None:
        done = self.run_program(
            """
            import sys, hpsearch
            print("subprocess" in sys.modules, callable(hpsearch.study), "subprocess" in sys.modules)
            """
        )
        self.assertEqual(done.stdout, "False True True\n")


class Secrets(unittest.TestCase):
    def test_names_of_secrets_are_those_of_track(self) -> None:
        for name in ("api_key", "--api-key", "token", "hub_token", "db.password", "auth", "a.PAT"):
            self.assertTrue(_secrets.is_secret(name), name)
        for name in ("max_tokens", "tokenizer", "pad_token", "author", "key", "monkey", "lr"):
            self.assertFalse(_secrets.is_secret(name), name)

    def test_values_of_secrets_are_redacted_and_no_others(self) -> None:
        params = {
            "api_key": "abc", "hub_token": None, "auth": True, "password": 123, "token": ["abc"],
            "tokenizer": "bert", "max_tokens": 5, "url": "https://me@lab:a@b@host:80/x@y",
            "urls": ["redis://:abc@host"], "plain": "https://host:80/x@y", "lr": 0.1,
            "max_token": 5, "auth_weight": 0.30000000000000004, "password_len": 8, "n_token": "12",
            "id_token": 1234567890, "a_token": "1234567890",
        }
        expected = {
            **params, "api_key": "***", "password": "***", "token": "***",
            "url": "https://me@lab:***@host:80/x@y", "urls": ["redis://:***@host"],
            "id_token": "***", "a_token": "***",
        }
        self.assertEqual(_secrets.masked(params), expected)

    def test_secrets_are_those_that_the_program_knows(self) -> None:
        # `track` is tested with the same cases.
        file = pathlib.Path(__file__).with_name("secrets.json")
        cases = json.loads(file.read_text())
        for key, expected in (("secret_names", True), ("plain_names", False)):
            for name in cases[key]:
                self.assertEqual(_secrets.is_secret(name), expected, name)
        for case in cases["commands"]:
            self.assertEqual(_secrets.masked_command(case["words"]), case["masked"])
        for text, redacted in cases["values"]:
            self.assertEqual(_secrets.masked({"x": text}), {"x": redacted})

    def test_secrets_in_a_command_are_redacted(self) -> None:
        line = (
            "train.py --api-key abc --token=def --hub_token ghi 5 --password -7 8 jkl --max_tokens "
            "5 --pad-token x db.password=mno --auth stu vwx lr=1 -- https://me:pqr@host/path"
        )
        masked = (
            "train.py --api-key *** --token=*** --hub_token *** 5 --password *** *** jkl "
            "--max_tokens 5 --pad-token x db.password=*** --auth *** *** lr=1 -- "
            "https://me:***@host/path"
        )
        self.assertEqual(" ".join(_secrets.masked_command(line.split())), masked)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
