"""Distributions as data: a release is a file, `distributions/NAME-RELEASE.yaml`, and needs no code. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources.abc import Traversable
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from hpcforge.errors import ExpectedError

# Versions are excluded: each release has its own.
_INHERITED = ("package_manager", "packages", "units", "paths", "accounts", "package_accounts")
_Version = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)+$")]
_Path = Annotated[str, Field(pattern=r"^(/[^/\s]+)+$")]
_Unit = Annotated[str, Field(pattern=r"^[^/\s]+\.[a-z]+$")]
_Word = Annotated[str, Field(pattern=r"^[^/\s]+$")]

# Package managers of distributions without a file here, by their ID in /etc/os-release, for a message.
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("almalinux", "amzn", "centos", "fedora", "ol", "rhel", "rocky"), "dnf"),
    **dict.fromkeys(("opensuse-leap", "sles"), "zypper"),
}


class DistributionError(ExpectedError):
    """A distribution's file is wrong."""

    kind = "invalid"


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class PackageAccount(BaseModel):
    """An account that packages make, with a group of its name, where it is not there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    packages: tuple[_Word, ...] = Field(min_length=1)  # packages that need it, by reference name
    number: int | None = None  # a number for all nodes; None: each node assigns a number of its system


class Distribution(BaseModel):
    """A release of a distribution: the versions that it packages, and its names for what roles call by Debian 12's.

    `packages`, `units`, `paths` and `accounts` have its name by the reference name, where that is another; for a path
    all that lies below it goes with it, and for one package there may be several, or none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # ID in /etc/os-release
    release: str  # VERSION_ID in /etc/os-release
    package_manager: str
    python: _Version
    slurm: _Version
    libc: _Version
    openssh: _Version
    pytorch: _Version | None = None
    suite: str | None = None  # its name in the package archive
    testing: bool = False  # not released yet: its packages still change
    oldest_slurmd: _Version | None = None  # the oldest slurmd that works with its slurmctld and slurmdbd
    lacks: Mapping[_Word, str] = {}  # missing packages by reference name, with the reason
    sources: Mapping[str, str] = Field(min_length=1)  # publication of each fact, by the fact's name; *: all others
    packages: Mapping[_Word, Annotated[tuple[_Word, ...], BeforeValidator(_several)]] = {}
    units: Mapping[_Unit, _Unit] = {}
    paths: Mapping[_Path, _Path] = {}
    accounts: Mapping[_Word, _Word] = {}  # users and groups that packages create
    package_accounts: Mapping[_Word, PackageAccount] = {}  # by the reference name


class Distributions(Mapping[tuple[str, str], Distribution]):
    """The releases of a folder, by name and release. A file is read at the first use of its release."""

    def __init__(self, folder: Traversable) -> None:
        self._folder = folder
        self._read: dict[tuple[str, str], Distribution] = {}

    def __getitem__(self, key: tuple[str, str]) -> Distribution:
        """One of them. Raises `KeyError`, or `DistributionError` where its file is wrong."""
        if key not in self._read:
            self._read[key] = _distribution(*key, self._merged(self._files[key]))
        return self._read[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @cached_property
    def _files(self) -> dict[tuple[str, str], Traversable]:
        stems = {
            file.name.removesuffix(".yaml"): file for file in self._folder.iterdir() if file.name.endswith(".yaml")
        }
        by_release = {(stem.rpartition("-")[0], stem.rpartition("-")[2]): file for stem, file in stems.items()}
        return dict(sorted(by_release.items()))

    def _merged(self, file: Traversable, below: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the data of a file, with the names of the release that it is like."""
        try:
            data = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise DistributionError(f"{file}: {' '.join(str(error).split())}") from error
        if not isinstance(data, dict):
            raise DistributionError(f"{file}: not a mapping")
        like = data.pop("like", None)
        if like is None:
            return data
        if like in below or not (parent := self._folder.joinpath(f"{like}.yaml")).is_file():
            raise DistributionError(f"{file}: like: {like} is not another file of this folder")
        return {**_inherited(self._merged(parent, (*below, like)), data), **data}


def _inherited(parent: Mapping[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a release's names from the one that it is like; its own names replace these, and `own` loses them."""
    inherited: dict[str, Any] = {}
    for key in _INHERITED:
        if isinstance(parent.get(key), dict) and isinstance(own.get(key, {}), dict):
            inherited[key] = {**parent[key], **own.pop(key, {})}
        elif key in parent:
            inherited[key] = parent[key]
    return inherited


def _distribution(name: str, release: str, data: Mapping[str, Any]) -> Distribution:
    try:
        return Distribution.model_validate({**data, "name": name, "release": release})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DistributionError(f"distributions/{name}-{release}.yaml: {place}: {first['msg']}") from error
