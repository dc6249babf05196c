#!/usr/bin/env python3
"""Fits a line to noisy points by gradient descent with momentum, and tells hpsearch how it goes.

Needs Python 3.8 and nothing else. It saves its state after every epoch, so that a trial that is interrupted or paused goes
on where it was, and leaves in order when it is told to (SIGTERM).
"""
import argparse
import json
import math
import os
import random
import signal
import sys

EPOCHS = 27

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, required=True)
parser.add_argument("--momentum", type=float, required=True)
parser.add_argument("--schedule", choices=["constant", "cosine"], required=True)
arguments = parser.parse_args()

rng = random.Random(int(os.environ.get("HPSEARCH_SEED", "0")))
points = [(x / 50, 3.0 * x / 50 - 1.0 + rng.gauss(0, 0.1)) for x in range(-50, 50)]
checkpoints = os.environ.get("HPSEARCH_CHECKPOINT_DIR", ".")
state = {"epoch": 0, "weight": 0.0, "bias": 0.0, "velocity": [0.0, 0.0]}
leave = False


def tell(message):
    """One line for hpsearch. Everything else this program prints is its log."""
    print("@hpsearch " + json.dumps(message), flush=True)


def save():
    """Writes the state beside its place and renames it: a kill leaves a whole file or none, never half of one.

    Each epoch has a file of its own; hpsearch removes those that nobody needs any more.
    """
    checkpoint = os.path.join(checkpoints, f"epoch-{state['epoch']}.json")
    with open(checkpoint + ".part", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(checkpoint + ".part", checkpoint)
    return checkpoint


def on_sigterm(_signal, _frame):
    global leave
    leave = True


signal.signal(signal.SIGTERM, on_sigterm)
resume = os.environ.get("HPSEARCH_RESUME")
if resume and os.path.exists(resume):
    with open(resume) as file:
        state = json.load(file)
    print("going on after epoch", state["epoch"])

while state["epoch"] < EPOCHS:
    share = state["epoch"] / EPOCHS
    rate = arguments.learning_rate * (0.5 * (1 + math.cos(math.pi * share)) if arguments.schedule == "cosine" else 1.0)
    errors = [(state["weight"] * x + state["bias"] - y, x) for x, y in points]
    gradients = [sum(e * x for e, x in errors) / len(points), sum(e for e, _ in errors) / len(points)]
    state["velocity"] = [arguments.momentum * v - rate * g for v, g in zip(state["velocity"], gradients)]
    state["weight"] += state["velocity"][0]
    state["bias"] += state["velocity"][1]
    state["epoch"] += 1
    loss = sum((state["weight"] * x + state["bias"] - y) ** 2 for x, y in points) / len(points)
    tell({"checkpoint": save(), "step": state["epoch"]})
    tell({"step": state["epoch"], "loss": loss})
    if leave:
        sys.exit(0)
