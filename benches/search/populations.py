"""`pbt` beside `asha` with `auto`, at equal steps: 8 members, one slot.

    python benches/search/populations.py target/release/hpsearch [--seeds 5] [--tasks classifier,charlm] [--methods ..]

Each study gets as many epochs (steps) as 8 full trainings have, whole reports in the order of its journal; the table shows the
best eval_loss reported until then: median over seeds, and each seed's.
"""

import argparse
import json
import pathlib
import sqlite3
import statistics
import subprocess
import tempfile

DATA = pathlib.Path(__file__).resolve().parents[2] / "studies" / "data"
MEMBERS = 8

CLASSIFIER = """
[data]
train = "{data}/train.csv"
validation = "{data}/validation.csv"
[trainer]
task = "text-classification"
num_train_epochs = 8
eval_strategy = "epoch"
per_device_train_batch_size = {batch}
model.hidden_size = {hidden}
model.num_layers = 1
model.num_heads = 2
"""

LANGUAGE = """
[data]
train = "{data}/train.csv"
text = "text"
validation_split = 0.1
max_length = 64
[trainer]
task = "language-modeling"
model.tokenizer = "chars"
max_steps = 200
per_device_train_batch_size = 12
eval_strategy = "steps"
eval_steps = 25
model.hidden_size = 48
model.num_layers = 2
model.num_heads = 2
"""

TASKS = {
    "classifier": ("epoch", 8, 1, CLASSIFIER.format(data=DATA, batch=32, hidden=32)),
    "small batches": ("epoch", 8, 1, CLASSIFIER.format(data=DATA, batch=8, hidden=32)),
    "charlm": ("step", 200, 25, LANGUAGE.format(data=DATA)),
}

SPACE = """
[space]
learning_rate = { float = [1e-4, 3e-2], log = true }
weight_decay = { float = [1e-3, 0.3], log = true }
"model.dropout" = { float = [0.0, 0.5] }
"""

METHODS = {
    "pbt, constant": ("constant", "pbt", ""),
    "pbt, cosine": ("cosine", "pbt", ""),
    "pbt, constant, frequencies": ("constant", "pbt", "frequencies = [1, 3]"),
    "pbt, constant, model": ("constant", "pbt", "model = true"),
    "asha + auto, cosine": ("cosine", "asha", ""),
    "no pruner, random, cosine": ("cosine", "none", ""),
}


def study(task, method, seed):
    clock, length, interval, trainer = TASKS[task]
    schedule, pruner, further = METHODS[method]
    options = {
        "pbt": f"population = {MEMBERS}\ninterval = {interval}",
        "asha": f"min_resource = {interval}\nreduction_factor = 3",
        "none": "",
    }[pruner]
    trials = MEMBERS * 4 if pruner == "asha" else MEMBERS
    sampler = "auto" if pruner == "asha" else "random"
    return (
        f'[study]\nname = "s"\nmetric = "eval_loss"\ndirection = "minimize"\nstep = "{clock}"\nseed = {seed}\n'
        f'[budget]\ntrials = {trials}\n{trainer}lr_scheduler_type = "{schedule}"\n{SPACE}'
        f'[sampler]\ntype = "{sampler}"\n[pruner]\ntype = "{pruner}"\n{options}\n{further}\n'
        '[devices]\nuse = ["cpu"]\ntrials_per_device = 1\n'
    )


def best(program, task, method, seed):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory)
        (path / "study.toml").write_text(study(task, method, seed))
        command = [program, "run", "study.toml", "--plain", "-q"]
        subprocess.run(command, cwd=path, check=True, capture_output=True)
        database = sqlite3.connect(path / "runs" / "hpsearch.db")
        rows = database.execute("SELECT body FROM event ORDER BY seq")
        losses = [
            event["metrics"]["eval_loss"]
            for (body,) in rows
            if (event := json.loads(body))["type"] == "reported"
        ]
        _, length, interval, _ = TASKS[task]
        return min(loss for loss in losses[: MEMBERS * length // interval] if isinstance(loss, float))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by ;")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    for task in arguments.tasks.split(","):
        for method in arguments.methods.split(";"):
            values = [best(program, task, method, seed) for seed in range(arguments.seeds)]
            each = " ".join(f"{value:.4f}" for value in values)
            print(f"{task:14} {method:26} {statistics.median(values):.4f}   {each}", flush=True)


main()
