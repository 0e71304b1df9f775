"""Train a small transformer in three dimensions at once: pipeline, sharding (FSDP2) and tensors.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 8 smoke_tests/train_3d/train_3d.py

Groups of eight ranks, 2 x 2 x 2. Losses of all steps and the gradients of the last must be those of one process in
float64, as in `train_parallel`.
"""

from __future__ import annotations

import argparse

from parallel_modes import THREE, compare, fault_option
from ranks import Job, Turn, main, options_parser


def run(job: Job, options: argparse.Namespace) -> None:
    """The one mode."""
    compare(job, (THREE,), dict(options.fault))


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("Training in three dimensions: loss and gradients as a single process computes them.")
    fault_option(options)
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("train_3d", alone.json, lambda: (alone, run))])
