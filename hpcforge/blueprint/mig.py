"""How a blueprint names GPUs of a node, what instances they are cut into (MIG), and how many jobs share one."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.section import Section

ALL = "all"
_LARGEST = 15  # a node has no more than 16
_RANGE = re.compile(r"(0|[1-9][0-9]?)(?:-(0|[1-9][0-9]?))?")

_PROFILE = r"[1-7]g\.[1-9][0-9]{0,2}gb(?:\+me)?"

MigProfile = Annotated[
    str,
    v.Matches(_PROFILE, "a MIG profile as nvidia-smi names it", "1g.10gb"),
]


def _gpus(text: str) -> str:
    """Check what names GPUs of a node."""
    if text == ALL:
        return text
    if re.fullmatch(_PROFILE, text):
        raise v.refusal(f"{quote(text)} does not name GPUs of a node", f"say which are cut so: all: {{{text}: 1}}")
    for part in text.split(","):
        right = _RANGE.fullmatch(part)
        if not right or int(right[2] or right[1]) > _LARGEST or int(right[2] or right[1]) < int(right[1]):
            hint = "as nvidia-smi counts them, from 0, for example 0-3 or 0,2,6-7; or all"
            raise v.refusal(f"{quote(text)} does not name GPUs of a node", hint)
    return text


GpuSet = Annotated[str, v.Checked(_gpus)]


def gpus_named(text: str, count: int) -> tuple[int, ...]:
    """The GPUs that a `GpuSet` names, of a node that has `count`: all of those, or those it lists, there or not."""
    if text == ALL:
        return tuple(range(count))
    found: dict[int, None] = {}
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= dict.fromkeys(range(int(first), int(last or first) + 1))
    return tuple(found)


Instances = Annotated[v.Whole, Field(ge=1, le=7)]
Shards = Annotated[v.Whole, Field(ge=2, le=128)]


class MigShape(Section):
    """How an instance of a MIG profile lies on a GPU."""

    size: v.Whole = Field(ge=1, le=8, description="Memory slices that it uses, of eight.")
    placements: tuple[v.Whole, ...] = Field(min_length=1, description="Slices where it may start, counted from 0.")
    max_instances: v.Whole | None = Field(
        None, ge=1, le=7, description="Highest number of instances on one GPU, where that is lower than what fits."
    )
