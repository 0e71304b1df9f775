"""Copies between host and GPU, and between the GPUs of a node: what arrives is compared, and bandwidth is reported.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 8 smoke_tests/host_device/host_device.py

Host memory is pinned. The GPUs of a node take turns, so that no copy shares a link with another of the node; nodes
work at once. A copy of S bytes in t seconds is S / t GB/s, 1 GB = 10^9 bytes, by the median of the repeats.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import torch
from ranks import Job, Turn, main, options_parser

MIB = 1 << 20


def copy_gb_per_s(job: Job, target: torch.Tensor, source: torch.Tensor, repeats: int) -> float:
    """The bandwidth of a copy; the first one is not counted."""
    seconds = []
    for _ in range(1 + repeats):
        target.zero_()
        job.synchronize()
        began = time.perf_counter()
        target.copy_(source, non_blocking=True)
        job.synchronize()
        seconds.append(time.perf_counter() - began)
    return source.numel() / statistics.median(seconds[1:]) / 1e9


def arrived(job: Job, what: str, target: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether every byte of a copy is right; this rank reports the first that is not."""
    if job.fault.falsifies(job.rank):
        target[17] ^= 1
    got, expected = target.cpu(), source.cpu()
    if torch.equal(got, expected):
        return True
    index = int((got != expected).nonzero()[0])
    job.wrong(f"byte {index} of the copy {what}", int(expected[index]), int(got[index]))
    return False


def copies(job: Job, size: int, repeats: int) -> tuple[bool, list[float]]:
    """This rank's copies: whether all are right, and the bandwidth to its GPU, from it, and to the slowest peer."""
    pinned = job.device.type == "cuda"
    generator = torch.Generator().manual_seed(job.rank)
    host = torch.randint(256, (size,), dtype=torch.uint8, generator=generator)
    host = host.pin_memory() if pinned else host
    back, there = (torch.empty_like(host, pin_memory=pinned), torch.empty_like(host, device=job.device))
    rates = [copy_gb_per_s(job, there, host, repeats), copy_gb_per_s(job, back, there, repeats)]
    right = arrived(job, f"to GPU {job.local_rank}", there, host)
    right &= arrived(job, f"from GPU {job.local_rank}", back, host)
    slowest = 0.0
    for peer in range(torch.cuda.device_count() if pinned else 0):
        if peer != job.local_rank:
            target = torch.empty_like(host, device=torch.device("cuda", peer))
            rate = copy_gb_per_s(job, target, there, repeats)
            job.say(
                f"rank {job.rank} on {job.host}: to GPU {peer} {rate:.1f} GB/s",
                event="measurement",
                host=job.host,
                rank=job.rank,
                to_gpu=peer,
                to_peer_gb_per_s=round(rate, 2),
            )
            right &= arrived(job, f"from GPU {job.local_rank} to GPU {peer}", target, host)
            slowest = min(slowest or rate, rate)
    return right, [*rates, slowest]


def run(job: Job, options: argparse.Namespace) -> None:
    """The GPUs of each node in turn; rank 0 reports each."""
    if options.size_mib < 1 or options.repeats < 1:
        raise RuntimeError(f"--size-mib {options.size_mib}, --repeats {options.repeats}: at least 1 is needed of each")
    header, began = job.header(), time.perf_counter()
    job.fault.strike(job.rank)
    right, rates = True, [0.0, 0.0, 0.0]
    for turn in range(int(os.environ["LOCAL_WORLD_SIZE"])):
        if turn == job.local_rank:
            right, rates = copies(job, options.size_mib * MIB, options.repeats)
        job.agree(right)
    every = job.of_all(rates)
    names = ["to_gpu_gb_per_s", "from_gpu_gb_per_s", *["peer_gb_per_s"] * (int(os.environ["LOCAL_WORLD_SIZE"]) > 1)]
    job.report_own({name: [of[number] for of in every] for number, name in enumerate(names)})
    if job.rank == 0:
        elapsed = round(time.perf_counter() - began, 3)
        job.say(f"every byte arrived ({elapsed} s)", event="result", **header, seconds=elapsed)


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("Copies between host and GPUs: every byte arrives, and how fast.")
    options.add_argument("--size-mib", type=int, default=256, help="size of a copy, MiB (default: 256)")
    options.add_argument("--repeats", type=int, default=10, help="repeats counted (default: 10)")
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("host_device", alone.json, lambda: (alone, run))])
