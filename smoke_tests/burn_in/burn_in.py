"""Train and multiply matrices for hours; whatever drifts from the first quarter to the last is named.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 2 smoke_tests/burn_in/burn_in.py --scratch /tmp/here

The time of a turn is divided into slices. In each, the ranks of the turn train the small transformer of `tiny_gpt.py`
with DDP, then each multiplies matrices as `products.py` has it. After a slice

- the bits of all weights must be those of most ranks: DDP keeps them equal;
- the bits of all products must be those of most devices of one make;
- the loss must be a number.

At the end the seconds of a product and of a step in the last quarter are compared with those in the first; the larger
ratio is `slowdown`. On GPUs it is by medians, on CPUs by the fastest, in the thread's CPU time.

Turns: nodes that the design's power does not carry at once work one group after the other, and wait otherwise.
hpcforge computes a node's turn and puts it into `declared.json` beside this program.

After each slice the state is written. A run that is started again with the same folder continues after the last slice
that all ranks have finished. A run that ends well removes its state. State of another burn-in is not continued: with
another number of ranks or slices, other seconds of a slice, or another turn.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from products import Products, Series, checksum, compare, expected
from ranks import Job, Turn, collective, main, options_parser
from resumable import write_synced
from tiny_gpt import RATE, TinyGpt, batch, loss_of
from torch.nn.parallel import DistributedDataParallel

CPU_MINUTES, GPU_MINUTES = 0.3, 20.0
SLICES, SLICE_S = 8, 60.0  # a turn has at least this number of slices, each at most so long
SAMPLES = 4  # of a rank, in a step
ODD = 2 * 2_654_435_761


@dataclass
class State:
    """What a rank has done: by slice the seconds of a product and of a step; products; and steps of a slice."""

    product_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    products: int = 0
    steps: int = 0  # of a slice; 0: not measured yet
    of: dict[str, float] = field(default_factory=dict)  # the burn-in: ranks, slices, slice_s, turn


def kept(file: Path, of: dict[str, float]) -> State:
    """Return the state in a file if it is of this burn-in, else a new one."""
    try:
        told = json.loads(file.read_text())
    except FileNotFoundError:
        return State(of=of)
    return State(**told) if isinstance(told, dict) and told.get("of") == of else State(of=of)


class Training:
    """The ranks of a turn train one model; `group` has them, `members` are their numbers."""

    def __init__(self, job: Job, members: tuple[int, ...], group: dist.ProcessGroup) -> None:
        self.job, self.members, self.group = job, members, group
        model = TinyGpt().to(job.device)
        ids = [job.device] if job.device.type == "cuda" else None
        self.model = DistributedDataParallel(model, device_ids=ids, process_group=group)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE / 10, foreach=False)
        self.steps, self.loss = 0, 0.0

    def step(self) -> float:
        """One step on this rank's samples; its seconds, on a CPU those of this thread."""
        clock = time.perf_counter if self.job.device.type == "cuda" else time.thread_time
        began = clock()
        place = self.members.index(self.job.rank)
        whole = batch(self.steps, SAMPLES * len(self.members))
        inputs, targets = (part[place * SAMPLES :][:SAMPLES].to(self.job.device) for part in whole)
        with collective(f"step {self.steps}"):
            loss = loss_of(self.model(inputs), targets)
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.loss = float(loss.detach())
        self.steps += 1
        return clock() - began

    def bits(self) -> int:
        """The checksum of all weights."""
        flat = torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()])
        factors = torch.arange(len(flat), dtype=torch.int64, device=flat.device).mul_(ODD).add_(1)
        return checksum(flat, factors)

    def save(self, path: Path) -> None:
        """Write weights and the number of steps, whole or not at all."""
        beside = path.with_name(f"{path.name}.new")
        with beside.open("wb") as file:
            torch.save({"model": self.model.module.state_dict(), "steps": self.steps}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)

    def load(self, path: Path) -> None:
        """Continue from what the first rank of the turn has; the others get it from there."""
        if self.job.rank == self.members[0]:
            saved = torch.load(path, map_location=self.job.device, weights_only=True)
            self.model.module.load_state_dict(saved["model"])
            self.steps = int(saved["steps"])
        with collective("sharing saved weights"):
            steps = torch.tensor([self.steps], device=self.job.device)
            dist.broadcast(steps, self.members[0], group=self.group)
            for parameter in self.model.parameters():
                dist.broadcast(parameter.data, self.members[0], group=self.group)
        self.steps = int(steps[0])


