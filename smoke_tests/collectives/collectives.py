"""Five collectives over all ranks, and over each rail at once: each element is asserted, bandwidth is reported.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 4 smoke_tests/collectives/collectives.py

Element i of rank r is r + 1 + w(i) in float32, with w a table of random integers whose length is a prime: sums of all
ranks are exact up to 5,547 ranks (see `allreduce.py`), and an element, chunk or rank in another's place shows.

For a message of S bytes, n ranks and the time t of the slowest rank, the bus bandwidth is S / t times (NVIDIA/
nccl-tests, doc/PERFORMANCE.md)::

    all-reduce 2 (n - 1) / n;  all-gather, reduce-scatter, all-to-all (n - 1) / n;  broadcast 1

S is what each rank has of the whole: the result of an all-gather, the input of a reduce-scatter. A rail is the ranks of
the same number on each node: with GPUs, those whose adapters are on the same switches. All rails run at once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from ranks import Job, Turn, collective, main, options_parser, sizes_of_kib

KIB = 1024
CPU_SIZES_KIB, GPU_SIZES_KIB = (4, 1024, 16384), (4, 1024, 16384, 1048576)
_TABLE, _SEED, _VALUES = 1_000_003, 251, 251
_EXACT = 2**24  # float32 holds every integer up to here


@dataclass(frozen=True)
class Group:
    """The ranks of a collective, as this one sees them; `group` None: all ranks."""

    across: str
    members: tuple[int, ...]
    rank: int
    group: dist.ProcessGroup | None

    @property
    def size(self) -> int:
        """The number of its ranks."""
        return len(self.members)


@dataclass(frozen=True)
class Message:
    """What this rank gives, gets and must get, for one collective."""

    given: torch.Tensor
    got: torch.Tensor
    expected: torch.Tensor


def _sum(group: Group, values: torch.Tensor) -> torch.Tensor:
    return values * group.size + group.size * (group.size + 1) // 2


def _parts(group: Group, values: torch.Tensor) -> torch.Tensor:
    """The values in equal parts, one a rank."""
    return values.view(group.size, -1)


def _of_ranks(group: Group, values: torch.Tensor) -> torch.Tensor:
    """Each part of the values as the rank of its number has it."""
    ranks = torch.arange(1, group.size + 1, dtype=values.dtype, device=values.device)
    return (_parts(group, values) + ranks[:, None]).flatten()


def _all_reduce(group: Group, values: torch.Tensor) -> Message:
    mine = values + (group.rank + 1)
    return Message(mine, mine.clone(), _sum(group, values))


def _all_gather(group: Group, values: torch.Tensor) -> Message:
    mine = _parts(group, values)[group.rank] + (group.rank + 1)
    return Message(mine, torch.empty_like(values), _of_ranks(group, values))


def _reduce_scatter(group: Group, values: torch.Tensor) -> Message:
    expected = _sum(group, _parts(group, values)[group.rank])
    return Message(values + (group.rank + 1), torch.empty_like(expected), expected)


def _all_to_all(group: Group, values: torch.Tensor) -> Message:
    mine = _parts(group, values)[group.rank]
    expected = _of_ranks(group, mine.repeat(group.size))
    return Message(values + (group.rank + 1), torch.empty_like(values), expected)


def _broadcast(group: Group, values: torch.Tensor) -> Message:
    expected = values + 1
    return Message(expected, expected.clone() if group.rank == 0 else torch.empty_like(values), expected)


@dataclass(frozen=True)
class Operation:
    """A collective: what it exchanges, how it is called, and the part of a message that a link carries."""

    name: str
    message: Callable[[Group, torch.Tensor], Message]
    call: Callable[[Message, Group], object]
    bus_factor: Callable[[int], float]


OPERATIONS = (
    Operation(
        "all_reduce",
        _all_reduce,
        lambda message, group: dist.all_reduce(message.got, group=group.group),
        lambda n: 2 * (n - 1) / n,
    ),
    Operation(
        "all_gather",
        _all_gather,
        lambda message, group: dist.all_gather_into_tensor(message.got, message.given, group=group.group),
        lambda n: (n - 1) / n,
    ),
    Operation(
        "reduce_scatter",
        _reduce_scatter,
        lambda message, group: dist.reduce_scatter_tensor(message.got, message.given, group=group.group),
        lambda n: (n - 1) / n,
    ),
    Operation(
        "all_to_all",
        _all_to_all,
        lambda message, group: dist.all_to_all_single(message.got, message.given, group=group.group),
        lambda n: (n - 1) / n,
    ),
    Operation(
        "broadcast",
        _broadcast,
        lambda message, group: dist.broadcast(message.got, group.members[0], group=group.group),
        lambda _: 1.0,
    ),
)


def groups(job: Job) -> list[Group]:
    """All ranks; and the rail of this one, where nodes have several ranks and there are several nodes."""
    found = [Group("all", tuple(range(job.world_size)), job.rank, None)]
    each = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if each > 1 and job.world_size > each:
        rails = [tuple(range(number, job.world_size, each)) for number in range(each)]
        with collective("the making of rails"):
            made = [dist.new_group(list(rail)) for rail in rails]  # every rank makes every group
        rail = rails[job.local_rank]
        found.append(Group("rail", rail, rail.index(job.rank), made[job.local_rank]))
    return found


def table(device: torch.device) -> torch.Tensor:
    """The random integers w, the same on every rank."""
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randint(_VALUES, (_TABLE,), generator=generator).to(torch.float32).to(device)


def check(job: Job, operation: Operation, group: Group, message: Message, size: int) -> None:
    """Report the first element that is not exact on this rank, and end on all ranks if there is one on any."""
    right = bool(torch.equal(message.got, message.expected))
    if not right:
        index = int((message.got != message.expected).nonzero()[0])
        where = f"element {index} of {operation.name} of {size} bytes across {group.across}"
        job.wrong(where, float(message.expected[index]), float(message.got[index]))
    job.agree(right)


def measure(job: Job, operation: Operation, group: Group, values: torch.Tensor, repeats: int) -> float:
    """Seconds of one collective: the median of the repeats, each as long as its slowest rank."""
    message = operation.message(group, values)
    start_value = message.got.clone()
    seconds = []
    for repeat in range(1 + repeats):
        message.got.copy_(start_value)
        with collective(f"{operation.name} across {group.across}"):
            dist.barrier()
            job.synchronize()
            start = time.perf_counter()
            operation.call(message, group)
            job.synchronize()
            seconds.append(time.perf_counter() - start)
        if repeat == 1 and job.fault.falsifies(job.rank):
            half = message.got.numel() // 2
            message.got[:half] = message.got[half : 2 * half].clone()  # one part in the place of another
        check(job, operation, group, message, values.numel() * 4)
    return statistics.median(job.slowest(seconds[1:]))


def run(job: Job, options: argparse.Namespace) -> None:
    """Measure every size and collective, and report them from rank 0."""
    header, began = job.header(), time.perf_counter()
    if job.world_size * (job.world_size + 1) // 2 + _VALUES * job.world_size > _EXACT:
        raise RuntimeError(f"sums over {job.world_size} ranks are not exact in float32: use at most 5547 ranks")
    if options.repeats < 0:
        raise RuntimeError(f"--repeats {options.repeats}: it must not be negative")
    gpu = job.device.type == "cuda"
    repeats = options.repeats or (20 if gpu else 3)
    among, integers, last = groups(job), table(job.device), {}
    sizes_kib = options.sizes_kib or (GPU_SIZES_KIB if gpu else CPU_SIZES_KIB)
    for kib in sizes_kib:
        elements = -(-kib * KIB // 4 // job.world_size) * job.world_size
        values = integers.repeat(-(-elements // _TABLE))[:elements]
        for group, operation in ((group, operation) for group in among for operation in OPERATIONS):
            job.fault.strike(job.rank)
            seconds = measure(job, operation, group, values, repeats)
            rate = elements * 4 / seconds / 1e9 * operation.bus_factor(group.size)
            measured = {"bus_gb_per_s": round(rate, 4)} if group.size > 1 else {}  # one rank moves nothing
            if job.rank == 0:
                told = {"operation": operation.name, "across": group.across, "bytes": elements * 4}
                shown = f"{rate:8.3f} GB/s" if measured else "not measured: one rank moves nothing"
                text = f"{operation.name:>15} across {group.across:4} {kib:>9} KiB {shown}"
                job.say(text, event="measurement", **told, seconds=round(seconds, 9), **measured)
            if group.across == "all":
                last["size_bytes"] = elements * 4
            if group.across == "all" and measured:
                last[f"{operation.name}_gb_per_s"] = round(rate, 4)
                last.setdefault("latency_us", round(seconds * 1e6, 1))
    if job.rank == 0:
        elapsed = round(time.perf_counter() - began, 3)
        job.say("", event="measurement", **last)
        job.say(f"every element is exact ({elapsed} s)", event="result", **header, seconds=elapsed)


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("Five collectives: every element exact, bandwidth per size.")
    sizes = "e.g. 4,1024 (default: 4 KiB to 16 MiB, with GPUs to 1 GiB)"
    options.add_argument("--sizes-kib", type=sizes_of_kib, default=(), help=sizes)
    options.add_argument("--repeats", type=int, default=0, help="repeats counted (default: 3, with GPUs 20)")
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("collectives", alone.json, lambda: (alone, run))])
