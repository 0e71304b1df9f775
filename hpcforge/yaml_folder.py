"""A folder of YAML files as a mapping by name; each file is an entry of one type. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources.abc import Traversable
from typing import Generic, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from hpcforge.errors import ExpectedError

T = TypeVar("T", bound=BaseModel)


class FolderError(ExpectedError):
    """An invalid file of a folder; the text has file, place and reason."""

    kind = "invalid"


class Folder(Mapping[str, T], Generic[T]):
    """The entries of a folder, by file name without `.yaml`. The first access to an entry reads its file."""

    def __init__(self, folder: Traversable, kind: type[T]) -> None:
        self._folder, self._kind = folder, kind
        self._read: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        """Return an entry. Raises `KeyError`, or `FolderError` if its file is invalid."""
        if name not in self._read:
            self._read[name] = self._entry(self._files[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @cached_property
    def _files(self) -> dict[str, Traversable]:
        files = [file for file in self._folder.iterdir() if file.name.endswith(".yaml")]
        return {file.name.removesuffix(".yaml"): file for file in sorted(files, key=lambda file: file.name)}

    def _entry(self, file: Traversable) -> T:
        try:
            return self._kind.model_validate(yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))
        except ValidationError as error:
            first = error.errors()[0]
            raise FolderError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise FolderError(f"{file}: {' '.join(str(error).split())}") from error
