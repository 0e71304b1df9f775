"""Time the same work on every rank before a collective: a rank that is slow makes all others wait.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 4 smoke_tests/straggler/straggler.py

The time of a whole step hides a slow rank, since all wait for it. Measured is the work before the collective. Without
GPUs it is CPU time of the rank's thread, so that ranks which share cores can be compared; on GPUs it is the time
between two CUDA events. A slow clock, a hot or capped device and unequal work show in it.

A rank also has to wait for its core where another process uses it: its wall time over that time is `wait_factor`.

Three repeats are made, each with the median of its steps, as a part of the median of all ranks; the median of the
three counts, so one disturbed repeat accuses no rank.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.distributed as dist
from ranks import Job, Turn, collective, main, options_parser

REPEATS = 3
WARMUP = 2  # steps
SLOWER = 1.3  # times the work, for a rank that is to be found
CPU_SIZE, GPU_SIZE = 256, 4096  # rows and columns
PRODUCTS = 20  # in a step


class Work:
    """The same products on every rank; `factor` times as many on one that is to be slow."""

    def __init__(self, job: Job, factor: float) -> None:
        self.gpu = job.device.type == "cuda"
        torch.set_num_threads(1)
        size = GPU_SIZE if self.gpu else CPU_SIZE
        self.matrix = torch.full((size, size), 1 / size, device=job.device)
        self.result = torch.empty_like(self.matrix)
        self.products = round(PRODUCTS * factor)

    def once(self) -> tuple[float, float]:
        """Seconds of the device, and of the wall clock."""
        began, own = time.perf_counter(), time.thread_time()
        if not self.gpu:
            self._multiply()
            return time.thread_time() - own, time.perf_counter() - began
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self._multiply()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3, time.perf_counter() - began

    def _multiply(self) -> None:
        for _ in range(self.products):
            torch.mm(self.matrix, self.matrix, out=self.result)


def repeat(job: Job, work: Work, steps: int) -> tuple[float, float]:
    """The medians of a repeat: seconds of work before a collective, and wall time over it."""
    own, factors = [], []
    buffer = torch.zeros(1024, device=job.device)
    for step in range(WARMUP + steps):
        seconds, wall = work.once()
        with collective(f"an all-reduce after work {step}"):
            dist.all_reduce(buffer)
            job.synchronize()
        if step >= WARMUP:
            own.append(seconds)
            factors.append(wall / max(seconds, 1e-9))
    return statistics.median(own), statistics.median(factors)


def run(job: Job, options: argparse.Namespace) -> None:
    """Measure three times, and report each rank."""
    if options.steps < 1:
        raise RuntimeError(f"--steps {options.steps}: at least 1 is needed")
    header, began = job.header(), time.perf_counter()
    job.fault.strike(job.rank)
    work = Work(job, SLOWER if job.fault.falsifies(job.rank) else 1.0)
    of_median, before_ms, wait_factor = [], [], []
    for _ in range(REPEATS):
        every = job.of_all(repeat(job, work, options.steps))
        if not all(of[0] > 0 for of in every):
            raise RuntimeError(f"a rank's work took no time: {[of[0] for of in every]} s")
        median = statistics.median(of[0] for of in every)
        of_median.append([of[0] / median for of in every])
        before_ms.append([of[0] * 1e3 for of in every])
        wait_factor.append([of[1] for of in every])
    measures = {
        name: [statistics.median(of_rank) for of_rank in zip(*of_repeats)]  # noqa: B905  (Python 3.9)
        for name, of_repeats in (("before_ms", before_ms), ("of_median", of_median), ("wait_factor", wait_factor))
    }
    job.report_own(measures)
    if job.rank == 0:
        elapsed = round(time.perf_counter() - began, 3)
        job.say(f"{REPEATS} repeats ({elapsed} s)", event="result", **header, seconds=elapsed)


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("Stragglers: the time of the same work before a collective, on every rank.")
    options.add_argument("--steps", type=int, default=16, help="steps of each of three repeats (default: 16)")
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("straggler", alone.json, lambda: (alone, run))])
