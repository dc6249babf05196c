"""Run by hand: the Python client's callbacks with the real transformers, Lightning and Keras.

    python3 -m venv v && v/bin/pip install transformers accelerate torch lightning keras pandas polars
    HPSEARCH_BINARY=target/debug/hpsearch PYTHONPATH=python v/bin/python tests/peers/client_libraries.py

Each library trains one small model in the two trials of a search, of which the pruner stops one; then
in a run by itself, which its callback begins; then in another, until `hpsearch stop` ends it. The
values in the store are compared with those that the library has, and so are the checkpoints.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict

os.environ.setdefault("KERAS_BACKEND", "torch")

STUDY = """\
[study]
name = "{name}"
metric = "{metric}"
direction = "minimize"
step = "{step}"
[space]
lr = {{ float = [0.0001, 10.0], log = true }}
[sampler]
type = "grid"
[pruner]
type = "threshold"
upper = {upper}
[command]
run = ["{python}", "{program}", "{name}"]
[devices]
use = ["cpu"]
[budget]
trials = 2
[[enqueue]]
lr = 0.05
[[enqueue]]
lr = 10.0
"""


#: So many times as long as in a test: until somebody stops it.
ENDLESS = 100_000


def transformers(lr: float, times: int, begin: Dict[str, Any]) -> Dict[str, Any]:
    """The losses by step as the Trainer's own history has them."""
    import torch
    from transformers import Trainer, TrainingArguments

    from hpsearch.integrations import HpsearchCallback

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = torch.nn.Linear(1, 1)

        def forward(self, x: Any, labels: Any) -> Any:
            found = self.line(x)
            return {"loss": torch.nn.functional.mse_loss(found, labels), "logits": found}

    torch.manual_seed(0)
    rows = [{"x": torch.tensor([i / 32]), "labels": torch.tensor([2 * i / 32])} for i in range(32)]
    arguments = TrainingArguments(
        output_dir="out", max_steps=40 * times, logging_steps=5, save_steps=20, learning_rate=lr,
        save_total_limit=3,
        optim="sgd", report_to=[], disable_tqdm=True, use_cpu=True, max_grad_norm=0.0,
    )
    callback = HpsearchCallback(**begin)
    trainer = Trainer(Line(), arguments, train_dataset=rows, callbacks=[callback])
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    return {str(entry["step"]): entry["loss"] for entry in history}


def lightning(lr: float, times: int, begin: Dict[str, Any]) -> Dict[str, Any]:
    import lightning.pytorch as pl
    import torch

    from hpsearch.integrations import HpsearchLogger

    class Line(pl.LightningModule):
        def __init__(self, lr: float) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.line = torch.nn.Linear(1, 1)
            self.seen: Dict[str, float] = {}

        def training_step(self, batch: Any, _: int) -> Any:
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.line(x), y)
            self.log("loss", loss)
            if (self.global_step + 1) % 5 == 0:
                self.seen[str(self.global_step + 1)] = float(loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=self.hparams["lr"])

    torch.manual_seed(0)
    x = torch.arange(32).reshape(-1, 1) / 32
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, 2 * x), batch_size=8)
    logger = HpsearchLogger(**begin)
    model = Line(lr)
    trainer = pl.Trainer(
        max_epochs=10 * times, logger=logger, log_every_n_steps=5, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", callbacks=[logger.stop_callback()],
        default_root_dir="out",
    )
    trainer.fit(model, data)
    return model.seen


def keras(lr: float, times: int, begin: Dict[str, Any]) -> Dict[str, Any]:
    import keras as library
    import numpy

    from hpsearch.integrations import KerasCallback

    library.utils.set_random_seed(0)
    x = numpy.arange(32).reshape(-1, 1) / 32
    model = library.Sequential([library.layers.Dense(1)])
    model.compile(optimizer=library.optimizers.SGD(lr), loss="mse")
    callback = KerasCallback(**begin)

    def save(epoch: int, _: Any) -> None:
        if epoch % 4 == 3 and epoch < 8:
            model.save(f"epoch-{epoch + 1}.keras")
            callback.run.checkpoint(f"epoch-{epoch + 1}.keras")

    saves = library.callbacks.LambdaCallback(on_epoch_end=save)
    history = model.fit(x, 2 * x, epochs=8 * times, verbose=0, callbacks=[callback, saves])
    return {str(epoch + 1): loss for epoch, loss in enumerate(history.history["loss"])}


LIBRARIES = {
    "transformers": (transformers, "step", 100.0),
    "lightning": (lightning, "step", 100.0),
    "keras": (keras, "epoch", 100.0),
}


