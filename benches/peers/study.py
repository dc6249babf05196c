#!/usr/bin/env python3
"""One study with hpsearch and with Optuna + Hugging Face's Trainer on the same rows: trials an hour, accuracy, memory.

    python3 -m venv .venv && .venv/bin/pip install torch transformers accelerate optuna safetensors
    .venv/bin/python benches/peers/study.py --hpsearch target/release/hpsearch --model DIR \\
        --train banking77/train.csv --test banking77/test.csv --rows 1000 --trials 4 --epochs 3

`--model` is a directory with config.json, model.safetensors and tokenizer.json. Both sides get the same space, sampler (TPE), epochs,
trials and evaluations, and two cores: the Trainer as one process of two threads (as it is used), hpsearch as two slots of one thread. Wall
time counts, start to end, tokenising included; runs alternate, so that other work on the machine hits both, and processor seconds are printed
beside. `to_peer` is after how long the study had a trial at least as accurate on the validation rows as the best of Optuna + Trainer in the same
round: with `--pruner asha` that counts, not trials an hour. `--own-sampler` leaves hpsearch its default sampler. With `--same-points` the
Trainer's study comes first and hpsearch trains the points that it tried, so that accuracy tells of trainers and not of points: `values` are those
of all points on the validation rows, in order.
"""
import argparse, datetime, json, os, subprocess, sys, tempfile, time

STUDY = """[study]
name = "{name}"
metric = "eval_accuracy"
direction = "maximize"
seed = {seed}

[budget]
trials = {trials}
count = "{count}"

[data]
train = "{rows}/train.csv"
validation = "{rows}/validation.csv"
test = "{rows}/test.csv"
max_length = 64

[trainer]
task = "text-classification"
model = "{model}"
num_train_epochs = {epochs}
per_device_eval_batch_size = 128
lr_scheduler_type = "linear"

[space]
learning_rate = {{ float = [1e-5, 1e-3], log = true }}
per_device_train_batch_size = [16, 32, 64]
weight_decay = {{ float = [0.0, 0.3] }}
warmup_ratio = {{ float = [0.0, 0.2] }}

[sampler]
type = "{sampler}"

[pruner]
type = "{pruner}"

[devices]
use = ["cpu"]
trials_per_device = 2
cpu_threads = 1

[checkpoints]
keep = "best-1"
"""


def ours(a, room, seed, points=()):
    name = f"side-by-side-{seed}"
    path, store = f"{room}/{name}.toml", f"{room}/{name}.db"
    with open(path, "w") as f:
        f.write(STUDY.format(name=name, seed=seed, trials=a.trials, count="completed" if a.pruner == "none" else "finished", rows=room,
                             model=os.path.abspath(a.model), epochs=a.epochs, pruner=a.pruner, sampler="auto" if a.own_sampler else "tpe"))
        f.writelines("\n[[enqueue]]\n" + "".join(f"{name} = {value!r}\n" for name, value in point.items()) for point in points)
    began = time.time()
    with open(f"{room}/{name}.log", "w") as log:
        run = subprocess.Popen([a.hpsearch, "--store", store, "run", path, "--plain"], stdout=log, stderr=log)
    # What it and its own children took, and no other child of this process.
    _, status, usage = os.wait4(run.pid, 0)
    wall, processor = time.time() - began, usage.ru_utime + usage.ru_stime
    if status:
        sys.exit(open(f"{room}/{name}.log").read())
    rows = subprocess.run([a.hpsearch, "--store", store, "export-data", name, "--format", "jsonl"], check=True, capture_output=True, text=True)
    trials = [json.loads(line) for line in rows.stdout.splitlines()]
    history = sorted((round(datetime.datetime.fromisoformat(t["finished"]).timestamp() - began, 1), t["value"])
                     for t in trials if t["state"] == "complete")
    subprocess.run([a.hpsearch, "--store", store, "export", name, "-o", f"{room}/{name}"], check=True, capture_output=True)
    best = json.loads(subprocess.run([a.hpsearch, "--store", store, "best", name, "--json"], check=True, capture_output=True, text=True).stdout)
    metrics = json.load(open(f"{room}/{name}/metrics.json"))
    return {"wall_s": round(wall, 1), "processor_s": round(processor, 1), "trials": len(trials), "history": history, "best_valid": best["trial"]["value"], "metrics": metrics,
            "values": [t["value"] for t in sorted(trials, key=lambda t: t["number"])],
            "peak_mb": usage.ru_maxrss // 1024}


def theirs(a, room, seed, group):
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "hf_optuna_study.py"), "--model", a.model, "--train", a.train,
               "--test", a.test, "--text-column", a.text_column, "--label-column", a.label_column, "--trials", str(a.trials), "--epochs",
               str(a.epochs), "--threads", str(a.threads), "--pruner", a.pruner, "--seed", str(seed), "--out", f"{room}/peer-{seed}-{group}", "--rows", str(a.rows)]
    run = subprocess.run(command + (["--group-by-length"] if group else []), capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stdout + run.stderr)
    return json.loads(run.stdout.strip().splitlines()[-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hpsearch", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--train", required=True)
    p.add_argument("--test", required=True)
    p.add_argument("--text-column", default="text")
    p.add_argument("--label-column", default="category")
    p.add_argument("--rows", type=int, default=1000)
    p.add_argument("--trials", type=int, default=4)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--threads", type=int, default=2, help="of the Trainer")
    p.add_argument("--own-sampler", action="store_true", help="hpsearch's default sampler instead of tpe")
    p.add_argument("--same-points", action="store_true", help="hpsearch trains the points that the Trainer's study tried")
    p.add_argument("--no-group", action="store_true", help="leave out the Trainer with group_by_length")
    p.add_argument("--pruner", choices=["none", "asha"], default="none")
    a = p.parse_args()
    for seed in range(42, 42 + a.rounds):
        with tempfile.TemporaryDirectory() as room:
            subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "hf_optuna_study.py"), "--model", a.model, "--train", a.train,
                            "--test", a.test, "--text-column", a.text_column, "--label-column", a.label_column, "--rows", str(a.rows), "--seed",
                            str(seed), "--trials", "0", "--split-out", room], check=True)
            if a.same_points:
                peer = theirs(a, room, seed, False)
                sides = [("hpsearch", ours(a, room, seed, peer["points"])), ("Optuna + Trainer", peer)]
            else:
                sides = [("hpsearch", ours(a, room, seed)), ("Optuna + Trainer", theirs(a, room, seed, False))]
            if not a.no_group:
                sides.append(("the same, group_by_length", theirs(a, room, seed, True)))
            aim = sides[1][1]["best_valid"]
            for side, found in sides:
                found["to_peer"] = next((when for when, value in found["history"] if value >= aim), None)
                rate = a.trials * 3600 / found["wall_s"]
                print(f"{side:<28} {rate:7.1f} trials an hour  {json.dumps(found)}", flush=True)


if __name__ == "__main__":
    main()
