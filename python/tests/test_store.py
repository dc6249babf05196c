"""The addresses of stores that programs name."""

import os
import subprocess

import hpsearch
from hpsearch import _store

from .harness import Case

NO_STORES = ["sqlite:///:memory:", "sqlite:///", "sqlite:///a.db?mode=ro", "mysql://u:secret@h/d"]


class Stores(Case):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.path)

    def test_a_file_is_named_by_its_path_or_its_url(self) -> None:
        for address in ["a.db", "sqlite:///a.db", f"sqlite:///{self.path}/a.db"]:
            path, spools = _store.with_spools(address)
            self.assertEqual(path, str(self.path / "a.db"))
            self.assertEqual(spools, str(self.path / "spool"))
        self.assertEqual(_store.with_spools(None)[0], str(self.path / "runs" / "hpsearch.db"))
        self.assertEqual(_store.with_spools("postgres://u@h/d")[0], "postgres://u@h/d")

    def test_other_urls_are_refused_in_the_words_of_the_program(self) -> None:
        program = os.environ.get("HPSEARCH_BINARY")
        for address in NO_STORES:
            with self.assertRaises(ValueError) as raised:
                hpsearch.init(study="s", store=address)
            said = str(raised.exception)
            self.assertNotIn("secret", said)
            self.assertEqual(list(self.path.iterdir()), [])
            if program is not None:
                words = [program, "ls", "--store", address]
                told = subprocess.run(words, stderr=subprocess.PIPE, text=True)
                self.assertEqual(told.stderr.splitlines()[0], f"error: {said}")
