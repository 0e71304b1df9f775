"""Compatible versions of the software that GPUs need: the types of compatibility.yaml. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

Component = Literal[
    "driver", "modules", "fabric_manager", "cuda", "pytorch_cuda", "dcgm", "container_toolkit", "ofed", "gpudirect",
    "kernel", "secure_boot", "signed_by", "gpu", "nvswitch", "slurm", "slurm_topology", "slurm_second_topology",
    "slurm_oldest", "slurm_shards", "source", "rocm", "rocm_source",
]  # fmt: skip
_VERSION = r"[0-9][A-Za-z0-9_.-]*"
_WORD = r"[a-z][a-z-]*(?:[0-9][0-9.]*)?"
_WORDS = rf"{_WORD}(?: \| {_WORD})*"
Range = Annotated[
    str,
    Field(
        pattern=rf"^(?:any|same as {_WORD}|(?:>=|<){_VERSION}(?:, (?:>=|<){_VERSION})*|{_VERSION}|{_WORDS})$",
    ),
]


class CompatibilityRule(BaseModel):
    """If all of `when` holds, all of `needs` must hold; `required`: the blueprint must set it, too.

    `installed`: the rule is for software that hpcforge installs, not for preinstalled software.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str = Field(pattern="^SOFTWARE-[0-9]{3}$")
    title: str
    severity: Literal["error", "warning"] = "error"
    when: dict[Component, Range] = Field(min_length=1)
    needs: dict[Component, Range] = Field(min_length=1, max_length=1)
    required: bool = False
    installed: bool = False
    reason: str
    source: str


class Compatibility(BaseModel):
    """The table. `offered` has by component what may be proposed, oldest first, and where it comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    offered: Mapping[Component, Mapping[str, str]]
    rules: tuple[CompatibilityRule, ...]


@cache
def load_compatibility() -> Compatibility:
    """Return the table that ships with hpcforge."""
    text = resources.files(__package__).joinpath("compatibility.yaml").read_text(encoding="utf-8")
    return Compatibility.model_validate(yaml.load(text, Loader=yaml.CSafeLoader))
