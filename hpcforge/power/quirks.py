"""The table of what management controllers do wrong: quirks.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict


class Quirk(BaseModel):
    """One of them. Waits are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seen: str
    then: str
    source: str
    protocol: Literal["redfish", "ipmi"] = "redfish"
    statuses: tuple[int, ...] = ()  # of HTTP
    wait_s: float = 0.0
    every_s: float = 0.0
    tries: int = 1


@cache
def quirks() -> Mapping[str, Quirk]:
    """Return the table by name."""
    text = (files("hpcforge.power") / "quirks.yaml").read_text(encoding="utf-8")
    return {name: Quirk(**row) for name, row in yaml.safe_load(text).items()}
