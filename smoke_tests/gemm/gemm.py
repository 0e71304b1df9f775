"""Matrix products on every device: their bits are compared over all repeats and devices, and their speed.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 2 smoke_tests/gemm/gemm.py --seconds 2

What is compared, and how, is in `products.py`. A rank with a GPU multiplies on it, one without on one core. The speed
is 2 n^3 operations over the time of a product: on GPUs the median of all products, on CPUs the fastest, since what else
runs on a core can only slow one down. TF32 is not used.
"""

from __future__ import annotations

import argparse
import statistics
import time

from products import DTYPES, Products, Series, compare
from ranks import Job, Turn, main, options_parser


def run(job: Job, options: argparse.Namespace) -> None:
    """Multiply, compare, and report each rank's speed."""
    header, began = job.header(), time.perf_counter()
    gpu = job.device.type == "cuda"
    dtypes = options.dtypes or (("float32", "bfloat16") if gpu else ("float32",))
    if options.size < 0:
        raise RuntimeError(f"--size {options.size}: it must not be negative")
    if unknown := set(dtypes) - set(DTYPES):
        raise RuntimeError(f"no such type of number: {', '.join(sorted(unknown))}; there are {', '.join(DTYPES)}")
    for dtype in dtypes:
        job.fault.strike(job.rank)
        products = Products(job, dtype, options.size)
        products.run(0, Series())  # the first ones load libraries
        series = products.run(options.seconds, Series(), flip_at=1 if job.fault.falsifies(job.rank) else -1)
        job.agree(compare(job, dtype, series))
        seconds = statistics.median(series.seconds) if gpu else min(series.seconds)
        if not seconds > 0:
            raise RuntimeError(f"a product took {seconds} s: a larger --size is needed")
        every = job.of_all([products.operations / seconds / 1e12, len(series.sums)])
        measures = {"tflop_per_s": [of[0] for of in every], "products": [of[1] for of in every]}
        job.report_own(measures, dtype=dtype, size=products.size)
    if job.rank == 0:
        elapsed = round(time.perf_counter() - began, 3)
        job.say(f"every product has the same bits ({elapsed} s)", event="result", **header, seconds=elapsed)


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("Matrix products: the same bits on every device of one make, and how fast.")
    options.add_argument("--seconds", type=float, default=5.0, help="how long products are computed, s (default: 5)")
    options.add_argument("--size", type=int, default=0, help="rows and columns (default: 768, with GPUs 8192)")
    options.add_argument(
        "--dtypes",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=(),
        help=f"types of numbers, with commas between, of {', '.join(DTYPES)}; the last is judged",
    )
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("gemm", alone.json, lambda: (alone, run))])
