"""`pbt` with `asynchronous = true` beside the default, in wall-clock: 8 members on 8 slots, commands that sleep.

    python benches/search/asynchronous.py target/release/hpsearch [--seeds 3] [--step 0.25]

A member trains 20 steps and is decided about after every 4th. Speeds: all steps take as long; steps on one of the eight devices take
four times as long; the time of each step is drawn from an exponential distribution of the same mean. The table has the medians of
the seconds of a study and of the best loss.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

PROGRAM = """
step=0; state=1
[ -z "$HPSEARCH_RESUME" ] || read -r step state < "$HPSEARCH_RESUME"
while [ $step -lt 20 ]; do
  step=$((step + 1))
  sleep $(awk -v seed=$((HPSEARCH_TRIAL * 1000 + step + SEED * 77777)) "BEGIN { srand(seed); rand(); print PACE }")
  state=$(awk "BEGIN { printf \\"%.12g\\", $state * (1 - $1) ^ 2 + $1 * $1 / 4 }")
  echo "$step $state" > "$HPSEARCH_CHECKPOINT_DIR/$step"
  echo "@hpsearch {\\"checkpoint\\":\\"$HPSEARCH_CHECKPOINT_DIR/$step\\",\\"step\\":$step}"
  echo "@hpsearch {\\"step\\":$step,\\"loss\\":$state}"
  read -r answer
  case "$answer" in *'"stop"'* | *'"pause"'*) exit 0 ;; esac
done
"""

SPEEDS = {
    "equal": "STEP",
    "one device in eight four times as slow": '(ENVIRON[\\"HPSEARCH_DEVICE\\"] == \\"sim:0\\" ? 4 : 1) * STEP',
    "exponential": "-log(1 - rand()) * STEP",
}

STUDY = """
[study]
name = "s"
metric = "loss"
direction = "minimize"
step = "step"
seed = {seed}
[budget]
trials = 8
[space]
x = {{ float = [0.001, 0.5], log = true }}
[command]
run = ["sh", "program.sh", "{{x}}"]
[sampler]
type = "random"
[pruner]
type = "pbt"
interval = 4
max_resource = 20
asynchronous = {asynchronous}
[devices]
use = ["sim:0..8"]
"""


def measured(program, pace, asynchronous, seed, step):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory)
        script = PROGRAM.replace("PACE", SPEEDS[pace]).replace("STEP", str(step)).replace("SEED", str(seed))
        (path / "program.sh").write_text(script)
        (path / "study.toml").write_text(STUDY.format(seed=seed, asynchronous=str(asynchronous).lower()))
        began = time.monotonic()
        subprocess.run([program, "run", "study.toml", "--plain", "-q"], cwd=path, check=True, capture_output=True)
        seconds = time.monotonic() - began
        subprocess.run([program, "verify", "s"], cwd=path, check=True, capture_output=True)
        best = subprocess.run([program, "best", "s", "--json"], cwd=path, check=True, capture_output=True)
        return seconds, json.loads(best.stdout)["trial"]["value"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--step", type=float, default=0.25, help="seconds of a step")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    for pace in SPEEDS:
        for asynchronous in (False, True):
            runs = [measured(program, pace, asynchronous, seed, arguments.step) for seed in range(arguments.seeds)]
            seconds, losses = zip(*runs)
            each = " ".join(f"{value:.1f}" for value in seconds)
            name = "asynchronous" if asynchronous else "together"
            print(f"{pace:40} {name:13} {statistics.median(seconds):6.1f} s ({each})  {statistics.median(losses):.2e}", flush=True)


main()
