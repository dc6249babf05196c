"""Run by hand: searches that pause, resume and stop trials of the real transformers, Lightning and Keras.

    python3 -m venv v && v/bin/pip install transformers accelerate torch lightning keras
    HPSEARCH_BINARY=target/debug/hpsearch PYTHONPATH=python v/bin/python tests/peers/paused_libraries.py [LIBRARY..]

`asha` runs with `mode = "promote"` and with `mode = "stop"`. Each attempt must begin after the epoch at which the one before ended,
each curve must be that of an uninterrupted training, and nothing may be left running.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

os.environ.setdefault("KERAS_BACKEND", "torch")

EPOCHS, BATCHES = 9, 4

STUDY = """\
[study]
name = "{name}"
metric = "loss"
direction = "minimize"
step = "{unit}"
[space]
lr = {{ float = [0.0001, 1.0], log = true }}
[sampler]
type = "random"
[pruner]
type = "asha"
mode = "{mode}"
min_resource = {least}
max_resource = {most}
[command]
run = ["{python}", "{program}", "--trial", "{name}"]
[devices]
use = ["cpu"]
trials_per_device = 2
[budget]
trials = 6
"""

#: Learning rates of the trials: from those that learn least to those that learn most, and back.
RATES = [0.001, 0.003, 0.01, 0.1, 0.05, 0.002]


def resume() -> Optional[str]:
    return os.environ.get("HPSEARCH_RESUME")


def checkpoints() -> str:
    return os.environ.get("HPSEARCH_CHECKPOINT_DIR", os.getcwd())


def pace() -> None:
    """Epochs that take longer than the start of a program, or no pause would be worth it."""
    time.sleep(float(os.environ.get("PACE", "0")))


def transformers(lr: float) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    from hpsearch.integrations import HpsearchCallback

    class Epochs(TrainerCallback):
        def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            begun(round(state.epoch) + 1)

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=16,
    )
    rows = [torch.tensor([(i + k * (i % 3 + 1)) % 32 for k in range(8)]) for i in range(32)]
    data = [{"input_ids": row, "labels": row} for row in rows]
    arguments = TrainingArguments(
        output_dir=checkpoints(), num_train_epochs=EPOCHS,
        per_device_train_batch_size=len(data) // BATCHES, logging_strategy="epoch", save_strategy="epoch",
        learning_rate=lr, lr_scheduler_type="constant", report_to=[], disable_tqdm=True, use_cpu=True,
    )
    callbacks = [HpsearchCallback(), Epochs()]
    trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=data, callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume())


def lightning(lr: float) -> None:
    import lightning.pytorch as pl
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint

    from hpsearch.integrations import HpsearchLogger

    class Line(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.line = torch.nn.Linear(1, 1)

        def on_train_epoch_start(self) -> None:
            begun(self.current_epoch + 1)

        def training_step(self, batch: Any, _: int) -> Any:
            x, y = batch
            loss = torch.nn.functional.mse_loss(self.line(x), y)
            self.log("loss", loss, on_step=False, on_epoch=True)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=lr)

    torch.manual_seed(0)
    x = torch.arange(32).reshape(-1, 1) / 32
    rows = torch.utils.data.TensorDataset(x, 2 * x)
    data = torch.utils.data.DataLoader(rows, batch_size=len(x) // BATCHES)
    logger = HpsearchLogger()
    saves = ModelCheckpoint(checkpoints(), save_top_k=-1)
    trainer = pl.Trainer(
        max_epochs=EPOCHS, logger=logger, log_every_n_steps=BATCHES, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", callbacks=[logger.stop_callback(), saves],
    )
    trainer.fit(Line(), data, ckpt_path=resume())


def keras(lr: float) -> None:
    import keras as library
    import numpy

    from hpsearch.integrations import KerasCallback

    library.utils.set_random_seed(0)
    x = numpy.arange(32).reshape(-1, 1) / 32
    checkpoint, done = resume(), 0
    if checkpoint:
        model = library.models.load_model(checkpoint)
        done = int(Path(checkpoint).stem.rpartition("-")[2])
    else:
        model = library.Sequential([library.layers.Dense(1)])
        model.compile(optimizer=library.optimizers.Adam(lr), loss="mse")
    callback = KerasCallback()
    directory = checkpoints()

    def save(epoch: int, _: Any) -> None:
        path = f"{directory}/epoch-{epoch + 1}.keras"
        model.save(path)
        callback.run.checkpoint(path)

    saves = library.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, _: begun(epoch + 1), on_epoch_end=save
    )
    model.fit(
        x, 2 * x, epochs=EPOCHS, initial_epoch=done, batch_size=len(x) // BATCHES, shuffle=False,
        verbose=0, callbacks=[callback, saves],
    )


#: Each with its unit of steps, and the steps of an epoch.
LIBRARIES = {
    "transformers": (transformers, "step", BATCHES),
    "lightning": (lightning, "step", BATCHES),
    "keras": (keras, "epoch", 1),
}


def begun(epoch: int) -> None:
    words = [os.environ.get(f"HPSEARCH_{name}", "0") for name in ("TRIAL", "ATTEMPT")]
    with open("epochs", "a") as file:
        file.write(" ".join([*words, str(epoch)]) + "\n")
    pace()


def trial(name: str, lr: Optional[float]) -> None:
    import hpsearch

    run = hpsearch.init(config={"lr": lr}, study="whole", name=f"{lr}")
    LIBRARIES[name][0](run.params["lr"])
    run.finish()


def listed(study: str) -> List[Dict[str, Any]]:
    return list(answer(["trials", study, "--sort", "number"])["trials"])


def answer(words: List[str]) -> Any:
    done = subprocess.run([binary(), *words, "--json"], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def curve(study: str, number: int) -> Dict[float, float]:
    (only,) = answer(["curves", study, str(number), "--metric", "loss"])["series"]
    return {float(point[0]): float(point[1]) for point in only["points"]}


def binary() -> str:
    return os.path.abspath(os.environ["HPSEARCH_BINARY"])


def compare(name: str, mode: str) -> None:
    _, unit, steps = LIBRARIES[name]
    study = STUDY.format(
        name=name, mode=mode, unit=unit, least=steps, most=steps * EPOCHS, python=sys.executable,
        program=THIS,
    )
    Path("study.toml").write_text(study + "".join(f"[[enqueue]]\nlr = {lr}\n" for lr in RATES))
    words = [binary(), "run", "study.toml", "--plain"]
    begun = time.monotonic()
    done = subprocess.run(words, text=True, capture_output=True, env={**os.environ, "PACE": "1.5"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert not left_running(), left_running()
    # The epochs of each trial by attempt.
    epochs: Dict[int, Dict[int, List[int]]] = {}
    for line in Path("epochs").read_text().splitlines():
        number, attempt, epoch = map(int, line.split())
        epochs.setdefault(number, {}).setdefault(attempt, []).append(epoch)
    resumed, states = 0, {}
    for trial in listed(name):
        number, state = trial["number"], trial["state"]
        states[state] = states.get(state, 0) + 1
        attempts = [found for _, found in sorted(epochs[number].items())]
        all_epochs = [epoch for found in attempts for epoch in found]
        last = trial["last_step"]
        print(f"  trial {number}: {state} at {last}: epochs {attempts}", trial.get("reason") or "")
        assert all_epochs == list(range(1, len(all_epochs) + 1)), attempts
        resumed += len(attempts) - 1
        assert (state == "complete") == (len(all_epochs) == EPOCHS), trial
        stored = curve(name, number)
        # One that is stopped within an epoch reports nothing of it.
        reported = all_epochs[: len(all_epochs) - (state == "pruned" and len(stored) < len(all_epochs))]
        assert list(stored) == [steps * n for n in reported], (stored, attempts)
        whole = uninterrupted(name, trial["params"]["lr"])
        for at, value in stored.items():
            assert abs(value - whole[at]) <= 1e-5 * abs(whole[at]), (at, value, whole[at])
    took = time.monotonic() - begun
    print(f"{name}, mode = {mode}: {states}, {resumed} attempts resumed, all curves are those of uninterrupted trainings ({took:.0f} s)")
    assert states.get("complete") and len(states) > 1, states
    assert (resumed > 0) == (mode == "promote"), resumed


def uninterrupted(name: str, lr: float) -> Dict[float, float]:
    """The curve of a run by itself."""
    words = [sys.executable, THIS, "--trial", name, str(lr)]
    directory = Path(f"whole-{lr}")
    if not directory.exists():
        directory.mkdir()
        done = subprocess.run(words, text=True, capture_output=True, cwd=directory)
        assert done.returncode == 0, done.stdout + done.stderr
    present = os.getcwd()
    os.chdir(directory)
    try:
        return curve("whole", 0)
    finally:
        os.chdir(present)


def left_running() -> List[str]:
    """The processes of the working directory, but this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.name != str(os.getpid()) and os.readlink(process / "cwd") == os.getcwd():
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


THIS = os.path.abspath(__file__)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--trial"]:
        trial(sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else None)
    else:
        os.environ["HPSEARCH_BINARY"] = binary()
        os.environ["PYTHONPATH"] = os.path.abspath(os.environ.get("PYTHONPATH", "python"))
        for library in sys.argv[1:] or LIBRARIES:
            for mode in ("promote", "stop"):
                with tempfile.TemporaryDirectory() as directory:
                    os.chdir(directory)
                    compare(library, mode)
                    os.chdir("/")
