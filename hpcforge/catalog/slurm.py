"""Settings of slurm.conf as data: a release of Slurm is a file, `slurm/RELEASE.yaml`, made by a tool. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources.abc import Traversable

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from hpcforge.errors import ExpectedError


class SlurmReleaseError(ExpectedError):
    """A file of a release of Slurm is wrong."""

    kind = "invalid"


class SlurmRelease(BaseModel):
    """The names that a release takes in slurm.conf, spelled as its own table has them; their case does not count."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str  # the package that they were read from, with its version
    settings: tuple[str, ...]

    def knows(self, name: str) -> bool:
        """Whether it takes a setting of this name, in whatever case."""
        return name.lower() in self._folded

    @cached_property
    def _folded(self) -> frozenset[str]:
        return frozenset(map(str.lower, self.settings))


class SlurmReleases(Mapping[str, SlurmRelease]):
    """Those of a folder, by release such as `22.05`. A file is read when its release is looked for."""

    def __init__(self, folder: Traversable) -> None:
        self._folder = folder
        self._read: dict[str, SlurmRelease] = {}

    def __getitem__(self, release: str) -> SlurmRelease:
        """One of them. Raises `KeyError`, or `SlurmReleaseError` where its file is wrong."""
        if release not in self._read:
            self._read[release] = _release(self._files[release])
        return self._read[release]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @cached_property
    def _files(self) -> dict[str, Traversable]:
        files = {
            file.name.removesuffix(".yaml"): file for file in self._folder.iterdir() if file.name.endswith(".yaml")
        }
        return dict(sorted(files.items()))


def _release(file: Traversable) -> SlurmRelease:
    try:
        return SlurmRelease.model_validate(yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))
    except ValidationError as error:
        first = error.errors()[0]
        raise SlurmReleaseError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SlurmReleaseError(f"{file}: {' '.join(str(error).split())}") from error
