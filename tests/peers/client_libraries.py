"""Run by hand: the Python client's callbacks with the real transformers, Lightning and Keras.

    python3 -m venv v && v/bin/pip install transformers accelerate torch lightning keras pandas polars
    HPSEARCH_BINARY=target/debug/hpsearch PYTHONPATH=python v/bin/python tests/peers/client_libraries.py

Each library trains one small model in the two trials of a search, of which the pruner stops one;
the values in the store are compared with those that the library has.
"""

import json
import os
import subprocess
import sys
import tempfile
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


def transformers(lr: float) -> Dict[str, Any]:
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
        output_dir="out", max_steps=40, logging_steps=5, save_steps=20, learning_rate=lr,
        optim="sgd", report_to=[], disable_tqdm=True, use_cpu=True, max_grad_norm=0.0,
    )
    trainer = Trainer(Line(), arguments, train_dataset=rows, callbacks=[HpsearchCallback()])
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    return {str(entry["step"]): entry["loss"] for entry in history}


def lightning(lr: float) -> Dict[str, Any]:
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
                self.seen[str(self.global_step)] = float(loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=self.hparams["lr"])

    torch.manual_seed(0)
    x = torch.arange(32).reshape(-1, 1) / 32
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, 2 * x), batch_size=8)
    logger = HpsearchLogger()
    model = Line(lr)
    trainer = pl.Trainer(
        max_epochs=10, logger=logger, log_every_n_steps=5, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", callbacks=[logger.stop_callback()],
    )
    trainer.fit(model, data)
    return model.seen


def keras(lr: float) -> Dict[str, Any]:
    import keras as library
    import numpy

    from hpsearch.integrations import KerasCallback

    library.utils.set_random_seed(0)
    x = numpy.arange(32).reshape(-1, 1) / 32
    model = library.Sequential([library.layers.Dense(1)])
    model.compile(optimizer=library.optimizers.SGD(lr), loss="mse")
    history = model.fit(x, 2 * x, epochs=8, verbose=0, callbacks=[KerasCallback()])
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
    seen = LIBRARIES[name][0](run.params["lr"])
    number = os.environ.get("HPSEARCH_TRIAL", "alone")
    Path(f"seen-{number}.json").write_text(json.dumps([seen, run.stop_reason]))
    run.finish()


def hpsearch_of(words: "list[str]") -> Any:
    program = os.path.abspath(os.environ["HPSEARCH_BINARY"])
    return json.loads(subprocess.check_output([program, *words, "--json"]))


def compare(name: str) -> None:
    _, step, upper = LIBRARIES[name]
    binary = os.path.abspath(os.environ["HPSEARCH_BINARY"])
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        study = STUDY.format(
            name=name, metric="loss", step=step, upper=upper, python=sys.executable, program=THIS
        )
        Path("study.toml").write_text(study)
        done = subprocess.run([binary, "run", "study.toml", "--plain"], text=True, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr
        first, second = sorted(
            hpsearch_of(["trials", name])["trials"], key=lambda trial: trial["number"]
        )
        seen, _ = json.loads(Path("seen-0.json").read_text())
        curve = hpsearch_of(["curves", name, "0"])
        stored = points(curve)
        assert stored.keys() == seen.keys() and len(seen) >= 7, (stored, seen)
        for at, value in seen.items():
            assert abs(stored[at] - value) <= 1e-6 * max(1, abs(value)), (at, stored[at], value)
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
    else:
        os.environ["PYTHONPATH"] = os.path.abspath(os.environ.get("PYTHONPATH", "python"))
        for library in LIBRARIES:
            compare(library)