class Burn:
    """A burn-in as one rank sees it: its turn, its state on disk, and its work."""

    def __init__(self, job: Job, options: argparse.Namespace, declared: Mapping[str, Any]) -> None:
        self.job, self.folder = job, Path(options.folder or options.scratch)
        self.gpu = job.device.type == "cuda"
        self.typical: Callable[[Sequence[float]], float] = statistics.median if self.gpu else min
        total_s = 60 * (options.minutes or (GPU_MINUTES if self.gpu else CPU_MINUTES))
        self.slices = max(SLICES, math.ceil(total_s / SLICE_S / 4) * 4)  # of a turn
        self.slice_s = total_s / self.slices
        turns = [int(of[0]) for of in job.of_all([declared["turn"]])]
        if declared["turn"] < 0:
            raise RuntimeError("the design's power does not carry this node's work, even alone")
        self.turns = sorted({turn for turn in turns if turn >= 0})
        if total_s * len(self.turns) > options.limit_s:
            wanted = f"{len(self.turns)} turns of {total_s:g} s"
            raise RuntimeError(f"{wanted} are more than the time limit of {options.limit_s:g} s: set time_limit")
        self.turn = declared["turn"]
        self.file = self.folder / f"burn_in.{job.rank}.json"
        of = {"ranks": job.world_size, "slices": self.slices, "slice_s": self.slice_s, "turn": self.turn}
        self.state = kept(self.file, of)
        self.products = Products(job, "bfloat16" if self.gpu else "float32")
        with collective("the making of turns"):
            made = {turn: dist.new_group([rank for rank, of in enumerate(turns) if of == turn]) for turn in self.turns}
        members = tuple(rank for rank, of in enumerate(turns) if of == self.turn)
        self.training = Training(job, members, made[self.turn])
        self.lead = job.rank == members[0]

    def weights(self, done: int) -> Path:
        """Where the weights after a number of slices are: the last two are kept."""
        return self.folder / f"burn_in.turn{self.turn}.{done % 2}.pt"

    def resume(self) -> int:
        """Continue after the last slice that all ranks of the turn have finished; the number of those."""
        done = [int(of[1]) for of in self.job.of_all([self.turn, len(self.state.product_s)])]
        first = min(done[rank] for rank in self.training.members)
        self.state.product_s, self.state.step_s = self.state.product_s[:first], self.state.step_s[:first]
        if first:
            self.training.load(self.weights(first))
        return first

    def work(self, number: int, flip: bool) -> bool:
        """One slice; whether its products are those of this device before, and what is left of the loss."""
        if not self.state.steps:
            began = time.perf_counter()
            self.training.step()
            self.training.step()
            each_s = (time.perf_counter() - began) / 2
            slowest = torch.tensor([each_s], dtype=torch.float64, device=self.job.device)
            with collective("the slowest of a turn"):
                dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=self.training.group)
            self.state.steps = max(1, int(self.slice_s / 2 / float(slowest[0])))
        steps_s = [self.training.step() for _ in range(self.state.steps)]
        self.series = self.products.run(self.slice_s / 2, Series(), flip_at=1 if flip else -1)
        self.state.products += len(self.series.sums)
        self.state.product_s.append(self.typical(self.series.seconds))
        self.state.step_s.append(self.typical(steps_s))
        right = math.isfinite(self.training.loss)
        if not right:
            self.job.wrong(f"loss of slice {number}", "a number", self.training.loss)
        return right

    def same_weights(self, number: int, active: bool) -> bool:
        """Whether this rank's weights have the bits of most of its turn; every rank must call it."""
        bits = self.training.bits() if active else 0
        every = self.job.of_all([self.turn if active else -1, bits])
        most = expected([of[0] for of in every], [of[1] for of in every])[self.job.rank]
        if not active or most == bits:
            return True
        told = "those of most ranks" if most is None else f"{int(most):013x}"
        self.job.wrong(f"checksum of the weights after slice {number}", told, f"{bits:013x}")
        return False

    def keep(self) -> None:
        """Write the state: the weights first."""
        if self.lead:
            self.training.save(self.weights(len(self.state.product_s)))
        write_synced(self.file, vars(self.state))

    def slowdown(self) -> float:
        """The last quarter's seconds over those of the first, of a product or a step: the larger."""
        quarter = max(1, self.slices // 4)
        series = (self.state.product_s, self.state.step_s)
        return max(self.typical(seconds[-quarter:]) / self.typical(seconds[:quarter]) for seconds in series)

    def clear(self) -> None:
        """Remove the state."""
        self.file.unlink()
        for number in range(2 if self.lead else 0):
            self.weights(number).unlink(missing_ok=True)


def burn(job: Job, burning: Burn, first: int) -> None:
    """All slices of all turns: every rank takes part in what is compared after each."""
    firsts = {int(of[0]): int(of[1]) for of in job.of_all([burning.turn, first])}
    for turn in burning.turns:
        active = turn == burning.turn
        for number in range(firsts[turn], burning.slices):
            if active and number == burning.slices // 2:
                job.fault.strike(job.rank)
            flip = job.fault.falsifies(job.rank) and number == burning.slices // 2
            right = burning.work(number, flip) if active else True
            right &= burning.same_weights(number, active)
            right &= compare(job, f"slice {number}", burning.series if active else None)
            job.agree(right)
            if active:
                burning.keep()


def run(job: Job, options: argparse.Namespace) -> None:
    """Continue where a run before ended, work to the end, and report each rank."""
    header, began = job.header(), time.perf_counter()
    if not (options.folder or options.scratch):
        raise RuntimeError("it takes --scratch FOLDER, the same for every start")
    declared = json.loads(options.declared.read_text()) if options.declared.exists() else {"turn": 0}
    burning = Burn(job, options, declared)
    first = burning.resume()
    if -job.slowest([-float(first)])[0] >= burning.slices:  # the turn that has done least has none left
        text = f"no slice is left of {burning.slices}: remove {burning.folder}/burn_in.* for a new burn-in"
        raise RuntimeError(text)
    burn(job, burning, first)
    every = job.of_all([burning.slowdown(), burning.state.products, burning.training.steps, first])
    burning.clear()
    job.report_own({"slowdown": [of[0] for of in every], "products": [of[1] for of in every]})
    if job.rank == 0:
        told = {
            "steps": int(max(of[2] for of in every)),
            "slices": burning.slices,
            "resumed_after_slice": int(min(of[3] for of in every)),
            "turns": len(burning.turns),
        }
        job.say("", event="measurement", **told)
        elapsed = round(time.perf_counter() - began, 3)
        job.say(f"no bit drifted ({told['steps']} steps, {elapsed} s)", event="result", **header, seconds=elapsed)


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("Training and matrix products for hours: no bit and no speed drifts.")
    text = f"work of each turn, min (default: {CPU_MINUTES:g}, with GPUs {GPU_MINUTES:g})"
    options.add_argument("--minutes", type=float, default=0.0, help=text)
    options.add_argument("--folder", default="", help="folder of its state (default: that of --scratch)")
    beside = Path(__file__).with_name("declared.json")
    options.add_argument("--declared", type=Path, default=beside, help="what is declared (default: declared.json here)")
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("burn_in", alone.json, lambda: (alone, run))])
