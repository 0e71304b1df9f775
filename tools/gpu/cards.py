"""The table of the parts that ran on real GPUs, for README.md and docs/support.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.gpu.parts import parts

BEGIN, END = "<!-- cards: from tools/gpu/cards.yaml -->\n", "<!-- end of cards -->"
FILE = Path(__file__).with_name("cards.yaml")


def table() -> str:
    """Return the table in Markdown."""
    data = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return "".join(f"{row}\n" for row in _rows(data))


def _rows(data: Any) -> Iterator[str]:
    yield "| real GPU | `make test-gpu`: held | broken then, repaired since, not run again | never run |"
    yield "|---|---|---|---|"
    every = [part.name for part in parts(gpu=True)]
    for card in data["cards"]:
        ran = {*card["held"], *card["broken"]}
        versions = f"driver {card['driver']}, PyTorch {card['torch']}, NCCL {card['nccl']}"
        run = f"{card['card']}, {card['date']}, at {card['commit']}: {versions}"
        never = [name for name in every if name not in ran]
        hidden = f"{_names(never)}; what one GPU cannot show: {data['one_gpu_cannot_show']}"
        yield f"| {run} | {_names(card['held'])} | {_names(card['broken'])} | {hidden} |"


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
