"""What the client's tests share: programs in directories of their own, and writers that record."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from typing import Any, Dict, List, Optional

PYTHON = Path(__file__).resolve().parent.parent

#: A writer that keeps what it is asked to write, and says which run it is, if it is still heard.
RECORDER = """\
#!{python}
import contextlib, json, os, sys
words = sys.argv[1:]
spool = words[words.index("--spool") + 1]
with open(os.path.join(os.path.dirname(spool), "starts"), "a") as starts:
    starts.write(str(os.getpid()) + "\\n")
with contextlib.suppress(BrokenPipeError):
    print(json.dumps({{"study": "runs", "trial": 4, "name": "a"}}), flush=True)
while sys.stdin.buffer.read(1):
    pass
os.rename(spool, spool + ".done")
"""


class Case(unittest.TestCase):
    """A test in an empty directory."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name).resolve()

    def environment(self, **variables: str) -> Dict[str, str]:
        kept = ("PATH", "HOME", "LD_LIBRARY_PATH", "HPSEARCH_BINARY")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        return {**environment, "PYTHONPATH": str(PYTHON), **variables}

    def start(
        self, program: str, stdin: Optional[int] = subprocess.DEVNULL, **variables: str
    ) -> "subprocess.Popen[str]":
        """Starts a Python program with the client on its path."""
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            cwd=self.path,
            env=self.environment(**variables),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(_end, process)
        return process

    def run_program(self, program: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Runs a program to its end, which must come with status 0."""
        process = self.start(program, **variables)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + err)
        return subprocess.CompletedProcess(process.args, 0, out, err)

    def recorder(self, text: str = RECORDER) -> str:
        """A program that stands for `hpsearch`."""
        path = self.path / "recorder"
        path.write_text(text.format(python=sys.executable))
        path.chmod(0o755)
        return str(path)

    def spools(self) -> List[List[Dict[str, Any]]]:
        """The lines of each spool, those that the recorder has taken included."""
        found = sorted((self.path / "runs" / "spool").glob("*.jsonl*"))
        return [[json.loads(line) for line in path.read_text().splitlines()] for path in found]


def logged(spool: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The records of a spool, without header, times and end."""
    return [line["line"] for line in spool if "line" in line]


def program() -> Optional[str]:
    """The real `hpsearch`, if the tests were given one."""
    return os.environ.get("HPSEARCH_BINARY")


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            # What was written to a program that has ended is lost.
            with contextlib.suppress(BrokenPipeError):
                stream.close()
