"""Inside a trial: the lines that a runner gets, and what its answers do."""

import json
import os
import signal
import subprocess
import textwrap
import time
import unittest
from typing import Any, List

from .harness import Case, program

PREFIX = "@hpsearch "


def lines(out: str) -> List[Any]:
    """What a runner reads of the output: the tag counts at the beginning of a line only."""
    said = [json.loads(line[len(PREFIX) :]) for line in out.splitlines() if line.startswith(PREFIX)]
    return [line for line in said if line != {"tags": []}]


class Trial(Case):
    def setUp(self) -> None:
        super().setUp()
        (self.path / "params.json").write_text('{"lr": 0.5, "model.layers": 3}')

    def environment(self, **variables: str) -> "dict[str, str]":
        trial = {
            "HPSEARCH_TRIAL": "7",
            "HPSEARCH_STUDY": "digits",
            "HPSEARCH_PARAMS": str(self.path / "params.json"),
        }
        return super().environment(**{**trial, **variables})

    def test_parameters_of_the_search_replace_those_of_the_program(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            run = hpsearch.init(study="other", config={"lr": 9.0, "seed": 1})
            print(run.params, run.study, run.number)
            """
        )
        self.assertIn("{'lr': 0.5, 'seed': 1, 'model.layers': 3} digits 7\n", done.stdout)

    def test_records_are_lines_of_their_own_beside_any_output(self) -> None:
        done = self.run_program(
            """
            import contextlib, hpsearch, io, os, sys
            run = hpsearch.init()
            print("no end of line", end="")
            run.log({"loss": 1.0}, step=1)
            run.log({"loss": 0.5})
            sys.stdout.write(" 10%|#")
            hpsearch.log({"train": {"loss": float("nan")}, "step": 3})
            open("model.pt", "w").close()
            run.checkpoint("model.pt")
            run.checkpoint("below-the-directory", step=9)
            run.log({"loss": 0.25})
            run.checkpoint("counted")
            run.artifact("counted")
            run.checkpoint("nowhere", step=-1)
            with contextlib.redirect_stdout(io.StringIO()):
                print("elsewhere", end="")
                run.summary({"best": 1})
            print("last")
            """
        )
        self.assertNotIn("\n\n", done.stdout)
        taken = lines(done.stdout.replace("NaN", '"NaN"'))
        self.assertEqual(
            taken,
            [
                {"loss": 1.0, "step": 1},
                {"loss": 0.5},
                {"train/loss": "NaN", "step": 3},
                {"checkpoint": str(self.path / "model.pt"), "step": 3},
                {"checkpoint": "below-the-directory", "step": 9},
                {"loss": 0.25},
                {"checkpoint": "counted"},
                {"artifact": "counted", "name": "counted"},
                {"summary": {"best": 1}},
            ],
        )
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("`step` must be an integer", done.stderr)

    def test_files_are_copied_at_the_call_into_the_trials_directory(self) -> None:
        directory = self.path / "checkpoints"
        directory.mkdir()
        (directory / "own").write_text("own")
        done = self.run_program(
            """
            import hpsearch, os, tempfile
            run = hpsearch.init()
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "a")
                open(path, "w").close()
                run.artifact(path, step=1)
            run.artifact("own")
            run.artifact("")
            run.image("drawn", [[0, 255]])
            """,
            HPSEARCH_CHECKPOINT_DIR=str(directory),
        )
        gone, own, empty, drawn = lines(done.stdout)
        self.assertEqual((directory / gone["artifact"]).read_text(), "")
        self.assertEqual((gone["moved"], gone["name"], gone["step"]), (True, "a", 1))
        self.assertEqual((own["moved"], own["of"]), (True, str(directory / "own")))
        self.assertEqual(empty["artifact"], "")
        self.assertTrue((directory / drawn["image"]).read_bytes().startswith(b"\x89PNG"))
        self.assertNotIn("/", gone["artifact"] + own["artifact"] + drawn["image"])

    def test_records_begin_where_lines_begin_whoever_printed_before(self) -> None:
        store = ["--store", str(self.path / "h.db")]
        binary = program()
        if binary is None:
            self.skipTest("no `hpsearch`")
        (self.path / "t.py").write_text(textwrap.dedent(_PRINTS))

        def track(*words: str) -> str:
            done = subprocess.run(
                [binary, "track", "--study", "s", *store, "--", *words],
                cwd=self.path,
                env=Case.environment(self),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            return done.stdout

        printed = track(_python(), "t.py")
        self.assertEqual(printed, "step..\nstep..\nstep..\n\nline\n\nline\nend..\nlast\n\n")
        # A filter has whole lines.
        track("sh", "-c", f"{_python()} t.py | grep -v line")
        for run in ("0", "1"):
            said = [
                json.loads(subprocess.check_output([binary, verb, "s", run, "--json", *store]))
                for verb in ("curves", "artifacts")
            ]
            points = [point[:2] for point in said[0]["series"][0]["points"]]
            self.assertEqual(points, [[step, float(step)] for step in range(1, 8)], run)
            self.assertEqual([kept["name"] for kept in said[1]["artifacts"]], ["t.py"])

    def test_parameters_of_the_search_stay_and_tags_are_the_trials(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            run = hpsearch.init(config={"lr": 9.0}, tags=["v2"])
            run.config["lr"] = 0.1
            run.config.seed = 3
            print(run.params)
            """
        )
        self.assertIn("{'lr': 0.5, 'model.layers': 3, 'seed': 3}\n", done.stdout)
        self.assertEqual(lines(done.stdout), [{"tags": ["v2"]}])
        self.assertIn("`lr` stays `0.5`", done.stderr)

    def test_secrets_among_parameters_of_a_tracked_program_are_redacted(self) -> None:
        done = self.run_program(
            """
            import hpsearch
            run = hpsearch.init(config={"api_key": "hunter2", "max_tokens": 3})
            run.config.password = "hunter2"
            run.config.db = "postgres://me:hunter/2@x@host/d"
            """,
            HPSEARCH_TRACKED="1",
        )
        self.assertEqual(
            lines(done.stdout),
            [
                {"params": {"api_key": "***", "max_tokens": 3}},
                {"params": {"password": "***"}},
                {"params": {"db": "postgres://me:***@host/d"}},
            ],
        )

    def test_threads_write_whole_lines(self) -> None:
        done = self.run_program(
            """
            import hpsearch, threading
            run = hpsearch.init()
            def log(name):
                for step in range(500):
                    run.log({name: step, "long" * 1000: 1.0}, step=step)
            threads = [threading.Thread(target=log, args=(name,)) for name in "abcd"]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            """
        )
        self.assertEqual(len(lines(done.stdout)), 2000)

    def test_stop_and_pause_end_the_program_that_asks(self) -> None:
        for verdict in ("stop", "pause"):
            process = self.start(
                """
                import hpsearch, time
                run = hpsearch.init()
                run.log({"loss": 1.0}, step=1)
                until = time.monotonic() + 30
                while not run.should_stop and time.monotonic() < until:
                    time.sleep(0.01)
                print("because", run.stop_reason)
                """,
                stdin=subprocess.PIPE,
            )
            answers = ["garbage", '{"verdict":"continue"}', "[1]"]
            answers += ['{"verdict":"%s","reason":"rank 9 of 12"}' % verdict, ""]
            assert process.stdin is not None
            process.stdin.write("\n".join(answers))
            process.stdin.flush()
            out, err = process.communicate(timeout=60)
            self.assertIn("because rank 9 of 12\n", out, err)

    def test_callbacks_wait_for_the_answer_at_the_step_to_pause_at(self) -> None:
        process = self.start(
            """
            import hpsearch
            run = hpsearch.init()
            for step in (1, 2):
                run.log({"loss": 1.0}, step=step)
                run._await_pause(step)
                print("at", step, run.should_stop, flush=True)
            """,
            stdin=subprocess.PIPE,
            HPSEARCH_UNTIL="2",
        )
        assert process.stdin is not None and process.stdout is not None
        while '"step":2' not in process.stdout.readline():
            pass
        # Time enough to continue, if it did not wait for the answer.
        time.sleep(0.2)
        process.stdin.write('{"verdict":"pause","reason":"rung 2"}\n')
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "at 2 True\n")
        process.communicate(timeout=60)

    def test_should_stop_waits_for_the_answer_to_a_report(self) -> None:
        process = self.start(
            """
            import hpsearch
            run = hpsearch.init()
            for step in (1, 2, 3):
                run.log({"other": 1.0}, step=step)
                print("before", step, run.should_stop, flush=True)
                run.log({"loss": 1.0}, step=step)
                print("at", step, run.should_stop, flush=True)
                if run.should_stop:
                    break
            """,
            stdin=subprocess.PIPE,
            HPSEARCH_JUDGED='["loss"]',
        )
        assert process.stdin is not None and process.stdout is not None
        for step, verdict in ((1, "continue"), (2, "stop")):
            read = ""
            while f'"loss":1.0,"step":{step}' not in read:
                read = process.stdout.readline()
            # Time enough to continue, if it did not wait; nothing is answered to the other report.
            time.sleep(0.2)
            process.stdin.write(f'{{"verdict":"{verdict}","reason":"so"}}\n')
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), f"at {step} {verdict == 'stop'}\n")
        self.assertEqual(process.communicate(timeout=60)[0], "")

    def test_sigterm_with_the_first_answer_is_a_request(self) -> None:
        process = self.start(
            """
            import hpsearch
            run = hpsearch.init()
            run.log({"loss": 1.0}, step=1)
            print("at 1", run.should_stop, flush=True)
            """,
            stdin=subprocess.PIPE,
            HPSEARCH_JUDGED='["loss"]',
        )
        assert process.stdin is not None and process.stdout is not None
        while '"loss":1.0,"step":1' not in process.stdout.readline():
            pass
        # Time enough to continue, if it did not wait for the answer, and to die of the signal.
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        process.stdin.write('{"verdict":"stop","reason":"so"}\n')
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "at 1 True\n")
        process.communicate(timeout=60)

    def test_should_stop_does_not_wait_where_nothing_stops_trials(self) -> None:
        for judged, seconds in (("", (0, 1)), ('["loss"]', (5, 6, 7))):
            process = self.start(
                """
                import hpsearch, time
                run = hpsearch.init()
                begun = time.monotonic()
                for step in range(30):
                    run.log({"loss": 1.0}, step=step)
                    assert not run.should_stop
                print("waited", round(time.monotonic() - begun))
                """,
                stdin=subprocess.PIPE,
                HPSEARCH_JUDGED=judged,
            )
            assert process.stdout is not None
            # Standard input stays open: a runner is there, and silent.
            out = process.stdout.read()
            self.assertIn("waited ", out)
            self.assertIn(int(out.split("waited ")[1]), seconds)

    def test_callbacks_do_not_wait_for_long_where_nothing_is_answered(self) -> None:
        process = self.start(
            """
            import hpsearch, time
            run = hpsearch.init()
            begun = time.monotonic()
            for step in range(30):
                run.log({"other": 1.0}, step=step)
                run._await_pause(step)
            print("waited", round(time.monotonic() - begun))
            """,
            stdin=subprocess.PIPE,
            HPSEARCH_UNTIL="2",
        )
        assert process.stdout is not None
        # Standard input stays open: a runner is there, and silent.
        out = process.stdout.read()
        self.assertIn("waited ", out)
        self.assertIn(int(out.split("waited ")[1]), (5, 6, 7))

    def test_a_program_that_reads_standard_input_itself_keeps_it(self) -> None:
        done = subprocess.run(
            ["sh", "-c", 'echo mine > input; exec "$0" -c "$1" < input', _python(), _READS],
            cwd=self.path,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        self.assertIn("read mine\n", done.stdout)

    def test_sigterm_is_a_request_to_programs_that_ask_and_an_end_to_others(self) -> None:
        for asks, status in (("run.should_stop", 0), ("False", -signal.SIGTERM)):
            process = self.start(
                f"""
                import hpsearch, time
                run = hpsearch.init()
                {asks}
                run.log({{"loss": 1.0}}, step=1)
                until = time.monotonic() + 30
                while not ({asks}) and time.monotonic() < until:
                    time.sleep(0.01)
                """
            )
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, status)

    def test_a_handler_of_the_programs_own_stays(self) -> None:
        done = self.run_program(
            """
            import hpsearch, os, signal
            signal.signal(signal.SIGTERM, lambda *_: print("mine"))
            run = hpsearch.init()
            run.should_stop
            os.kill(os.getpid(), signal.SIGTERM)
            print(run.should_stop)
            """
        )
        self.assertEqual(done.stdout, "mine\nFalse\n")

    def test_only_the_process_that_called_init_logs(self) -> None:
        done = self.run_program(
            """
            import hpsearch, os, signal, time
            run = hpsearch.init()
            run.should_stop
            run.log({"loss": 1.0}, step=1)
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                run.log({"loss": 2.0}, step=2)
                run.log({"loss": 3.0}, step=3)
                run.finish()
                os.write(write, b"x")
                time.sleep(60)
            os.read(read, 1)
            os.kill(child, signal.SIGTERM)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            run.log({"loss": 4.0}, step=4)
            """
        )
        self.assertEqual([line["loss"] for line in lines(done.stdout)], [1.0, 4.0])
        # A worker that its parent terminates ends.
        self.assertIn(f"{-signal.SIGTERM}\n", done.stdout)
        self.assertEqual(done.stderr.count("was forked"), 1, done.stderr)

    def test_a_worker_that_is_terminated_as_soon_as_it_is_forked_ends(self) -> None:
        done = self.run_program(
            """
            import os, signal

            # Before the hooks of hpsearch.
            os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
            import hpsearch, threading

            def fork():
                child = os.fork()
                if child == 0:
                    os._exit(0)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

            run = hpsearch.init()
            run.should_stop
            fork()
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
            os.kill(os.getpid(), signal.SIGTERM)
            print(run.should_stop, flush=True)
            # A thread cannot restore how the signal is handled.
            thread = threading.Thread(target=run.finish)
            thread.start()
            thread.join()
            fork()
            """
        )
        ended = f"{-signal.SIGTERM}\n"
        self.assertEqual(done.stdout, f"{ended}{ended}True\n{ended}")

    def test_runs_in_one_trial_are_all_the_trial(self) -> None:
        process = self.start(
            """
            import hpsearch, threading, time

            with hpsearch.init(config={"seed": 1}) as outer:
                with hpsearch.init(config={"lr": 9.0, "fold": 2}, tags=["inner"]) as inner:
                    inner.log({"loss": 1.0}, step=1)
                    print(inner.params, flush=True)
                outer.log({"loss": 2.0}, step=2)
                begun, ended = threading.Event(), threading.Event()
                def train():
                    with hpsearch.init() as run:
                        begun.set()
                        ended.wait(30)
                        run.log({"loss": 3.0}, step=3)
                        print("thread", run.should_stop, run.stop_reason, flush=True)
                thread = threading.Thread(target=train)
                thread.start()
                begun.wait(30)
            ended.set()
            thread.join()
            with hpsearch.init() as later:
                later.log({"loss": 4.0}, step=4)
                until = time.monotonic() + 30
                while not later.should_stop and time.monotonic() < until:
                    time.sleep(0.01)
                print("later", later.should_stop, flush=True)
            """,
            stdin=subprocess.PIPE,
            HPSEARCH_JUDGED='["loss"]',
        )
        assert process.stdin is not None
        # Each report waits for the answers to those before it.
        answers = ["continue", "continue", "stop", "pause"]
        process.stdin.write("".join(
            f'{{"verdict":"{answer}","reason":"so"}}\n' for answer in answers[:3]))
        process.stdin.flush()
        assert process.stdout is not None
        out = ""
        while '"step":4' not in out:
            read = process.stdout.readline()
            self.assertNotEqual(read, "", out)
            out += read
        process.stdin.write(f'{{"verdict":"{answers[3]}","reason":"so"}}\n')
        rest, err = process.communicate(timeout=60)
        out += rest
        self.assertIn("{'lr': 0.5, 'fold': 2, 'model.layers': 3}\n", out)
        self.assertIn("thread True so\n", out)
        self.assertIn("later True\n", out)
        losses = [line.get("loss", line.get("tags")) for line in lines(out)]
        self.assertEqual(losses, [["inner"], 1.0, 2.0, 3.0, 4.0])
        self.assertEqual(err.count("\n"), 1, err)
        self.assertIn("`lr` stays `0.5`", err)

    def test_rank_0_logs_and_the_others_have_the_parameters(self) -> None:
        program = """
            import hpsearch
            with hpsearch.init() as run:
                run.log({"loss": 1.0}, step=1)
                print(run.params["lr"], run.should_stop)
            """
        for variable in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "LOCAL_RANK"):
            first = self.run_program(program, **{variable: "0"})
            other = self.run_program(program, **{variable: "1"})
            self.assertEqual((len(lines(first.stdout)), other.stdout), (1, "0.5 False\n"))
        overruled = self.run_program(program, SLURM_PROCID="3", HPSEARCH_RANK="0")
        self.assertEqual(len(lines(overruled.stdout)), 1)

    def test_an_exception_is_the_programs_own(self) -> None:
        process = self.start(
            """
            import hpsearch
            with hpsearch.init() as run:
                run.log({"loss": 1.0}, step=1)
                raise ValueError("mine")
            """
        )
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, len(lines(out))), (1, 1))
        self.assertIn("ValueError: mine", err)

    def test_a_runner_that_is_gone_is_said_once_and_training_goes_on(self) -> None:
        read, write = os.pipe()
        process = subprocess.Popen(
            [_python(), "-c", _OUTLIVES],
            cwd=self.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(read)
        os.close(write)
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err.count("no further reports reach the search")), (0, 1))
        self.assertIn("end", err)


_PRINTS = """
    import hpsearch, os, subprocess, sys
    run = hpsearch.init()
    def raw():
        os.write(1, b"step..")
    def buffer():
        sys.stdout.buffer.write(b"step..")
        sys.stdout.flush()
    def child():
        os.system("printf step..")
    def line():
        print("\\nline")
    def nothing():
        pass
    for step, prints in enumerate((raw, buffer, child, line, nothing, line, nothing), 1):
        prints()
        run.log({"loss": float(step)}, step=step)
    os.write(1, b"end..")
    run.artifact("t.py")
    print("last")
    os.write(1, b"\\n")
"""

_READS = """
import hpsearch, sys, time
run = hpsearch.init()
run.log({"loss": 1.0}, step=1)
time.sleep(0.1)
print("read", sys.stdin.readline().strip())
"""

_OUTLIVES = """
import hpsearch, os, sys
run = hpsearch.init()
for step in range(5):
    run.log({"loss": 1.0}, step=step)
print("end", file=sys.stderr, flush=True)
os._exit(0)
"""


def _python() -> str:
    import sys

    return sys.executable


if __name__ == "__main__":
    unittest.main()
