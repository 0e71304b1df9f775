"""Training that can be saved and continued: the model of `tiny_gpt`, sharded over all ranks (FSDP2), with AdamW.

A checkpoint is a folder that torch.distributed.checkpoint writes, every rank its own file. It is complete once it has
the file `complete`, which rank 0 writes and syncs after all ranks have written; until then nobody resumes from it.
Beside the model it has a large tensor of known numbers, so that a shard in the wrong place is found at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import Job, collective
from tiny_gpt import TinyGpt, batch, loss_of
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard

RATE = 3e-3  # of AdamW
SAMPLES = 4  # of a rank, where as many ranks continue a training as began it
_PRIME = 16_777_213  # below 2^24: every whole number up to it is a float32


class Resumable:
    """The training as one rank sees it, after `steps` steps.

    The size of the batch and the number of known numbers are those of the whole job, and multiples of its ranks.
    """

    def __init__(self, job: Job, batch_size: int, known_numbers: int) -> None:
        self.job, self.batch_size, self.steps = job, batch_size, 0
        self.mesh = init_device_mesh(job.device.type, (job.world_size,))
        self.model = TinyGpt().to(job.device)
        for part in (*self.model.blocks.values(), self.model):
            fully_shard(part, mesh=self.mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, foreach=False)
        each = known_numbers // job.world_size
        self.known = DTensor.from_local(known(job.rank * each, each).to(job.device), self.mesh, [Shard(0)])

    def step(self) -> float:
        """One step of training; returns the loss of the whole batch."""
        each = self.batch_size // self.job.world_size
        whole = batch(self.steps, self.batch_size)
        inputs, targets = (part[self.job.rank * each :][:each].to(self.job.device) for part in whole)
        with collective(f"step {self.steps + 1}"):
            loss = loss_of(self.model(inputs), targets)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            total = loss.detach().double().reshape(1) / self.job.world_size
            dist.all_reduce(total)
        self.steps += 1
        return float(total[0])

    def save(self, folder: Path) -> None:
        """Write a checkpoint of all ranks; it is not complete yet."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        state = {"model": model, "optimizer": optimizer, "steps": self.steps, "known": self.known}
        with collective("saving a checkpoint"):
            dcp.save(state, checkpoint_id=folder)

    def load(self, folder: Path) -> None:
        """Continue from a checkpoint, of whatever number of ranks."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        local = self.known.to_local()
        local.zero_()
        state = {"model": model, "optimizer": optimizer, "steps": 0, "known": self.known}
        with collective("loading a checkpoint"):
            dcp.load(state, checkpoint_id=folder)
        set_state_dict(self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer)
        self.steps = int(state["steps"])

    def shards_in_place(self) -> bool:
        """Whether this rank has the part of the known numbers that it must have."""
        local = self.known.to_local()
        return bool(torch.equal(local.cpu(), known(self.job.rank * len(local), len(local))))

    def weights(self) -> dict[str, str]:
        """The SHA-256 of every weight as a whole, by name: the same for any number of ranks."""
        with collective("gathering weights"):
            full = {name: one.full_tensor() for name, one in self.model.named_parameters()}
        return {name: hashlib.sha256(one.detach().cpu().numpy().tobytes()).hexdigest() for name, one in full.items()}

    def spoil(self) -> None:
        """Exchange the two halves of this rank's shard of one weight: a wrong shard, for testing the tests."""
        weight = self.model.blocks["0"].up.weight
        with torch.no_grad():
            local = weight.to_local()
            local.copy_(local.roll(len(local) // 2, 0))


def known(first: int, count: int) -> torch.Tensor:
    """Numbers that differ from place to place, exact in float32."""
    places = torch.arange(first, first + count, dtype=torch.int64)
    return ((places * 2_654_435_761) % _PRIME).float()


def sizes(job: Job, size_mib: int) -> tuple[int, int]:
    """The size of the batch for a training that begins on these ranks, and known numbers of so many MiB at least."""
    return SAMPLES * job.world_size, -(-(size_mib << 18) // job.world_size) * job.world_size


def alone(steps: int, batch_size: int) -> list[float]:
    """The losses of the same training in one process, in float64."""
    model = TinyGpt().double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, foreach=False)
    losses = []
    for step in range(steps):
        inputs, targets = batch(step, batch_size)
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


def checksums(folder: Path, names: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Size, bytes, and SHA-256 of files; what is not there has size -1."""
    found = {}
    for name in names:
        try:
            with (folder / name).open("rb") as file:
                digest = hashlib.sha256()
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
                found[name] = os.fstat(file.fileno()).st_size, digest.hexdigest()
        except FileNotFoundError:
            found[name] = -1, ""
    return found


def write_synced(path: Path, value: object) -> None:
    """Write JSON to a file such that it is there as a whole or not at all, whenever this node fails."""
    beside = path.with_name(path.name + ".new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
