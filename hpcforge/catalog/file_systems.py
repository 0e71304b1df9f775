"""Kinds of file systems as data: a kind is a file, `file_systems/KIND.yaml`, and needs no code. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Words = Annotated[str, Field(pattern=r"^[^\s%,]+$")]


class _FileSystemEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Addressed(_FileSystemEntry):
    """How mount(8) names one that the site has."""

    pattern: str  # a regular expression for the whole address
    form: str  # the same in words
    example: str


class Mounted(_FileSystemEntry):
    """What is mounted instead, in words of mount(8)."""

    what: _Words
    type: _Words
    options: tuple[_Words, ...]


class FileSystemKind(_FileSystemEntry):
    """How nodes reach file systems of a kind."""

    description: str
    type: _Words  # for mount(8)
    address: Addressed | None = None  # None: nodes' own drives
    served: str = ""  # the source for clients if a role serves it from a node, with {address} and {path}
    packages: tuple[_Words, ...] = ()  # packages of Debian 12; a distribution's file has its names for them
    mounted_by: str = ""  # a program that mounts it; hpcforge then only checks it
    options: tuple[_Words, ...] = ()
    refused: Mapping[_Words, str] = {}  # options, with or without a value, that no blueprint may set, and why
    rehearsed: Mounted | None = None  # the substitute in a rehearsal; None: the same
    sources: Mapping[str, str] = Field(min_length=1)  # publication of each fact, by the fact's name; *: all others
