"""A run by itself: what lies in the spool whatever happens to the program, the writer, the disk."""

import json
import os
import signal
import subprocess
import time
import unittest
from typing import Any

from .harness import RECORDER, Case, logged
from .waiting import wait_for

#: A writer that dies at once, and leaves a mark each time.
DIES = """\
#!{python}
import os, sys
spool = sys.argv[sys.argv.index("--spool") + 1]
with open(os.path.join(os.path.dirname(spool), "starts"), "a") as starts:
    starts.write("x\\n")
os._exit({status})
"""

#: A writer that does not end.
HANGS = """\
#!{python}
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""


class Tracked(Case):
    def test_a_run_is_a_spool_of_lines(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            with hpsearch.init("digits", "a", {"lr": 0.1, "m": {"n": 2}}, tags=["x"]) as run:
                for step in range(3):
                    run.log({"loss": 1 / (step + 1)}, step=step)
                run.log({"loss": float("nan")})
                run.summary({"best": 0.5})
                run.artifact("nowhere/file.txt")
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        head, last = spool[0], spool[-1]
        self.assertEqual((head["spool"], head["study"], head["name"]), (1, "digits", "a"))
        self.assertEqual((head["params"], head["tags"]), ({"lr": 0.1, "m.n": 2}, ["x"]))
        steps = [(line.get("step"), str(line.get("loss"))) for line in logged(spool)[:4]]
        self.assertEqual(steps, [(0, "1.0"), (1, "0.5"), (2, str(1 / 3)), (None, "nan")])
        self.assertEqual(
            logged(spool)[4:],
            [
                {"summary": {"best": 0.5}},
                # The step that the last `log` was counted at.
                {"artifact": "nowhere/file.txt", "name": "file.txt"},
            ],
        )
        self.assertEqual((last["finish"], last["message"]), ("complete", None))
        times = [line["time"] for line in spool]
        self.assertEqual(times, sorted(times))
        self.assertEqual(done.stderr, "hpsearch: run 4 (`a`) of study `runs`\n")

    def test_files_are_copied_at_the_call_beside_the_spool(self) -> None:
        self.run_program(
            """
            import hpsearch, os, pathlib
            with hpsearch.init() as run:
                file, folder = pathlib.Path("a.csv"), pathlib.Path("folder")
                file.write_text("first")
                (folder / "in").mkdir(parents=True)
                (folder / "in" / "b").symlink_to("../c")
                (folder / "c").write_text("first")
                run.artifact(file, step=3)
                run.artifact(folder, copy=True)
                run.image("i", file)
                run.artifact(file, name="named", copy=False)
                run.artifact("/dev/null")
                file.write_text("second")
                (folder / "c").unlink()
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        file, folder, image, *named = logged(spool)
        spools = self.path / "runs" / "spool"
        for line, kind, name in ((file, "artifact", "a.csv"), (image, "image", "i")):
            self.assertEqual((spools / line.pop(kind)).read_text(), "first")
            step = {"step": 3} if line is file else {}
            of = str(self.path / "a.csv")
            self.assertEqual(line, {"name": name, "moved": True, "of": of, **step})
        copy = spools / folder["artifact"]
        self.assertEqual((copy.parent.stat().st_mode & 0o777, "copy" in folder), (0o700, False))
        self.assertEqual([(copy / name).read_text() for name in ("in/b", "c")], ["first"] * 2)
        paths = [str(self.path / "a.csv"), "/dev/null"]
        self.assertEqual([line["artifact"] for line in named], paths)
        self.assertTrue(all("moved" not in line for line in named))

    def test_a_long_text_is_cut_which_is_said_once(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            with hpsearch.init() as run:
                run.text("short", "a" * 65536)
                for _ in range(2):
                    run.text("long", "\u00e9" * 35000)
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        texts = [line["text"] for line in logged(spool)]
        self.assertEqual([len(text.get("long", "")) for text in texts], [0, 32768, 32768])
        self.assertEqual(done.stderr.count("`long` has 70000 bytes; the first 64 KiB"), 1)
        self.assertNotIn("short", done.stderr)

    def test_what_cannot_be_copied_is_said_and_the_program_continues(self) -> None:
        done = self.run_program(
            """
            import collections, hpsearch, os, shutil
            from hpsearch import _copies
            with hpsearch.init() as run:
                with open("a", "w") as file:
                    file.write("ten bytes.")
                _copies.COPIED_UP_TO = 9
                run.artifact("a", name="large")
                run.artifact("a", name="asked for", copy=True)
                shutil.disk_usage = lambda path: collections.namedtuple("Usage", "free")(19)
                run.artifact("a", name="full", copy=True)
                def changes(source, target, size):
                    os.utime("a", ns=(0, size))
                    return 0
                shutil.disk_usage = lambda path: collections.namedtuple("Usage", "free")(20)
                os.copy_file_range = changes
                run.artifact("a", name="changes", copy=True)
                run.log({"loss": 1})
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertIn("the artifact `full` is not kept: ", done.stderr)
        self.assertIn("it has 10 bytes, and only 19 are free", done.stderr)
        self.assertIn("it was written to while it was copied", done.stderr)
        (spool,) = self.spools()
        large, asked, last = logged(spool)
        self.assertEqual(large, {"artifact": str(self.path / "a"), "name": "large"})
        self.assertEqual((asked["moved"], last), (True, {"loss": 1}))
        (directory,) = (self.path / "runs" / "spool").glob("*.files")
        self.assertEqual(len(list(directory.iterdir())), 1)

    def test_each_artifact_that_is_not_kept_is_named_once_for_each_failure(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            with hpsearch.init() as run:
                for _ in range(2):
                    run.table("bad", 5)
                    run.table("rows", [{"a": row} for row in range(10_001)])
                    run.table("rows", ["a", "b"], [[1]])
                    run.table("long", ["text"], [["x" * 270_000]])
                    run.image("bad", object())
                    run.image("channels", [[[0] * 8] * 8] * 3)
                for index in range(30):
                    run.image(f"many-{index}", object())
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        said = [line.partition("is not kept: ") for line in done.stderr.splitlines()]
        names = [before[len("hpsearch: the ") : -1] for before, between, _ in said if between]
        many = [f"image `many-{index}`" for index in range(19)]
        self.assertEqual(names, ["table `bad`", "table `rows`", "table `rows`", "table `long`",
                                 "image `bad`", "image `channels`", *many])
        for why in ("at most 10000 rows", "row 0 has 1 cells, not 2",
                    "it takes 270034 bytes, and at most 256 KiB are kept",
                    "its channels come first", "further names are not listed"):
            self.assertEqual(done.stderr.count(why), 1, done.stderr)

    def test_a_run_that_has_ended_says_so_in_each_cell_and_is_no_context(self) -> None:
        done = self.run_program(
            """
            import hpsearch, sys, types
            shell = types.SimpleNamespace(execution_count=1)
            run = hpsearch.init()
            run.finish()
            run.log({"loss": 1.0})
            sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
            for cell in (1, 2):
                shell.execution_count = cell
                for _ in range(3):
                    run.log({"loss": 1.0})
            try:
                with run:
                    print("entered")
            except hpsearch.HpsearchError as error:
                print(error)
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertEqual(done.stderr.count("`log` after the run has ended"), 3, done.stderr)
        self.assertEqual(done.stdout, "the run has ended: `hpsearch.init` begins another\n")

    def test_names_in_messages_control_no_terminal(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            hpsearch.init(name="a\\nb\\x1b\\u202e").finish()
            """,
            HPSEARCH_BINARY=self.recorder(RECORDER.replace('"a"}', '"c\\nd\\x1b\\u202e\\u00e9"}')),
        )
        self.assertEqual(done.stderr, "hpsearch: run 4 (`c d  \u00e9`) of study `runs`\n")
        done = self.run_program(
            """
            import hpsearch
            hpsearch.init(name="a\\nb").finish()
            """,
            HPSEARCH_BINARY=self.recorder(RECORDER.replace('"name": "a"', '"name": None')),
        )
        self.assertEqual(done.stderr, "hpsearch: run 4 of study `runs`\n")

    def test_what_is_set_in_a_configuration_is_recorded(self) -> None:
        self.run_program(
            """
            import copy, hpsearch, json
            with hpsearch.init(config={"a": 1}) as run:
                run.config["b"] = 2
                run.config.update({"c": 3}, d=4)
                run.config.e = 5
                run.params |= {"f": 6}
                assert run.config.setdefault("a", 7) == 1 and not hasattr(run.config, "g")
                copy.deepcopy(run.config)["h"] = 8
                assert json.dumps(run.config) == json.dumps(dict(zip("abcdef", range(1, 7))))
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        recorded = [line["params"] for line in logged(spool)]
        self.assertEqual(recorded, [{"b": 2}, {"c": 3, "d": 4}, {"e": 5}, {"f": 6}])

    def test_how_a_program_ends_is_how_its_run_ends(self) -> None:
        endings = {
            "raise ValueError('no')": ("failed", "ValueError: no"),
            "raise KeyboardInterrupt": ("interrupted", "KeyboardInterrupt"),
            "sys.exit(3)": ("failed", "exit status 3"),
            "sys.exit()": ("complete", None),
            "pass": ("complete", None),
            "run.finish('failed', 'diverged')": ("failed", "diverged"),
            "run.finish('odd')": ("failed", None),
        }
        for end, expected in endings.items():
            for way in ("with hpsearch.init() as run: {}", "run = hpsearch.init(); {}"):
                process = self.start(
                    f"import hpsearch, sys\n{way.format(end)}",
                    HPSEARCH_BINARY=self.recorder(),
                    HPSEARCH_STORE=f"{self.path}/runs/db",
                )
                process.communicate(timeout=60)
                (spool,) = self.spools()
                self.assertEqual((spool[-1]["finish"], spool[-1]["message"]), expected, end)
                for path in (self.path / "runs" / "spool").iterdir():
                    path.unlink()

    def test_what_was_logged_before_the_last_second_survives_kill_9(self) -> None:
        process = self.start(
            """
            import hpsearch, time
            run = hpsearch.init(config={"lr": 1})
            for step in range(1000):
                run.log({"loss": step}, step=step)
            print("logged", flush=True)
            time.sleep(60)
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        assert process.stdout is not None
        process.stdout.readline()
        wait_for(lambda: len(logged(self.spools()[0])) == 1000)
        process.kill()
        process.wait()
        # The writer hears that the program is gone.
        wait_for(lambda: bool(list((self.path / "runs" / "spool").glob("*.done"))))
        (spool,) = self.spools()
        self.assertEqual(len(logged(spool)), 1000)
        self.assertNotIn("finish", spool[-1])

    def test_a_loop_that_does_nothing_but_log_loses_the_last_second_at_most(self) -> None:
        process = self.start(
            """
            import hpsearch, os, time
            run = hpsearch.init()
            begun = time.monotonic()
            while time.monotonic() - begun < 3:
                run.log({"age": time.monotonic() - begun, "loss": 1.0})
            os.kill(os.getpid(), 9)
            """,
            HPSEARCH_BINARY="/nowhere/hpsearch",
        )
        process.communicate(timeout=60)
        (spool,) = (self.path / "runs" / "spool").iterdir()
        # The last line may be cut; on a busy machine, the write itself takes time.
        last = json.loads(spool.read_text().splitlines()[-2])
        self.assertGreater(last["line"]["age"], 1.0)

    def test_a_slow_write_slows_logging_down_for_a_moment_only(self) -> None:
        done = self.run_program(
            """
            import hpsearch, os, time
            write, pauses = os.write, [1.0, 1.0, 1.0]
            def slow(descriptor, data):
                if b'"line"' in data and pauses:
                    time.sleep(pauses.pop())
                return write(descriptor, data)
            run = hpsearch.init()
            os.write = slow
            for step in range(20_000):
                run.log({"loss": 1.0}, step=step)
            print(run._spool.room > 1024)
            run.finish()
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertEqual(done.stdout, "True\n")
        (spool,) = self.spools()
        self.assertEqual(len(logged(spool)), 20_000)

    def test_finish_writes_all_that_a_loop_has_logged(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            run = hpsearch.init()
            for step in range(100_000):
                run.log({"loss": 1.0}, step=step)
            run.finish()
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        self.assertEqual([line["step"] for line in logged(spool)], list(range(100_000)))
        self.assertEqual(spool[-1]["finish"], "complete")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_write_that_does_not_return_delays_no_program_and_loses_nothing(self) -> None:
        done = self.run_program(
            """
            import hpsearch, os, threading, time
            from hpsearch import _spool
            _spool.PATIENCE = 0.2
            write, hangs, returns = os.write, threading.Event(), threading.Event()
            def slow(descriptor, data):
                if b'"line"' in data:
                    hangs.set()
                    returns.wait(60)
                return write(descriptor, data)
            run = hpsearch.init()
            os.write = slow
            run.log({"loss": 0}, step=0)
            hangs.wait(60)
            begun = time.monotonic()
            for step in range(1, 10_000):
                run.log({"loss": step}, step=step)
            run.finish()
            print(time.monotonic() - begun < 20, flush=True)
            returns.set()
            run._spool._thread.join(60)
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertEqual(done.stdout, "True\n")
        self.assertEqual(done.stderr.count("is still being written"), 1, done.stderr)
        wait_for(lambda: bool(list((self.path / "runs" / "spool").glob("*.done"))))
        (spool,) = self.spools()
        self.assertEqual([line["step"] for line in logged(spool)], list(range(10_000)))
        self.assertEqual(spool[-1]["finish"], "complete")

    def test_no_secret_is_in_a_spool(self) -> None:
        done = self.run_program(
            """
            import argparse, hpsearch, sys
            sys.argv = ["train.py", "--api-key", "hunter2", "--lr", "0.1"]
            config = argparse.Namespace(api_key="hunter2", lr=0.1, db={"password": "hunter2"})
            with hpsearch.init(config=config) as run:
                run.config["hub_token"] = "hunter2"
                print(run.params["api_key"])
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertEqual(done.stdout, "hunter2\n")
        (spool,) = self.spools()
        self.assertEqual(spool[0]["params"], {"api_key": "***", "lr": 0.1, "db.password": "***"})
        self.assertEqual(spool[0]["argv"], ["train.py", "--api-key", "***", "--lr", "0.1"])
        self.assertEqual(logged(spool), [{"params": {"hub_token": "***"}}])
        self.assertNotIn("hunter2", json.dumps(spool))

    def test_a_spool_is_for_the_eyes_of_its_user(self) -> None:
        self.run_program(
            "import hpsearch, os\nos.umask(0)\nhpsearch.init()", HPSEARCH_BINARY=self.recorder()
        )
        (spool,) = (self.path / "runs" / "spool").glob("*.done")
        self.assertEqual(spool.stat().st_mode & 0o777, 0o600)

    def test_a_writer_that_is_killed_is_started_again(self) -> None:
        process = self.start(
            """
            import hpsearch, sys
            with hpsearch.init() as run:
                for line in sys.stdin:
                    run.log({"loss": 1.0})
            """,
            stdin=subprocess.PIPE,
            HPSEARCH_BINARY=self.recorder(),
        )
        starts = self.path / "runs" / "spool" / "starts"
        for count in (1, 2):
            wait_for(lambda: starts.exists() and starts.read_text().count("\n") >= count)
            os.kill(int(starts.read_text().split()[-1]), signal.SIGKILL)
        wait_for(lambda: starts.read_text().count("\n") >= 3)
        process.communicate("\n", timeout=60)
        (spool,) = self.spools()
        self.assertEqual((len(logged(spool)), spool[-1]["finish"]), (1, "complete"))

    def test_a_writer_that_refuses_is_not_started_again(self) -> None:
        self.recorder(DIES.replace("{status}", "2"))
        self.run_program(
            """
            import hpsearch
            from hpsearch import _spool, _writer
            from tests.waiting import wait_for, wait_for_text
            _spool.INTERVAL, _writer.PAUSES = 0.05, (0.01,)
            run = hpsearch.init()
            wait_for(lambda: run._writer.status is not None)
            # Each line is written in a turn of the spool, which then looks after the writer.
            for step in range(5):
                run.log({"loss": 1.0}, step=step)
                wait_for_text(run._spool.path, f'"step":{step}')
            """,
            HPSEARCH_BINARY=str(self.path / "recorder"),
        )
        self.assertEqual((self.path / "runs" / "spool" / "starts").read_text(), "x\n")

    def test_finish_does_not_wait_for_a_writer_that_hangs(self) -> None:
        program = """
            import hpsearch, time
            import hpsearch._tracked
            hpsearch._tracked.PATIENCE = 0.5
            run = hpsearch.init()
            run.log({"loss": 1.0})
            begun = time.monotonic()
            run.finish()
            print(time.monotonic() - begun < 3)
            """
        done = self.run_program(program, HPSEARCH_BINARY=self.recorder(HANGS))
        self.assertEqual(done.stdout, "True\n")
        self.assertIn("the rest is in", done.stderr)
        (spool,) = self.spools()
        self.assertEqual((len(logged(spool)), spool[-1]["finish"]), (1, "complete"))

    def test_without_the_program_the_spool_keeps_all(self) -> None:
        for binary in ("/nowhere/hpsearch", str(self.path)):
            done = self.run_program(
                "import hpsearch\nhpsearch.init()\nhpsearch.log({'a': 1})", HPSEARCH_BINARY=binary
            )
            self.assertIn("HPSEARCH_BINARY names", done.stderr)
        self.assertEqual([len(logged(spool)) for spool in self.spools()], [1, 1])

    def test_a_place_that_cannot_be_written_ends_no_training(self) -> None:
        (self.path / "file").write_text("")
        done = self.run_program(
            """
            import hpsearch
            run = hpsearch.init(config={"lr": 1}, store="file/hpsearch.db")
            run.log({"a": 1})
            run.finish()
            print(run.params)
            """
        )
        self.assertEqual(done.stdout, "{'lr': 1}\n")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_full_disk_is_said_once_and_tried_again(self) -> None:
        done = self.run_program(
            """
            import errno, hpsearch, os
            from hpsearch import _spool
            from tests.waiting import wait_for
            _spool.INTERVAL, _spool.PAUSE = 0.05, 0.1
            write, full, failures = os.write, [True], []
            def limited(descriptor, data):
                if full[0] and b'"line"' in data:
                    if len(data) > 10:
                        # A few bytes fit.
                        return write(descriptor, data[:10]) if len(data) % 7 == 0 else _fail()
                    return _fail()
                return write(descriptor, data)
            def _fail():
                failures.append(errno.ENOSPC)
                raise OSError(errno.ENOSPC, "full")
            run = hpsearch.init()
            os.write = limited
            for step in range(50):
                run.log({"loss": step}, step=step)
            wait_for(lambda: len(failures) >= 4)
            full[0] = False
            run.log({"loss": 50}, step=50)
            run.finish()
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertEqual(done.stderr.count("No space left on device"), 1, done.stderr)
        (spool,) = self.spools()
        self.assertEqual([line["step"] for line in logged(spool)], list(range(51)))

    def test_a_disk_that_stays_full_fails_nothing(self) -> None:
        done = self.run_program(
            """
            import hpsearch, resource, signal
            run = hpsearch.init()
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
            for step in range(100):
                run.log({"loss": step, "name": step}, step=step)
            run.finish()
            print("end")
            """,
            HPSEARCH_BINARY="/nowhere/hpsearch",
        )
        self.assertEqual(done.stdout, "end\n")
        self.assertRegex(
            done.stderr, r"the end of this run could not be written .*: \d+ lines are lost"
        )

    def test_a_second_init_ends_the_first_run(self) -> None:
        self.run_program(
            """
            import hpsearch
            for name in ("a", "b"):
                run = hpsearch.init(name=name)
                run.log({"loss": 1.0})
            first = run
            hpsearch.finish()
            first.log({"loss": 2.0})
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        spools = self.spools()
        ends = sorted((spool[0]["name"], spool[-1]["finish"], len(spool)) for spool in spools)
        self.assertEqual(ends, [("a", "complete", 3), ("b", "complete", 3)])

    def ends(self) -> "dict[str, Any]":
        """How the runs ended, and what was logged, by their names."""
        return {spool[0]["name"]: (spool[-1].get("finish"), logged(spool))
                for spool in self.spools()}

    def test_a_run_stays_open_while_its_parts_run(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            parent = hpsearch.init(name="cv")
            for fold in range(2):
                run = hpsearch.init(name=f"fold-{fold}", parent="cv")
                assert parent.number is not None, "its parent is stored before"
                run.log({"loss": fold})
            hpsearch.log({"loss": 2.0})
            parent.log({"mean": 0.5})
            last = hpsearch.init(name="last", parent=parent.number)
            print([hpsearch._init.current() is last, run._is_open, parent._is_open])
            last.finish()
            hpsearch.summary({"mean": 0.5})
            hpsearch.init(name="other")
            parent.log({"late": 1.0})
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertEqual(done.stdout, "[True, False, True]\n", done.stderr)
        self.assertEqual(self.ends(), {
            "cv": ("complete", [{"mean": 0.5}, {"summary": {"mean": 0.5}}]),
            "fold-0": ("complete", [{"loss": 0.0}]),
            "fold-1": ("complete", [{"loss": 1.0}, {"loss": 2.0}]),
            "last": ("complete", []),
            "other": ("complete", []),
        })

    def test_a_run_in_a_with_block_or_of_another_thread_stays_open(self) -> None:
        self.run_program(
            """
            import hpsearch, threading

            plain = hpsearch.init(name="plain")

            def train():
                with hpsearch.init(name="thread") as run:
                    hpsearch.log({"loss": 1.0})
                    begun.set()
                    ended.wait(30)
                    hpsearch.log({"loss": 2.0})

            begun, ended = threading.Event(), threading.Event()
            thread = threading.Thread(target=train)
            thread.start()
            begun.wait(30)
            hpsearch.log({"loss": 3.0})
            with hpsearch.init(name="outer") as outer:
                with hpsearch.init(name="inner"):
                    hpsearch.log({"loss": 4.0})
                hpsearch.log({"loss": 5.0})
            ended.set()
            thread.join()
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertEqual(self.ends(), {
            "plain": ("complete", [{"loss": 3.0}]),
            "thread": ("complete", [{"loss": 1.0}, {"loss": 2.0}]),
            "outer": ("complete", [{"loss": 5.0}]),
            "inner": ("complete", [{"loss": 4.0}]),
        })

    def test_all_open_runs_end_with_the_program(self) -> None:
        process = self.start(
            """
            import hpsearch, threading
            hpsearch.init(name="a")
            thread = threading.Thread(target=hpsearch.init, kwargs={"name": "b"})
            thread.start()
            thread.join()
            raise ValueError("no")
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        process.communicate(timeout=60)
        self.assertEqual({name: end for name, (end, _) in self.ends().items()},
                         {"a": "failed", "b": "failed"})

    def test_forked_children_log_nothing_and_end_nothing(self) -> None:
        done = self.run_program(
            """
            import hpsearch, os, sys
            run = hpsearch.init()
            run.log({"loss": 1.0})
            child = os.fork()
            if child == 0:
                run.log({"loss": 2.0})
                sys.exit(0)
            os.waitpid(child, 0)
            run.log({"loss": 3.0})
            child = os.fork()
            if child == 0:
                with hpsearch.init(name="own") as own:
                    own.log({"loss": 4.0})
                os._exit(0)
            os.waitpid(child, 0)
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        spools = [[line["loss"] for line in logged(spool)] for spool in self.spools()]
        self.assertEqual(sorted(spools), [[1.0, 3.0], [4.0]], done.stderr)

    def test_ranks_other_than_0_make_no_files(self) -> None:
        self.run_program(
            "import hpsearch\nwith hpsearch.init(config={'a': 1}) as run: run.log({'b': 2})", RANK="2"
        )
        self.assertFalse((self.path / "runs").exists())

    def test_arguments_that_make_no_sense_are_errors(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            for arguments in (
                {"study": 7}, {"id": 5}, {"config": 5}, {"tags": "a"}, {"resume": True},
                {"system": "often"}, {"system": 10},
            ):
                try:
                    hpsearch.init(**arguments)
                    print("taken", arguments)
                except (TypeError, ValueError) as error:
                    pass
            """
        )
        self.assertEqual((done.stdout, (self.path / "runs").exists()), ("", False))

    def test_names_that_no_store_takes_are_left_out_with_a_message(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            with hpsearch.init(study="a\\0b", name="x" * 10_000, id="", tags=["a"]) as run:
                run.log({"loss": 1.0})
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        self.assertEqual((spool[0]["study"], spool[0]["name"]), (None, None))
        self.assertEqual(logged(spool), [{"loss": 1.0}])
        self.assertEqual(done.stderr.count("is left out"), 3, done.stderr)

    def test_odd_parameters_are_plain_data(self) -> None:
        self.run_program(
            """
            import hpsearch
            config = {"huge": 10**400, "bytes": b"a", "half": "\\udcff", "nan": float("nan")}
            with hpsearch.init(config=config) as run:
                run.log({"huge": 10**400, "bytes": b"a", "none": None, "inf": float("inf")})
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        params = spool[0]["params"]
        self.assertEqual((len(params["huge"]), params["bytes"], params["half"]), (401, "b'a'", "?"))
        self.assertEqual(logged(spool), [{"inf": float("inf")}])

    def test_a_spool_that_is_removed_is_made_anew_with_all_that_was_in_it(self) -> None:
        done = self.run_program(
            """
            import hpsearch, shutil
            from tests.waiting import wait_for_text
            run = hpsearch.init()
            run.log({"loss": 1.0}, step=1)
            wait_for_text(run._spool.path, '"step":1')
            shutil.rmtree("runs")
            run.log({"loss": 2.0}, step=2)
            wait_for_text(run._spool.path, '"step":2')
            run.log({"loss": 3.0}, step=3)
            run.finish()
            """,
            HPSEARCH_BINARY="/nowhere/hpsearch",
        )
        (spool,) = self.spools()
        self.assertEqual([line["step"] for line in logged(spool)], [1, 2, 3])
        self.assertEqual(done.stderr.count("was removed while the run logs"), 1, done.stderr)

    def test_a_program_that_closes_descriptors_logs_on_and_no_other_file_is_touched(self) -> None:
        self.run_program(
            """
            import hpsearch, os
            from tests.waiting import wait_for, wait_for_text
            run = hpsearch.init(id="x")
            run.log({"loss": 1.0}, step=1)
            path = run._spool.path
            wait_for_text(path, '"step":1')
            os.closerange(3, 64)
            files = [open(f"own{index}", "w") for index in range(20)]
            run.log({"loss": 2.0}, step=2)
            wait_for(lambda: run._spool.path != path)
            wait_for_text(run._spool.path, '"step":2')
            # Once this is written, the writer was told of the line before.
            run.log({"loss": 3.0}, step=3)
            wait_for_text(run._spool.path, '"step":3')
            run.finish()
            for file in files:
                file.close()
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        self.assertEqual({path.read_text() for path in self.path.glob("own*")}, {""})
        steps = sorted(line["step"] for spool in self.spools() for line in logged(spool))
        self.assertEqual(steps, [1, 2, 3])
        self.assertIn("x", [spool[0]["resume"] for spool in self.spools()])

    def test_standard_streams_that_are_closed_never_become_the_spool(self) -> None:
        self.run_program(
            """
            import os
            os.close(1); os.close(2)
            import hpsearch
            run = hpsearch.init()
            for descriptor in (1, 2):
                try:
                    os.write(descriptor, b"not for the spool")
                except OSError:
                    pass
            run.log({"loss": 1.0})
            run.finish()
            os._exit(0)
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        self.assertEqual(logged(spool), [{"loss": 1.0}])

    def test_a_program_that_is_no_writer_is_said_once(self) -> None:
        process = self.start(
            """
            import hpsearch
            from hpsearch import _spool, _writer
            from tests.waiting import wait_for
            _spool.INTERVAL, _writer.PAUSES = 0.05, (0.01,)
            run = hpsearch.init()
            run.log({"loss": 1.0})
            wait_for(lambda: run._writer._failures >= _writer.MOST_FAILURES + 2)
            run.finish()
            """,
            HPSEARCH_BINARY=self.recorder(
                "#!{python}\nimport sys\nprint('no JSON'); print([1]); sys.exit(1)\n"
            ),
        )
        _, err = process.communicate(timeout=60)
        self.assertEqual(err.count("times in a row, last with status 1"), 1, err)
        (spool,) = self.spools()
        self.assertEqual((len(logged(spool)), spool[-1]["finish"]), (1, "complete"))

    def test_ids_never_become_paths(self) -> None:
        self.run_program(
            """
            import hpsearch
            with hpsearch.init(id="../../etc/passwd", name="a/b", study="../c") as run:
                run.log({"loss": 1})
            """,
            HPSEARCH_BINARY=self.recorder(),
        )
        (spool,) = self.spools()
        self.assertEqual(spool[0]["id"], "../../etc/passwd")
        self.assertEqual(sorted(path.name for path in self.path.iterdir()), ["recorder", "runs"])


if __name__ == "__main__":
    unittest.main()
