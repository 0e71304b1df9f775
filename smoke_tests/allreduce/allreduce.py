"""All-reduce over all ranks of a job: asserts every element of the sum and reports bandwidth per message size.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 2 smoke_tests/allreduce/allreduce.py

Contribution of rank r to element i, in float32: r + 1 + w(i), where w(i) is a random integer from 0 to m - 1 out of a
table of 1,000,003, a prime, which repeats. The sum over n ranks is n(n + 1)/2 + n w(i). Every rank contributes
something distinct, so a lost or doubled contribution shows. Elements follow no pattern, so a chunk that is misplaced,
exchanged with another or shifted shows, whatever its size; a single element does in 1 - 1/m of all cases. m is at most
251 and small enough that the sum stays within 2^24: float32 holds all integers up to there, so every partial sum is
exact in whatever order a ring or tree adds, and equality is asserted without a tolerance. m is 251 up to 5,547 ranks,
and at least 2 up to 5,791; more are refused.

For a message of S bytes and the time t of the slowest rank (median of the repeats)::

    algbw = S / t                       GB/s, 1 GB = 10^9 bytes
    busbw = algbw * 2 (n - 1) / n       what each link must carry; comparable across n

as in NVIDIA/nccl-tests, doc/PERFORMANCE.md.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from ranks import Job, Turn, collective, main, options_parser, sizes_of_kib

KIB = 1024
MIB = 1024 * KIB
CPU_SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB)
GPU_SIZES = (*CPU_SIZES, 64 * MIB, 256 * MIB, 1024 * MIB)
_EXACT = 2**24  # float32 holds every integer up to here
_TABLE = 1_000_003  # elements; a prime, so that no chunk of a power of two of them, or a part of one, is a multiple
_SEED = 251


def distinct(world_size: int) -> int:
    """Number of distinct element values for which sums over so many ranks are exact in float32.

    Raises ValueError if there are not even two.
    """
    ranks_alone = world_size * (world_size + 1) // 2
    found = min(251, 1 + (_EXACT - ranks_alone) // world_size)
    if found < 2:
        raise ValueError(f"sums over {world_size} ranks are not exact in float32: use fewer than 5792 ranks")
    return found


def table(world_size: int, device: torch.device) -> torch.Tensor:
    """The random integers w, the same on every rank; made on the CPU, so that they are the same for every device."""
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randint(distinct(world_size), (_TABLE,), generator=generator).to(torch.float32).to(device)


def elements_of(values: torch.Tensor, elements: int) -> torch.Tensor:
    """A tensor of its own that holds the first so many elements: the table, as often as it takes."""
    return values.repeat(-(-elements // _TABLE))[:elements]


def check(job: Job, size: int, got: torch.Tensor, expected: torch.Tensor) -> None:
    """Say where the sum is wrong, if it is on this rank, and end on all ranks if it is on any."""
    right = bool(torch.equal(got, expected))
    if not right:
        index = int((got != expected).nonzero()[0])  # a NaN differs from everything, so it is found too
        job.wrong(f"element {index} of the sum over {label(size)}", float(expected[index]), float(got[index]))
    job.agree(right)


def measure(job: Job, values: torch.Tensor, size: int, warmup: int, repeats: int) -> float:
    """Seconds of one all-reduce of `size` bytes: median of the repeats, each as long as its slowest rank."""
    n = job.world_size
    expected = elements_of(values, size // 4)
    contribution = expected + (job.rank + 1)
    expected.mul_(n).add_(n * (n + 1) // 2)
    buffer = torch.empty_like(contribution)
    seconds = []
    for repeat in range(warmup + repeats):
        buffer.copy_(contribution)
        with collective(f"an all-reduce of {label(size)}"):
            dist.barrier()
            job.synchronize()
            start = time.perf_counter()
            dist.all_reduce(buffer)
            job.synchronize()
            seconds.append(time.perf_counter() - start)
        if job.fault.falsifies(job.rank) and repeat == warmup:
            buffer[17] += 1
        check(job, size, buffer, expected)
    return statistics.median(job.slowest(seconds[warmup:]))


def bandwidths(size: int, seconds: float, ranks: int) -> dict[str, float]:
    """GB/s of an all-reduce, of the message and of a link (nccl-tests' algbw and busbw); none where nothing moved."""
    if ranks == 1:
        return {}
    algbw = size / seconds / 1e9
    return {"algbw_gb_per_s": round(algbw, 4), "busbw_gb_per_s": round(algbw * 2 * (ranks - 1) / ranks, 4)}


def label(size: int) -> str:
    """A size as people write it: 16 MiB."""
    for unit, name in ((1024 * MIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def run(job: Job, options: argparse.Namespace) -> None:
    """Measure every size and report them from rank 0."""
    gpu = job.device.type == "cuda"
    sizes = [kib * KIB for kib in options.sizes_kib] or (GPU_SIZES if gpu else CPU_SIZES)
    repeats = options.repeats or (20 if gpu else 5)
    header, began = job.header(), time.perf_counter()
    values = table(job.world_size, job.device)
    lead = job.rank == 0
    if lead:
        where = f"{header['world_size']} ranks on {len(header['hosts'])} hosts, {job.backend} on {header['device']}"
        job.say(f"all-reduce over {where}, torch {header['torch']}\n{'size':>10} {'ms':>10} {'algbw':>8} {'busbw':>8}")
    for size in sizes:
        job.fault.strike(job.rank)
        seconds = measure(job, values, size, options.warmup, repeats)
        rates = bandwidths(size, seconds, job.world_size)
        if lead:
            job.say(
                f"{label(size):>10} {seconds * 1e3:10.3f} "
                + (" ".join(f"{rate:8.3f}" for rate in rates.values()) or "not measured: one rank moves nothing"),
                event="measurement",
                size_bytes=size,
                seconds=round(seconds, 9),
                **rates,
            )
    if lead:
        elapsed = round(time.perf_counter() - began, 3)
        job.say(f"every sum is exact ({elapsed} s)", event="result", **header, seconds=elapsed)


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("All-reduce: every sum exact, bandwidth per size.")
    sizes = "e.g. 4,1024 (default: 4 KiB to 16 MiB, with GPUs to 1 GiB)"
    options.add_argument("--sizes-kib", type=sizes_of_kib, default=(), help=sizes)
    options.add_argument("--warmup", type=int, default=2, help="repeats not counted (default: 2)")
    options.add_argument("--repeats", type=int, default=0, help="repeats counted (default: 5, with GPUs 20)")
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("allreduce", alone.json, lambda: (alone, run))])
