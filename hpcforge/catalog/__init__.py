"""Hardware, distributions and software releases as data: each number with its unit and source, unknown is None. Pure.

The YAML files have the data, the modules its types. Hardware has the keys of `hpcforge.blueprint.sections.hardware`, as
in a blueprint, where `like:` means the same; an entry may be like another one of its file. The package may import
`hpcforge.blueprint`, `hpcforge.frameworks` and shared modules. Choices of one cluster do not belong here, and no number
without a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from hpcforge.blueprint.sections.hardware import (
    AnEntry,
    CableModel,
    Cpu,
    Drive,
    Gpu,
    Nic,
    Parts,
    Pdu,
    RackModel,
    Server,
    Switch,
    Ups,
    inherit,
)
from hpcforge.catalog.distribution import Distribution, Distributions
from hpcforge.catalog.file_systems import FileSystemKind
from hpcforge.catalog.slurm import SlurmRelease
from hpcforge.frameworks import FrameworkBuild
from hpcforge.yaml_folder import Folder


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_BUILDS = TypeAdapter(tuple[FrameworkBuild, ...])


class _Shelf(Mapping[str, AnEntry]):
    """The models of one file, by name. It is read when one is looked for: a command needs few kinds of parts."""

    def __init__(self, kind: type[AnEntry], file: str) -> None:
        self._kind, self._file = kind, file

    @cached_property
    def _models(self) -> dict[str, AnEntry]:
        entries = _read(self._file) or {}
        return resolve_likes({name: self._kind.model_validate(data) for name, data in entries.items()})

    def __getitem__(self, name: str) -> AnEntry:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)


@dataclass(frozen=True)
class Catalog:
    """The known hardware and software that can be bought or downloaded."""

    servers: Mapping[str, Server]
    gpus: Mapping[str, Gpu]
    cpus: Mapping[str, Cpu]
    nics: Mapping[str, Nic]
    drives: Mapping[str, Drive]
    pdus: Mapping[str, Pdu]
    ups: Mapping[str, Ups]
    racks: Mapping[str, RackModel]
    cables: Mapping[str, CableModel]
    switches: Mapping[str, Switch]
    distributions: Mapping[tuple[str, str], Distribution]  # by name and release
    file_systems: Mapping[str, FileSystemKind]  # by kind
    slurm: Mapping[str, SlurmRelease]  # by release
    pytorch: tuple[FrameworkBuild, ...]

    def extended(self, servers: Mapping[str, Server], parts: Parts) -> Catalog:
        """Return the catalog with a blueprint's own hardware, which counts before what has the same name."""
        return replace(
            self,
            servers=_with(self.servers, servers),
            gpus=_with(self.gpus, parts.gpus),
            cpus=_with(self.cpus, parts.cpus),
            nics=_with(self.nics, parts.nics),
            drives=_with(self.drives, parts.drives),
            pdus=_with(self.pdus, parts.pdus),
            ups=_with(self.ups, parts.ups),
            racks=_with(self.racks, parts.racks),
            cables=_with(self.cables, parts.cables),
            switches=_with(self.switches, parts.switches),
        )

    def names(self) -> dict[str, tuple[str, ...]]:
        """Return the names that a blueprint may use, by their table."""
        tables = ("servers", "gpus", "cpus", "nics", "drives", "pdus", "ups", "racks", "cables", "switches")
        return {
            **{table: tuple(getattr(self, table)) for table in (*tables, "file_systems")},
            "systems": tuple(name for name, _ in self.distributions),
            "releases": tuple(release for _, release in self.distributions),
            "pytorch": tuple(build.version for build in self.pytorch),
        }

    def pytorch_build(self, version: str, device: str, system: Distribution) -> FrameworkBuild | None:
        """Return the pinned wheels that run on a distribution, None if there are none."""
        return next((build for build in self.pytorch_builds(device, system) if build.version == version), None)

    def pytorch_builds(self, device: str, system: Distribution) -> tuple[FrameworkBuild, ...]:
        """Return every pinned build for a device that runs on a distribution."""
        of_device = (build for build in self.pytorch if build.device == device)
        return tuple(build for build in of_device if build.runs_with(system.python, system.libc))


class AnsibleWheel(_Entry):
    """The wheel of the PyPI package `ansible`, which collections come from by default."""

    wheel: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    size_bytes: int


@cache
def ansible_wheel() -> AnsibleWheel:
    """Return the pinned wheel."""
    return AnsibleWheel.model_validate(_read("ansible.yaml"))


@cache
def load_catalog() -> Catalog:
    """Return the catalog that ships with hpcforge."""
    return Catalog(
        servers=_Shelf(Server, "hardware.yaml"),
        gpus=_Shelf(Gpu, "gpus.yaml"),
        cpus=_Shelf(Cpu, "cpus.yaml"),
        nics=_Shelf(Nic, "nics.yaml"),
        drives=_Shelf(Drive, "drives.yaml"),
        pdus=_Shelf(Pdu, "pdus.yaml"),
        ups=_Shelf(Ups, "ups.yaml"),
        racks=_Shelf(RackModel, "racks.yaml"),
        cables=_Shelf(CableModel, "cables.yaml"),
        switches=_Shelf(Switch, "switches.yaml"),
        distributions=Distributions(resources.files(__name__).joinpath("distributions")),
        file_systems=Folder(resources.files(__name__).joinpath("file_systems"), FileSystemKind),
        slurm=Folder(resources.files(__name__).joinpath("slurm"), SlurmRelease),
        pytorch=_BUILDS.validate_python(_read("frameworks.yaml")["pytorch"]),
    )


def _with(shipped: Mapping[str, AnEntry], own: Mapping[str, AnEntry]) -> Mapping[str, AnEntry]:
    return {**shipped, **resolve_likes(own, shipped)} if own else shipped


def resolve_likes(entries: Mapping[str, AnEntry], parents: Mapping[str, AnEntry] | None = None) -> dict[str, AnEntry]:
    """Return entries with the facts of the entries that they are like; an unknown `like` adds nothing.

    `parents` has complete entries; an entry with such a name may be like the one that it replaces. Entries that are
    like each other in a circle keep their own facts.
    """
    complete: dict[str, AnEntry] = {}

    def resolved(name: str, above: tuple[str, ...]) -> AnEntry | None:
        if name in above or name not in entries:
            return (parents or {}).get(name)
        if name not in complete:
            entry = entries[name]
            parent = resolved(entry.like, (*above, name)) if entry.like else None
            complete[name] = inherit(entry, parent) if parent else entry
        return complete[name]

    for name in entries:
        resolved(name, ())
    return complete


def _read(name: str) -> Any:
    return yaml.load(resources.files(__name__).joinpath(name).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
