"""Kinds of file systems as data: one is a file, `file_systems/KIND.yaml`, that nothing else is told of. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Words = Annotated[str, Field(pattern=r"^[^\s%,]+$")]


class _FileSystemEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Addressed(_FileSystemEntry):
    """How mount(8) names one that the site has."""

    pattern: str  # a regular expression of the whole
    form: str  # in words
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
    address: Addressed | None = None  # None: it is made on drives of each node's own
    served: str = ""  # what others mount where a role makes a node a server: {address} and {path} there
    packages: tuple[_Words, ...] = ()  # of Debian 12: a distribution's own names are in its file
    mounted_by: str = ""  # what mounts it instead of hpcforge, which then looks after it alone
    options: tuple[_Words, ...] = ()
    refused: Mapping[_Words, str] = {}  # options, with or without a value, and why nobody may choose them
    rehearsed: Mounted | None = None  # what a rehearsal has instead; None: the same
    sources: Mapping[str, str] = Field(min_length=1)  # where each fact is published, by its name; *: the rest
