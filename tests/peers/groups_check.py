"""Runs studies whose trials are four processes each, undisturbed and with processes killed at random, and compares them.

    groups_check.py HPSEARCH [KIND..]

For each launcher, the trials of the second study must end with the values of the first, after attempts that went on from a
checkpoint, and no process may be left.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(sys.executable).parent
TRAIN = str(HERE / "groups_train.py")
PYTHON = sys.executable
TRIALS = 2
KILLS = 4

# Name: command, and whether hpsearch starts the ranks itself.
LAUNCHERS = {
    "per_device": ([PYTHON, TRAIN, "ddp"], True),
    "torchrun": ([str(BIN / "torchrun"), TRAIN, "ddp"], False),
    "accelerate": (
        [str(BIN / "accelerate"), "launch", "--use_fsdp", "--fsdp_version", "2", "--num_processes", "{world_size}"]
        + ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
        + ["--main_process_port", "{master_port}", TRAIN, "fsdp"],
        False,
    ),
    "deepspeed": (
        [str(BIN / "deepspeed"), "--num_accelerators", "{world_size}", "--master_port", "{master_port}", TRAIN, "deepspeed"],
        False,
    ),
    # Two agents on this machine, with two processes each.
    "per_device-nodes": ([PYTHON, TRAIN, "ddp"], True),
    "torchrun-nodes": ([str(BIN / "torchrun"), TRAIN, "ddp"], False),
    "accelerate-nodes": (
        [str(BIN / "accelerate"), "launch", "--use_fsdp", "--fsdp_version", "2", "--num_processes", "{world_size}"]
        + ["--num_machines", "{nodes}", "--machine_rank", "{node_rank}", "--mixed_precision", "no", "--dynamo_backend", "no"]
        + ["--main_process_ip", "{master_addr}", "--main_process_port", "{master_port}", TRAIN, "fsdp"],
        False,
    ),
}


def on_nodes(launcher):
    return launcher.endswith("-nodes")


def study(name, launcher):
    command, per_device = LAUNCHERS[launcher]
    nodes = on_nodes(launcher)
    cluster = '[cluster]\nlisten = "127.0.0.1:0"' if nodes else ""
    run = json.dumps([*command, "--lr", "{lr}"])
    return f"""
[study]
name = "{name}"
metric = "loss"
direction = "minimize"
step = "step"
value = "last"
seed = 3

[space]
lr = {{ float = [0.001, 0.01], log = true }}

[sampler]
type = "random"

[pruner]
type = "none"

[command]
run = {run}
env = {{ ACCELERATE_USE_CPU = "true", DS_ACCELERATOR = "cpu", OMP_NUM_THREADS = "1" }}

[devices]
use = ["cpu"]
per_trial = {2 if nodes else 4}
nodes_per_trial = {2 if nodes else 1}
trials_per_device = 1
per_device = {str(per_device).lower()}

[budget]
trials = {TRIALS}

[retry]
max = 50
on = ["worker_lost"]

{cluster}
"""


def processes(store):
    """Ids of the processes of trials in this store, with their parents' ids."""
    found = {}
    for entry in os.listdir("/proc"):
        try:
            environment = pathlib.Path("/proc", entry, "environ").read_bytes().split(b"\0")
            stat = pathlib.Path("/proc", entry, "stat").read_text()
        except OSError:
            continue
        if f"HPSEARCH_STORE={store}".encode() in environment:
            found[int(entry)] = stat.rpartition(")")[2].split()
    return {pid: fields for pid, fields in found.items() if fields[0] != "Z"}


