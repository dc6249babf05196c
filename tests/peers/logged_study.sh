# Sourced by the tests of other tools: a study in the current directory that logs on several clocks.
cat > study.toml <<'TOML'
[study]
name = "logged"
metric = "loss"
direction = "minimize"
step = "step"
[space]
lr = { float = [1e-4, 1e-1], log = true }
layers = { int = [1, 4] }
optimizer = ["adamw", "sgd"]
nesterov = [true, false]
[sampler]
type = "random"
[pruner]
type = "none"
[budget]
trials = 8
failures = 8
[devices]
use = ["cpu"]
trials_per_device = 2
[track]
to = ["tensorboard:live", "wandb:live-wandb"]
[command]
run = ["python3", "program.py"]
TOML
cat > program.py <<'PYTHON'
import json, os, sys

params = json.loads(open(os.environ["HPSEARCH_PARAMS"]).read())
trial = int(os.environ["HPSEARCH_TRIAL"])
for step in range(1, 101):
    loss = 1 / (params["lr"] * step + 0.1)
    print("@hpsearch", json.dumps({"step": step, "loss": loss, "train/accuracy": step / 101}), flush=True)
    sys.stdin.readline()
    if step % 10 == 0:
        speed = [float("nan"), float("inf"), -float("inf"), 0.1][trial % 4]
        print("@hpsearch", json.dumps({"epoch": step / 20, "speed": speed}), flush=True)
if trial == 5:
    sys.exit(3)
PYTHON
