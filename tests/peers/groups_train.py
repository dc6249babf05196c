"""Trains a small network with several processes, as a trial: by DistributedDataParallel, FSDP or DeepSpeed.

Every step's batch and noise depend on the step and the rank only, so that a trial that was killed and resumed ends with the
loss of an undisturbed one.
"""

import argparse
import os
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint
from torch import nn

import hpsearch

STEPS = 12


def model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def batch(step):
    dice = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    x = torch.randn(32, 16, generator=dice)
    return x, x.square().sum(dim=1, keepdim=True) / 16


class Ddp:
    """DistributedDataParallel: rank 0 saves everything in a file."""

    def __init__(self, lr):
        dist.init_process_group("gloo")
        self.model = nn.parallel.DistributedDataParallel(model())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr)

    def loss(self, x, y):
        return nn.functional.mse_loss(self.model(x), y)

    def train(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def save(self, path):
        if dist.get_rank() == 0:
            torch.save([self.model.state_dict(), self.optimizer.state_dict()], path)

    def load(self, path):
        weights, optimizer = torch.load(path)
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(optimizer)


class Fsdp(Ddp):
    """FSDP under accelerate (whose own wrapper of FSDP needs GPUs): every rank saves its shards in a directory."""

    def __init__(self, lr):
        from accelerate import Accelerator
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        Accelerator(cpu=True)  # begins the process group
        assert dist.get_backend() == "gloo", dist.get_backend()
        self.model = model()
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in [*self.model[::2], self.model]:
            fully_shard(layer, mesh=mesh)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr)

    def state(self):
        from torch.distributed.checkpoint.state_dict import get_state_dict

        weights, optimizer = get_state_dict(self.model, self.optimizer)
        return {"weights": weights, "optimizer": optimizer}

    def save(self, path):
        torch.distributed.checkpoint.save(self.state(), checkpoint_id=path)

    def load(self, path):
        from torch.distributed.checkpoint.state_dict import set_state_dict

        state = self.state()
        torch.distributed.checkpoint.load(state, checkpoint_id=path)
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["weights"], optim_state_dict=state["optimizer"]
        )


class DeepSpeed(Ddp):
    """ZeRO stage 1 by DeepSpeed: every rank saves its part of the optimizer in a directory."""

    def __init__(self, lr):
        import deepspeed

        deepspeed.init_distributed("gloo")
        network = model()
        self.model, *_ = deepspeed.initialize(
            model=network,
            optimizer=torch.optim.Adam(network.parameters(), lr),
            config={
                "train_micro_batch_size_per_gpu": 32,
                "zero_optimization": {"stage": 1},
                "zero_allow_untested_optimizer": True,
            },
        )

    def train(self, loss):
        self.model.backward(loss)
        self.model.step()

    def save(self, path):
        self.model.save_checkpoint(path, tag="state")

    def load(self, path):
        self.model.load_checkpoint(path, tag="state")


KINDS = {"ddp": Ddp, "fsdp": Fsdp, "deepspeed": DeepSpeed}


def save(training, step):
    """Saves under a temporary name, which rank 0 replaces once all have written."""
    path = os.path.join(os.environ["HPSEARCH_CHECKPOINT_DIR"], f"step-{step}")
    if dist.get_rank() == 0:
        for old in (path, path + ".part"):
            shutil.rmtree(old, ignore_errors=True)
    dist.barrier()
    training.save(path + ".part")
    dist.barrier()
    if dist.get_rank() == 0:
        os.rename(path + ".part", path)
    dist.barrier()
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--local_rank", type=int, help="given by deepspeed's launcher")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    training = KINDS[arguments.kind](arguments.lr)
    run = hpsearch.init()
    size = dist.get_world_size()
    assert size == int(os.environ["WORLD_SIZE"]) == 4, size
    begin = 0
    if resume := os.environ.get("HPSEARCH_RESUME"):
        training.load(resume)
        begin = int(resume.rsplit("-", 1)[1])
    if dist.get_rank() == 0:
        print(f"begins after step {begin} on port {os.environ['MASTER_PORT']}", flush=True)
    for step in range(begin + 1, STEPS + 1):
        loss = training.loss(*batch(step))
        training.train(loss)
        time.sleep(0.15)
        path = save(training, step)
        # The loss of all, and whether rank 0 was told to stop, are the same on all ranks.
        told = torch.stack([loss.detach().double(), torch.tensor(0.0, dtype=torch.float64)])
        dist.all_reduce(told)
        run.checkpoint(path, step=step)
        run.log({"loss": told[0].item() / size}, step=step)
        stops = torch.tensor(float(run.should_stop))
        dist.broadcast(stops, 0)
        if stops.item():
            break
    dist.barrier()
    dist.destroy_process_group()


main()