class Study:
    def __init__(self, hpsearch, directory, name, launcher):
        self.hpsearch, self.directory, self.name = hpsearch, directory, name
        self.agents, self.nodes = [], 2 if on_nodes(launcher) else 0
        self.file, self.store = directory / f"{name}.toml", directory / f"{name}.db"
        self.file.write_text(study(name, launcher))
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONPATH": str(HERE.parent.parent / "python"),
            "HPSEARCH_BINARY": hpsearch,
            # deepspeed compiles its collectives for the CPU, in the undisturbed study.
            "TORCH_EXTENSIONS_DIR": str(directory / "extensions"),
        }

    def start(self):
        runner = self.spawn("run", str(self.file), "--plain", "--store", str(self.store))
        known = self.directory / "files" / self.name / "agents.json"
        while self.nodes and not known.exists() and runner.poll() is None:
            time.sleep(0.05)
        self.agents = [agent for agent in self.agents if agent.poll() is None]
        self.agents += [self.spawn("agent", str(known)) for _ in range(self.nodes - len(self.agents))]
        return runner

    def spawn(self, *arguments):
        log = open(self.directory / f"{self.name}.log", "a")
        return subprocess.Popen(
            [self.hpsearch, *arguments], cwd=self.directory, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )

    def answer(self, *arguments):
        command = [self.hpsearch, *arguments, "--store", str(self.store)]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=True).stdout

    def values(self):
        trials = json.loads(self.answer("trials", self.name, "--json", "--sort", "number"))["trials"]
        return [(trial["state"], trial["value"], trial["attempts"]) for trial in trials]

    def logs(self):
        return "".join(
            log.read_text(errors="replace") for log in sorted(self.directory.glob(f"files/{self.name}/**/*.log"))
        )


def disturb(own, dice):
    """Runs the study to its end, and kills one of its processes now and then."""
    runner, killed, steps_seen = own.start(), [], 0
    while len(killed) < KILLS:
        # Some steps into an attempt: most of the time passes before the first.
        began = time.monotonic()
        while True:
            steps = own.file.parent.glob(f"files/{own.name}/*/checkpoints/step-*")
            steps = len([path for path in steps if not path.name.endswith(".part")])
            steps += 1000 * len(list(own.file.parent.glob(f"files/{own.name}/trial-*")))
            if steps != steps_seen or runner.poll() is not None:
                steps_seen = steps
                break
            assert time.monotonic() - began < 180, "nothing happens"
            time.sleep(0.02)
        if runner.poll() is not None:
            break
        time.sleep(dice.uniform(0.0, 1.5))
        alive = processes(own.store)
        if not alive:
            continue
        # The runner is killed every third time, alone or with one of the others.
        victims = [dice.choice(sorted(alive))]
        if len(killed) % 3 == 1:
            victims.append(runner.pid)
        names = []
        for pid in victims:
            try:
                names.append(pathlib.Path("/proc", str(pid), "comm").read_text().strip())
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        killed.append("+".join(names))
        if runner.pid in victims:
            runner.wait()
            gone = time.monotonic()
            # With agents, trials go on without their runner.
            while not own.nodes and (left := processes(own.store)):
                assert time.monotonic() - gone < 20, f"left after the runner was killed: {left}"
                time.sleep(0.05)
            runner = own.start()
    code = runner.wait(timeout=600)
    return code, killed


def main():
    hpsearch, *kinds = sys.argv[1:]
    failed = False
    for launcher in kinds or LAUNCHERS:
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory).resolve()
            began = time.monotonic()
            calm = Study(hpsearch, directory, "calm", launcher)
            code = calm.start().wait(timeout=900)
            if code != 0:
                print((directory / "calm.log").read_text()[-3000:], calm.logs()[-6000:], sep="\n")
                sys.exit(f"{launcher}: the undisturbed study ended with {code}")
            stormy = Study(hpsearch, directory, "stormy", launcher)
            code, killed = disturb(stormy, random.Random(f"{launcher} 5"))
            time.sleep(0.5)
            left = processes(stormy.store)
            expected, found = calm.values(), stormy.values()
            same = [
                (before, state) == ("complete", "complete") and abs(a - b) <= 1e-6 * abs(a)
                for (before, a, _), (state, b, _) in zip(expected, found)
            ]
            went_on = [line for line in stormy.logs().splitlines() if line.startswith("begins after step") and " 0 " not in line]
            good = code == 0 and all(same) and len(found) == TRIALS and not left and went_on
            failed |= not good
            print(f"{launcher}: {'ok' if good else 'FAILED'} in {time.monotonic() - began:.0f} s", flush=True)
            print(f"  undisturbed {[value for _, value, _ in expected]}")
            print(f"  disturbed   {[value for _, value, _ in found]}, attempts {[attempts for *_, attempts in found]}")
            print(f"  killed      {', '.join(killed)}")
            print(f"  went on     {len(went_on)} times: {'; '.join(went_on)}")
            print(f"  exit code {code}, processes left {len(left)}", flush=True)
            if not good:
                print((directory / "stormy.log").read_text()[-3000:], stormy.logs()[-3000:], sep="\n")
    sys.exit(failed)


main()
