"""The modes of parallel training: each trains the model of `tiny_gpt` and is compared with its reference.

A mode runs in groups of `ranks` ranks, whose dimensions are those of its mesh. All groups do the same at once.
Rank r is in group r mod the number of groups: a group spans as many nodes as it can.

A fault can be injected into a mode, to test these tests. `lost`: what rank 1 of a group, or one microbatch of a
pipeline, contributes counts nothing; `doubled`: it counts twice.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from ranks import Job, collective
from tiny_gpt import (
    BFLOAT16,
    FLOAT32,
    GLOBAL_BATCH,
    RATE,
    TOKENS,
    VOCABULARY,
    WIDTH,
    Reference,
    TinyGpt,
    Tolerance,
    batch,
    loss_of,
    relative,
    shared_reference,
)
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

FACTORS = {"": 1.0, "lost": 0.0, "doubled": 2.0}
MICROBATCHES = 8
STEPS = 6


@dataclass(frozen=True)
class Setup:
    """What a mode is built from. `factor` is what the contribution of rank 1 of a group counts: 1 without a fault."""

    job: Job
    mesh: DeviceMesh
    factor: float

    def size(self, dimension: str) -> int:
        """The number of ranks along a dimension."""
        return self.mesh[dimension].size()

    def place(self, dimension: str) -> int:
        """This rank's place along it."""
        return self.mesh.get_local_rank(dimension)

    def samples(self, step: int, dimension: str) -> tuple[torch.Tensor, torch.Tensor]:
        """This rank's part of a batch that is divided along a dimension."""
        each, first = (
            GLOBAL_BATCH // self.size(dimension),
            self.place(dimension) * (GLOBAL_BATCH // self.size(dimension)),
        )
        inputs, targets = batch(step)
        return inputs[first : first + each].to(self.job.device), targets[first : first + each].to(self.job.device)


@dataclass(frozen=True)
class Training:
    """A model, or the parts of it that this rank has, in one mode.

    `step` runs forward and backward for the step of a number, and returns this rank's share of its loss: the shares of
    a group add up to the loss.
    """

    modules: tuple[nn.Module, ...]
    step: Callable[[int], float]

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters by the names that the whole model has for them."""
        for module in self.modules:
            for name, parameter in module.named_parameters():
                yield name.removeprefix("module."), parameter


@dataclass(frozen=True)
class Mode:
    """A mode: its name, the dimensions of its mesh, and how it is built."""

    name: str
    dimensions: Mapping[str, int]
    build: Callable[[Setup], Training]
    tolerance: Tolerance = FLOAT32

    @property
    def ranks(self) -> int:
        """The number of ranks of a group."""
        return math.prod(self.dimensions.values())


def _data_parallel(
    setup: Setup,
    model: nn.Module,
    dimension: str,
    *,
    parts: int = 1,
    sync: Callable[[bool], AbstractContextManager[None]] = lambda _last: nullcontext(),
    precision: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Training:
    """Each rank trains on its samples, in as many parts; `sync` is told whether a part is the last."""
    factor = setup.factor if setup.place(dimension) == 1 else 1.0
    ranks = setup.mesh.size() // setup.mesh["group"].size()

    def step(number: int) -> float:
        total = 0.0
        inputs, targets = setup.samples(number, dimension)
        pairs = list(zip(inputs.chunk(parts), targets.chunk(parts)))  # noqa: B905  (Python 3.9)
        for part, (some, expected) in enumerate(pairs):
            with sync(part == parts - 1):
                with precision():
                    loss = loss_of(model(some), expected) * factor / parts
                loss.backward()
            total += float(loss.detach())
        return total / ranks

    return Training((model,), step)


def _model(setup: Setup, stage: int = 0, stages: int = 1) -> TinyGpt:
    return TinyGpt(stage, stages).to(setup.job.device)


def _ddp(setup: Setup, *, parts: int = 1, bfloat16: bool = False) -> Training:
    ids = [setup.job.device] if setup.job.device.type == "cuda" else None
    model = DistributedDataParallel(_model(setup), device_ids=ids, process_group=setup.mesh["data"].get_group())

    def precision() -> AbstractContextManager[None]:
        return torch.autocast(setup.job.device.type, dtype=torch.bfloat16, enabled=bfloat16)

    def sync(last: bool) -> AbstractContextManager[None]:
        return nullcontext() if last else model.no_sync()

    return _data_parallel(setup, model, "data", parts=parts, sync=sync, precision=precision)


def _shard(model: TinyGpt, mesh: DeviceMesh, reshard: bool = True, policy: MixedPrecisionPolicy | None = None) -> None:
    for part in (*model.blocks.values(), model):
        fully_shard(part, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy or MixedPrecisionPolicy())


def _fsdp(setup: Setup, *, reshard: bool = True, parts: int = 1, bfloat16: bool = False) -> Training:
    model = _model(setup)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if bfloat16 else None
    _shard(model, setup.mesh["data"], reshard, policy)

    @contextmanager
    def sync(last: bool) -> Iterator[None]:
        if isinstance(model, FSDPModule) and parts > 1:
            model.set_requires_gradient_sync(last)
        yield

    return _data_parallel(setup, model, "data", parts=parts, sync=sync)


def _hsdp(setup: Setup) -> Training:
    """Two copies, each sharded over two ranks: the batch is divided over all four."""
    model = _model(setup)
    _shard(model, setup.mesh["copy", "shard"])
    copies, place = setup.size("copy"), setup.place("copy")
    factor = setup.factor if (place, setup.place("shard")) == (0, 1) else 1.0

    def step(number: int) -> float:
        inputs, targets = setup.samples(number, "shard")
        loss = loss_of(model(inputs.chunk(copies)[place]), targets.chunk(copies)[place]) * factor
        loss.backward()
        return float(loss.detach()) / (copies * setup.size("shard"))

    return Training((model,), step)


def _split_tensors(setup: Setup, model: TinyGpt) -> None:
    """Columns of the first matrix of each pair, rows of the second: ranks add up what comes out of the second."""
    plan: dict[str, ColwiseParallel | RowwiseParallel] = {}
    for name in model.blocks:
        columns = ("attention.query", "attention.key", "attention.value", "up")
        plan.update({f"blocks.{name}.{layer}": ColwiseParallel() for layer in columns})
        plan.update({f"blocks.{name}.{layer}": RowwiseParallel() for layer in ("attention.out", "down")})
    parallelize_module(model, setup.mesh["tensor"], plan)
    first = next(iter(model.blocks.values()))
    if setup.factor != 1.0 and setup.place("tensor") == 1 and isinstance(first.down.weight, DTensor):
        with torch.no_grad():
            first.down.weight.to_local().mul_(setup.factor)


def _tensor(setup: Setup) -> Training:
    model = _model(setup)
    _split_tensors(setup, model)
    ranks = setup.size("tensor")

    def step(number: int) -> float:
        inputs, targets = batch(number)
        loss = loss_of(model(inputs.to(setup.job.device)), targets.to(setup.job.device))
        loss.backward()
        return float(loss.detach()) / ranks

    return Training((model,), step)


def _fsdp_tensor(setup: Setup) -> Training:
    model = _model(setup)
    _split_tensors(setup, model)
    _shard(model, setup.mesh["data"])
    return _data_parallel(setup, model, "data")


def _pipeline(setup: Setup, stages_each: int, prepare: Callable[[TinyGpt], None] = lambda _model: None) -> Training:
    """Stages of a pipeline, interleaved where a rank has several; data-parallel copies where the mesh has them."""
    ranks, place = setup.size("pipeline"), setup.place("pipeline")
    copies = setup.size("data") if "data" in (setup.mesh.mesh_dim_names or ()) else 1
    held_by = setup.mesh.size() // setup.mesh["group"].size() // ranks  # ranks that have the same loss, or a part of it
    numbers = [place + ranks * turn for turn in range(stages_each)]
    models = [_model(setup, number, ranks * stages_each) for number in numbers]
    for model in models:
        prepare(model)
    size = GLOBAL_BATCH // copies // MICROBATCHES
    stages = [
        _stage(setup, model, number, ranks * stages_each, size)
        for number, model in zip(numbers, models)  # noqa: B905  (Python 3.9)
    ]
    seen: list[int] = []

    def loss_of_microbatch(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        faulty = len(seen) % MICROBATCHES == 1 and (copies == 1 or setup.place("data") == 1)
        return loss_of(scores, targets) * (setup.factor if faulty else 1.0)

    schedule = (
        ScheduleInterleaved1F1B(stages, MICROBATCHES, loss_fn=loss_of_microbatch)
        if stages_each > 1
        else Schedule1F1B(stages[0], MICROBATCHES, loss_fn=loss_of_microbatch)
    )

    def step(number: int) -> float:
        inputs, targets = setup.samples(number, "data") if copies > 1 else batch(number)
        losses: list[torch.Tensor] = []
        given = (inputs.to(setup.job.device),) if place == 0 else ()
        last = place == ranks - 1
        if last:
            schedule.step(*given, target=targets.to(setup.job.device), losses=losses)
        else:
            schedule.step(*given)
        if copies > 1 and not isinstance(models[0], FSDPModule):
            _average(setup, models)
        return float(torch.stack(losses).detach().mean()) / held_by if last else 0.0

    return Training(tuple(models), step)


def _stage(setup: Setup, model: TinyGpt, number: int, stages: int, size: int) -> PipelineStage:
    """A stage with shapes that are known: it need not exchange them, for which torch takes numpy."""
    between = torch.empty(size, TOKENS, WIDTH, device="meta", requires_grad=True)
    first = torch.zeros(size, TOKENS, dtype=torch.long, device="meta")
    last = torch.empty(size, TOKENS, VOCABULARY, device="meta", requires_grad=True)
    group = setup.mesh["pipeline"].get_group()
    given, out = first if number == 0 else between, last if number == stages - 1 else between
    return PipelineStage(model, number, stages, setup.job.device, input_args=given, output_args=out, group=group)


def _average(setup: Setup, models: list[TinyGpt]) -> None:
    """The gradients of data-parallel copies of a pipeline."""
    for model in models:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=setup.mesh["data"].get_group())
            parameter.grad /= setup.size("data")


def _three(setup: Setup) -> Training:
    """A pipeline of stages that are split by tensors and then sharded."""

    def prepare(model: TinyGpt) -> None:
        _split_tensors(setup, model)
        _shard(model, setup.mesh["data"])

    return _pipeline(setup, 1, prepare)


FOUR = {"data": 4}
MODES = (
    Mode("ddp", FOUR, _ddp),
    Mode("ddp_accumulated", FOUR, lambda setup: _ddp(setup, parts=2)),
    Mode("ddp_bf16", FOUR, lambda setup: _ddp(setup, bfloat16=True), BFLOAT16),
    Mode("fsdp_zero3", FOUR, _fsdp),
    Mode("fsdp_zero2", FOUR, lambda setup: _fsdp(setup, reshard=False)),
    Mode("fsdp_hybrid", {"copy": 2, "shard": 2}, _hsdp),
    Mode("fsdp_accumulated", FOUR, lambda setup: _fsdp(setup, parts=2)),
    Mode("fsdp_bf16", FOUR, lambda setup: _fsdp(setup, bfloat16=True), BFLOAT16),
    Mode("tensor", {"tensor": 4}, _tensor),
    Mode("fsdp_tensor", {"data": 2, "tensor": 2}, _fsdp_tensor),
    Mode("pipeline_1f1b", {"pipeline": 4}, lambda setup: _pipeline(setup, 1)),
    Mode("pipeline_interleaved", {"pipeline": 2, "data": 2}, lambda setup: _pipeline(setup, 2)),
)
THREE = Mode("pipeline_fsdp_tensor", {"pipeline": 2, "data": 2, "tensor": 2}, _three)


class Meshes:
    """The meshes of a job by their dimensions, each made once: groups of ranks are costly to make."""

    def __init__(self, job: Job) -> None:
        self.job, self.made = job, dict[tuple[tuple[str, int], ...], DeviceMesh]()

    def of(self, dimensions: Mapping[str, int]) -> DeviceMesh:
        """The mesh that has these dimensions in each group."""
        key = tuple(dimensions.items())
        if key not in self.made:
            ranks = math.prod(dimensions.values())
            groups = self.job.world_size // ranks
            places = torch.arange(self.job.world_size).reshape(ranks, groups).T.reshape(groups, *dimensions.values())
            names = ("group", *dimensions)
            with collective(f"the making of a mesh of {'x'.join(map(str, dimensions.values()))}"):
                self.made[key] = DeviceMesh(self.job.device.type, places, mesh_dim_names=names)
        return self.made[key]


def _full(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).double().cpu()


def _gradient_error(
    training: Training, reference: Reference, members: dist.ProcessGroup, job: Job
) -> tuple[float, float, float]:
    """The 2-norm of the reference's gradients, that of the group's, and the relative 2-norm of the difference.

    Sums are over all that ranks of the group have; each parameter is held by equally many.
    """
    sums = torch.zeros(3, dtype=torch.float64)
    for name, parameter in training.parameters():
        expected = reference.gradients[name]
        got = torch.zeros_like(expected) if parameter.grad is None else _full(parameter.grad)
        if job.fault.falsifies(job.rank):
            got = got * 1.001
        sums += torch.stack([expected.square().sum(), got.square().sum(), (got - expected).square().sum()])
    sums = sums.to(job.device)
    dist.all_reduce(sums, group=members)
    whole = math.sqrt(sum(float(one.square().sum()) for one in reference.gradients.values()))
    of_all, got_all, error = (math.sqrt(one) for one in sums.tolist())
    ratio = error / of_all
    return whole, whole * got_all / of_all, ratio if math.isfinite(ratio) else math.inf


def train(job: Job, mode: Mode, meshes: Meshes, reference: Reference, fault: str = "") -> tuple[bool, float]:
    """Train in a mode; whether losses and gradients are right, and the relative error of gradients.

    Rank 0 reports the loss of each step. All ranks of the job must call it, with `fault` a word of FACTORS.
    """
    steps, began = len(reference.losses), time.perf_counter()
    with collective(f"the making of {mode.name}"):
        members = meshes.of({"member": mode.ranks})["member"].get_group()
        training = mode.build(Setup(job, meshes.of(mode.dimensions), FACTORS[fault]))
    optimizers = [torch.optim.SGD(one.parameters(), lr=RATE, foreach=False) for one in training.modules]
    losses = []
    for step in range(steps):
        with collective(f"step {step} of {mode.name}"):
            for optimizer in optimizers:
                if step:
                    optimizer.step()
                optimizer.zero_grad()
            share = torch.tensor([training.step(step)], dtype=torch.float64, device=job.device)
            dist.all_reduce(share, group=members)
            losses.append(float(share[0]))
    with collective(f"gradients of {mode.name}"):
        expected_norm, norm, error = _gradient_error(training, reference, members, job)
    if job.rank == 0:
        for step, (loss, expected) in enumerate(zip(losses, reference.losses)):  # noqa: B905  (Python 3.9)
            job.say("", event="measurement", mode=mode.name, step=step, loss=loss, loss_expected=expected)
        seconds = time.perf_counter() - began
        job.say(f"{mode.name}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, error {error:.2g}, {seconds:.2f} s")
    worst = max(range(steps), key=lambda step: relative(losses[step], reference.losses[step]))
    limits = mode.tolerance
    loss_error = relative(losses[worst], reference.losses[worst])
    right = job.check(
        f"{mode.name}: loss at step {worst}", reference.losses[worst], losses[worst], loss_error, limits.loss
    )
    right &= job.check(
        f"{mode.name}: gradients, 2-norm",
        expected_norm,
        norm,
        error,
        limits.gradients,
        at_least=limits.at_least,
    )
    return right, error


def compare(job: Job, modes: Sequence[Mode], faults: Mapping[str, str]) -> None:
    """Train in each mode, and report all. `faults` are what is wrong in a mode, or in all."""
    ranks = max(mode.ranks for mode in modes)
    if job.world_size % ranks:
        raise RuntimeError(f"these modes take a multiple of {ranks} ranks, and there are {job.world_size}")
    header, began = job.header(), time.perf_counter()
    reference, meshes = shared_reference(job, STEPS), Meshes(job)
    right, worst = True, 0.0
    for number, mode in enumerate(modes):
        if number == min(1, len(modes) - 1):
            job.fault.strike(job.rank)
        good, error = train(job, mode, meshes, reference, faults.get(mode.name, faults.get("all", "")))
        right, worst = right and good, max(worst, error)
    job.agree(right)
    if job.rank == 0:
        elapsed = round(time.perf_counter() - began, 3)
        measured = {"modes": len(modes), "groups": job.world_size // ranks, "error_max": float(f"{worst:.3g}")}
        losses = {"loss_first": round(reference.losses[0], 6), "loss_last": round(reference.losses[-1], 6)}
        job.say("", event="measurement", **measured, **losses)
        text = f"{len(modes)} modes agree with one process: largest error of gradients {worst:.2g} ({elapsed} s)"
        job.say(text, event="result", **header, seconds=elapsed)


def fault_of(text: str) -> tuple[str, str]:
    """A mode, or all, and what is wrong in it, from MODE:FAULT."""
    name, _, kind = text.partition(":")
    if kind not in FACTORS or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not MODE:lost or MODE:doubled")
    return name, kind


def fault_option(options: argparse.ArgumentParser) -> None:
    """Add the option that injects a fault."""
    text = "for testing this test: what one rank or microbatch contributes to a mode is lost or doubled"
    options.add_argument("--fault", type=fault_of, action="append", default=[], metavar="MODE:FAULT", help=text)
