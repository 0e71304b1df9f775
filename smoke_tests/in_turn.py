r"""Several tests one after the other in the same ranks: torch is imported, and the ranks find each other, once.

    PYTHONPATH=smoke_tests/allreduce:smoke_tests/train_ddp torchrun --standalone --nproc_per_node 2 \
        smoke_tests/in_turn.py allreduce --sizes-kib 4 --next train_ddp --steps 10

On a node all of them are in one folder. Each test is given its own options, as when it runs alone. The first that is
not right is the last that runs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

from ranks import USAGE, Job, Turn, main

NEXT = "--next"


def split(words: Sequence[str]) -> list[list[str]]:
    """The words of each test: its name, then its options."""
    turns: list[list[str]] = [[]]
    for word in words:
        if word == NEXT:
            turns.append([])
        else:
            turns[-1].append(word)
    return turns


def turn(words: Sequence[str]) -> Turn:
    """A test by its name, imported when its turn has come: one that cannot be does not keep others from running."""
    name, arguments = words[0], list(words[1:])

    def load() -> tuple[argparse.Namespace, Callable[[Job, argparse.Namespace], None]]:
        program = importlib.import_module(name)
        return program.parser().parse_args(arguments), program.run

    return Turn(name, "--json" in arguments, load)


if __name__ == "__main__":
    every = split(sys.argv[1:])
    if not all(every):
        sys.stderr.write(f"usage: {sys.argv[0]} TEST [OPTION ...] [{NEXT} TEST [OPTION ...]] ...\n")
        sys.exit(USAGE)
    main([turn(words) for words in every])