def trial(name: str) -> None:
    """One trial: trains, and leaves what the library saw beside the study."""
    import hpsearch

    run = hpsearch.init(config={"lr": 0.05})
    seen = LIBRARIES[name][0](run.params["lr"], 1, {})
    number = os.environ.get("HPSEARCH_TRIAL", "alone")
    Path(f"seen-{number}.json").write_text(json.dumps([seen, run.stop_reason]))
    run.finish()


def alone(name: str, times: int) -> None:
    """A run by itself, which the library's callback begins."""
    seen = LIBRARIES[name][0](0.05, times, {"study": name, "config": {"lr": 0.05}})
    import hpsearch

    run = hpsearch._init.current()
    reason = None if run is None else run.stop_reason
    Path("seen-alone.json").write_text(json.dumps([seen, reason]))


def compare_alone(name: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        done = subprocess.run([sys.executable, THIS, name, "1"], text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
        (run,) = hpsearch_of(["trials", name])["trials"]
        assert run["state"] == "complete" and run["params"]["lr"] == 0.05, run
        seen, _ = json.loads(Path("seen-alone.json").read_text())
        equal(points(hpsearch_of(["curves", name, "0", "--metric", "loss"])), seen)
        kept = checkpoints(name, 0)
        # Lightning removes those that are superseded.
        assert kept and os.path.exists(kept[-1]), kept
        print(f"{name} alone: {len(seen)} values are equal; checkpoints registered: {len(kept)}")
        # Until somebody stops it.
        words = [sys.executable, THIS, name, str(ENDLESS)]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, text=True, **pipes) as process:
            until = time.monotonic() + 120
            while run_of(name, 1).get("last_step") is None:
                assert process.poll() is None and time.monotonic() < until, process.stderr
                time.sleep(0.2)
            begun = time.monotonic()
            subprocess.run([binary(), "stop", name, "1"], check=True, capture_output=True)
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
        run = run_of(name, 1)
        assert run["state"] == "paused" and "user" in run["reason"], run
        print(f"{name} alone: `hpsearch stop` ended it in {time.monotonic() - begun:.1f} s at {run['last_step']}")
        os.chdir("/")


def run_of(name: str, number: int) -> Dict[str, Any]:
    listed = hpsearch_of(["trials", name])["trials"]
    return next((run for run in listed if run["number"] == number), {})


def checkpoints(name: str, number: int) -> "list[str]":
    import sqlite3

    sql = "SELECT path FROM checkpoint JOIN trial ON trial.id = trial_id WHERE trial.number = ? ORDER BY step"
    store = sqlite3.connect("runs/hpsearch.db")
    found = [path for (path,) in store.execute(sql, (number,))]
    store.close()
    return found


def equal(stored: Dict[str, float], seen: Dict[str, float]) -> None:
    assert stored.keys() == seen.keys() and len(seen) >= 7, (stored, seen)
    for at, value in seen.items():
        assert abs(stored[at] - value) <= 1e-6 * max(1, abs(value)), (at, stored[at], value)


def binary() -> str:
    return os.path.abspath(os.environ["HPSEARCH_BINARY"])


def hpsearch_of(words: "list[str]") -> Any:
    done = subprocess.run([binary(), *words, "--json"], text=True, capture_output=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"trials": []}


def compare(name: str) -> None:
    _, step, upper = LIBRARIES[name]
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        study = STUDY.format(
            name=name, metric="loss", step=step, upper=upper, python=sys.executable, program=THIS
        )
        Path("study.toml").write_text(study)
        done = subprocess.run([binary(), "run", "study.toml", "--plain"], text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
        first, second = sorted(
            hpsearch_of(["trials", name])["trials"], key=lambda trial: trial["number"]
        )
        seen, _ = json.loads(Path("seen-0.json").read_text())
        curve = hpsearch_of(["curves", name, "0"])
        equal(points(curve), seen)
        assert first["state"] == "complete", first
        assert second["state"] == "pruned", second
        print(f"{name}: {len(seen)} values are equal; trial 1 was stopped: {second['reason']}")
        os.chdir("/")


def points(curves: Any) -> Dict[str, float]:
    """The points of the one trial, of either version of `curves --json`."""
    if "series" in curves:
        found = [series for series in curves["series"] if series["metric"] == "loss"]
        return {f"{point[0]:g}": float(point[1]) for point in found[0]["points"]}
    (only,) = curves["trials"]
    return {f"{point[0]:g}": float(point[1]) for point in only["points"]}


THIS = os.path.abspath(__file__)

if __name__ == "__main__":
    if len(sys.argv) == 2:
        trial(sys.argv[1])
    elif len(sys.argv) == 3:
        alone(sys.argv[1], int(sys.argv[2]))
    else:
        os.environ["HPSEARCH_BINARY"] = binary()
        os.environ["PYTHONPATH"] = os.path.abspath(os.environ.get("PYTHONPATH", "python"))
        for library in LIBRARIES:
            compare(library)
            compare_alone(library)
