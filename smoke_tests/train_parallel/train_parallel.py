"""Train a small transformer in every mode of parallel training; each must give what one process gives in float64.

    PYTHONPATH=smoke_tests torchrun --standalone --nproc_per_node 4 smoke_tests/train_parallel/train_parallel.py

The modes are those of `parallel_modes.py`, each in groups of four ranks; data, reference and tolerances are those of
`tiny_gpt.py`. Losses of all steps and the gradients of the last are compared. All modes run, also after a wrong one.
"""

from __future__ import annotations

import argparse

from parallel_modes import MODES, compare, fault_option
from ranks import Job, Turn, main, options_parser


def run(job: Job, options: argparse.Namespace) -> None:
    """All modes, or those that were asked for."""
    asked = [mode for mode in MODES if not options.modes or mode.name in options.modes]
    if unknown := set(options.modes) - {mode.name for mode in MODES}:
        raise RuntimeError(f"no such mode: {', '.join(sorted(unknown))}; there are {', '.join(m.name for m in MODES)}")
    compare(job, asked, dict(options.fault))


def parser() -> argparse.ArgumentParser:
    """The options of this test."""
    options = options_parser("Every mode of parallel training: loss and gradients as a single process computes them.")
    options.add_argument(
        "--modes",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=(),
        help=f"modes, with commas between; default: all of {', '.join(mode.name for mode in MODES)}",
    )
    fault_option(options)
    return options


if __name__ == "__main__":
    alone = parser().parse_args()
    main([Turn("train_parallel", alone.json, lambda: (alone, run))])
