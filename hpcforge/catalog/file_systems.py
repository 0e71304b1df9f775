"""Kinds of file systems as data: one is a file, `file_systems/KIND.yaml`, that nothing else is told of. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources.abc import Traversable
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hpcforge.errors import ExpectedError

_Words = Annotated[str, Field(pattern=r"^[^\s%,]+$")]


class FileSystemError(ExpectedError):
    """A file of a kind of file systems is wrong."""

    kind = "invalid"


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Addressed(_Said):
    """How mount(8) names one that the site has."""

    pattern: str  # a regular expression of the whole
    form: str  # in words
    example: str


class Mounted(_Said):
    """What is mounted instead, in words of mount(8)."""

    what: _Words
    type: _Words
    options: tuple[_Words, ...]


class FileSystemKind(_Said):
    """How nodes reach file systems of a kind."""

    description: str
    type: _Words  # for mount(8)
    address: Addressed | None = None  # None: it is made on drives of each node's own
    served: str = ""  # what others mount where a role makes a node a server: {address} and {path} there, its own {name}
    spread: bool = False  # several nodes may serve one together, and mount it as any other does
    options_of_several: tuple[_Words, ...] = ()  # beside `options`, of several servers; {others}: all but the first
    packages: tuple[_Words, ...] = ()  # of Debian 12: a distribution's own names are in its file
    try_s: int = 0  # how long a try to mount may take where that is longer than of others, seconds
    fuse: bool = False  # a program on the node serves it
    mounted_by: str = ""  # what mounts it instead of hpcforge, which then looks after it alone
    options: tuple[_Words, ...] = ()
    refused: Mapping[_Words, str] = {}  # options, with or without a value, and why nobody may choose them
    without_homes: str = ""  # why homes of users are never on it
    served_without_homes: str = ""  # why they are not where a node of ours serves it
    rehearsed: Mounted | None = None  # what a rehearsal has instead; None: the same
    sources: Mapping[str, str] = Field(min_length=1)  # where each fact is published, by its name; *: the rest


class FileSystemKinds(Mapping[str, FileSystemKind]):
    """Those of a folder, by name. A file is read when its kind is looked for."""

    def __init__(self, folder: Traversable) -> None:
        self._folder = folder
        self._read: dict[str, FileSystemKind] = {}

    def __getitem__(self, name: str) -> FileSystemKind:
        """One of them. Raises `KeyError`, or `FileSystemError` where its file is wrong."""
        if name not in self._read:
            self._read[name] = _kind(self._files[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @cached_property
    def _files(self) -> dict[str, Traversable]:
        files = [file for file in self._folder.iterdir() if file.name.endswith(".yaml")]
        return {file.name.removesuffix(".yaml"): file for file in sorted(files, key=lambda file: file.name)}


def _kind(file: Traversable) -> FileSystemKind:
    try:
        said = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        return FileSystemKind.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        raise FileSystemError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise FileSystemError(f"{file}: {' '.join(str(error).split())}") from error
