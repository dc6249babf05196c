"""Makes src/trainer/tests/golden/optimizers.json: optimisers of transformers' Trainer, as their own packages compute them.

    python3 -m venv .venv && .venv/bin/pip install torch==2.15.0 transformers==5.24.0 schedulefree==1.4.1 bitsandbytes==0.50.2 safetensors
    .venv/bin/python tests/peers/optimizers_golden.py src/trainer/tests/golden

Of the tiny BERT that models_golden.py made: the losses of 20 steps of fine-tuning with each optimiser, its arguments, weight
decay and clipping as Trainer has them, and the logits afterwards, of the averaged weights where there are averages. Its tensors
are smaller than those that bitsandbytes keeps in 8 bits by default, so the limit is lower here.
"""
import copy
import json
import sys
from pathlib import Path

import bitsandbytes
import schedulefree
import torch
from bitsandbytes.functional import create_dynamic_map
from transformers import Adafactor, AutoModelForSequenceClassification, Trainer, get_scheduler

torch.set_num_threads(1)
STEPS, DECAY, SHOWN = 20, 0.1, 12
TARGET = Path(sys.argv[1])
BATCHES = [[0, 1, 2, 3], [1, 3], [2, 0, 1]]
MIN_8BIT_SIZE = 128
EMA_DECAY = 0.8


def classifier():
    model = AutoModelForSequenceClassification.from_pretrained(TARGET / "bert")
    about = json.loads((TARGET / "bert/golden.json").read_text())
    length = max(map(len, about["texts"]))
    ids = torch.tensor([text + [0] * (length - len(text)) for text in about["texts"]])
    mask = torch.tensor([[1] * len(text) + [0] * (length - len(text)) for text in about["texts"]])
    return model, {"input_ids": ids, "attention_mask": mask}, torch.tensor(about["labels"])


def groups_of(model):
    decayed = Trainer.get_decay_parameter_names(None, model)
    named = list(model.named_parameters())
    return [{"params": [one for name, one in named if (name in decayed) == decays], "weight_decay": DECAY if decays else 0.0}
            for decays in (True, False)]


def adamw_8bit(groups, model):
    # `Trainer.create_optimizer` keeps the states of embeddings in 32 bits.
    manager = bitsandbytes.optim.GlobalOptimManager.get_instance()
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            manager.register_module_override(module, "weight", {"optim_bits": 32})
    return bitsandbytes.optim.AdamW(groups, lr=5e-3, betas=(0.9, 0.999), eps=1e-8, optim_bits=8, min_8bit_size=MIN_8BIT_SIZE)


CASES = {
    "adafactor": (5e-3, "linear", 0, lambda groups, _: Adafactor(groups, lr=5e-3, scale_parameter=False, relative_step=False)),
    "lion_32bit": (1e-3, "linear", 0, lambda groups, _: bitsandbytes.optim.Lion(groups, lr=1e-3, betas=(0.9, 0.98), optim_bits=32)),
    "rmsprop": (1e-3, "linear", 0, lambda groups, _: torch.optim.RMSprop(groups, lr=1e-3)),
    "schedule_free_adamw": (5e-3, "constant", 4, lambda groups, _: schedulefree.AdamWScheduleFree(
        groups, lr=5e-3, betas=(0.9, 0.999), eps=1e-8, warmup_steps=4)),
    "adamw_8bit": (5e-3, "linear", 0, adamw_8bit),
    "adamw": (5e-3, "linear", 0, lambda groups, _: torch.optim.AdamW(groups, lr=5e-3, betas=(0.9, 0.999), eps=1e-8)),
}


def fit(name):
    rate, scheduler, warmup, optimizer_of = CASES[name]
    model, batch, labels = classifier()
    model.train()
    optimizer = optimizer_of(groups_of(model), model)
    schedule = get_scheduler(scheduler, optimizer, num_warmup_steps=0, num_training_steps=STEPS)
    average = copy.deepcopy(model) if name == "adamw" else None
    losses = []
    for step in range(STEPS):
        chosen = BATCHES[step % len(BATCHES)]
        if name == "schedule_free_adamw":
            optimizer.train()
        optimizer.zero_grad()
        loss = model(**{key: value[chosen] for key, value in batch.items()}, labels=labels[chosen]).loss
        losses.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if average is not None:
            with torch.no_grad():
                for mean, value in zip(average.parameters(), model.parameters()):
                    mean.mul_(EMA_DECAY).add_(value, alpha=1 - EMA_DECAY)
    if name == "schedule_free_adamw":
        optimizer.eval()
    shown = model if average is None else average
    shown.eval()
    with torch.no_grad():
        logits = [float(f"{number:.7g}") for number in shown(**batch).logits.flatten().tolist()[:SHOWN]]
    if name == "adamw_8bit":
        kept = [state["state1"].dtype == torch.uint8 for state in optimizer.state.values()]
        assert 0 < sum(kept) < len(kept), kept
    arguments = {"learning_rate": rate, "lr_scheduler_type": scheduler, "warmup_steps": warmup}
    if name == "lion_32bit":
        arguments["adam_beta2"] = 0.98
    if average is not None:
        arguments["ema_decay"] = EMA_DECAY
    return {"arguments": {"optim": name, "weight_decay": DECAY, "max_steps": STEPS, **arguments}, "losses": losses, "logits": logits}


def main():
    maps = {name: create_dynamic_map(signed=signed).tolist() for name, signed in [("signed_map", True), ("unsigned_map", False)]}
    contents = {"batches": BATCHES, "min_8bit_size": MIN_8BIT_SIZE, **maps, "cases": {name: fit(name) for name in CASES}}
    file = TARGET / "optimizers.json"
    file.write_text(json.dumps(contents) + "\n")
    print(f"{file.stat().st_size} {file}")


if __name__ == "__main__":
    main()
