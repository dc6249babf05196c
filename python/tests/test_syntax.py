"""The client's sources are Python 3.9, whichever Python runs the tests."""

import ast
import unittest
from pathlib import Path

import hpsearch


class Syntax(unittest.TestCase):
    def test_every_file_is_python_3_9(self) -> None:
        files = sorted(Path(hpsearch.__file__).parent.rglob("*.py"))
        self.assertGreater(len(files), 20)
        for path in files:
            ast.parse(path.read_text(), filename=str(path), feature_version=(3, 9))

    def test_later_syntax_would_be_seen(self) -> None:
        with self.assertRaises(SyntaxError):
            ast.parse("match 1:\n    case 1:\n        pass", feature_version=(3, 9))


if __name__ == "__main__":
    unittest.main()
