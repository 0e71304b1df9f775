"""The wheel that collections of Ansible come from by default, as data: the type of ansible.yaml. Pure."""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field


class AnsibleWheel(BaseModel):
    """The wheel of the PyPI package `ansible`, pinned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wheel: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    size_bytes: int


@cache
def ansible_wheel() -> AnsibleWheel:
    """Return the pinned wheel."""
    text = resources.files(__package__).joinpath("ansible.yaml").read_text(encoding="utf-8")
    return AnsibleWheel.model_validate(yaml.load(text, Loader=yaml.CSafeLoader))
