"""Prints the table `GOLDEN` of src/trainer/learning_rate_schedule.rs: what transformers' and PyTorch's own schedulers do in a run of ten steps, two of them warm-up.

Needs torch and transformers (checked with 2.15 and 5.x):  python3 tests/peers/schedules_golden.py
"""

import json
import warnings

import torch
from transformers import get_scheduler

warnings.filterwarnings("ignore")

COURSES = [
    ("linear", {}),
    ("cosine", {}),
    ("cosine", {"num_cycles": 1.5}),
    ("cosine_with_restarts", {"num_cycles": 3}),
    ("cosine_with_min_lr", {"min_lr": 1e-4}),
    ("cosine_with_min_lr", {"min_lr_rate": 0.1}),
    ("polynomial", {}),
    ("polynomial", {"lr_end": 1e-4, "power": 2.0}),
    ("constant", {}),
    ("constant_with_warmup", {}),
    ("inverse_sqrt", {}),
    ("inverse_sqrt", {"timescale": 5}),
    ("warmup_stable_decay", {"num_decay_steps": 4}),
    ("warmup_stable_decay", {"num_decay_steps": 3, "num_stable_steps": 2, "min_lr_ratio": 0.1, "warmup_type": "cosine", "decay_type": "1-sqrt"}),
    ("warmup_stable_decay", {"num_decay_steps": 3, "warmup_type": "1-sqrt", "decay_type": "linear"}),
]
PEAK = 1e-3


def optimizer():
    return torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)


def course(name, settings):
    adam = optimizer()
    schedule = get_scheduler(name, adam, 2, 10, scheduler_specific_kwargs=dict(settings) or None)
    factors = []
    for _ in range(12):
        factors.append(round(schedule.get_last_lr()[0] / PEAK, 9))
        adam.step()
        schedule.step()
    return factors


def plateau(losses):
    adam = optimizer()
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, factor=0.5, patience=1, cooldown=1, min_lr=1e-4, threshold=0.01)
    rates = []
    for loss in losses:
        schedule.step(loss)
        rates.append(adam.param_groups[0]["lr"])
    return rates


for name, settings in COURSES:
    print(f"{name} {json.dumps(settings)}: {' '.join(f'{factor:.9g}' for factor in course(name, settings))}")
losses = [1.0, 0.9, 0.895, float("nan"), 0.95, 0.94, 0.93, 0.93, 0.5] + [0.6] * 8
print(plateau(losses))
