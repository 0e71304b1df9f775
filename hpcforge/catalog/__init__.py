"""Hardware, distributions and framework builds as data: each number with its unit and source, unknown is None. Pure.

What can be said of hardware is in `hpcforge.blueprint.hardware`: a blueprint says it in the same words, and its
`like:` means the same. An entry here may be like another of the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

from hpcforge.blueprint.hardware import (
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


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class System(_Entry):
    """A distribution release and the versions that it packages itself."""

    name: str
    release: str
    python: str
    slurm: str
    libc: str
    pytorch: str | None
    source: str


class PinnedWheel(_Entry):
    """A wheel's file name and SHA-256."""

    file: str = Field(pattern=r"^[A-Za-z0-9_.+-]+\.whl$")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class PyTorchBuild(_Entry):
    """Wheels for one PyTorch version, device and Python; torch itself first. `libc`: the oldest they run with."""

    version: str
    device: Literal["cpu", "cuda"]
    python: str
    arch: str
    libc: str
    source: str
    wheels: tuple[PinnedWheel, ...] = Field(min_length=1)


class Catalog(_Entry):
    """Everything that is known about hardware and software that can be bought or downloaded."""

    servers: dict[str, Server]
    gpus: dict[str, Gpu]
    cpus: dict[str, Cpu]
    nics: dict[str, Nic]
    drives: dict[str, Drive]
    pdus: dict[str, Pdu]
    ups: dict[str, Ups]
    racks: dict[str, RackModel]
    cables: dict[str, CableModel]
    switches: dict[str, Switch]
    systems: tuple[System, ...]
    pytorch: tuple[PyTorchBuild, ...]

    def extended(self, servers: Mapping[str, Server], parts: Parts) -> Catalog:
        """Return the catalog with a blueprint's own hardware, which counts before what has the same name."""
        own: dict[str, dict[str, Any]] = {
            "servers": resolve_likes(servers, self.servers),
            "gpus": resolve_likes(parts.gpus, self.gpus),
            "cpus": resolve_likes(parts.cpus, self.cpus),
            "nics": resolve_likes(parts.nics, self.nics),
            "drives": resolve_likes(parts.drives, self.drives),
            "pdus": resolve_likes(parts.pdus, self.pdus),
            "ups": resolve_likes(parts.ups, self.ups),
            "racks": resolve_likes(parts.racks, self.racks),
            "cables": resolve_likes(parts.cables, self.cables),
            "switches": resolve_likes(parts.switches, self.switches),
        }
        return self.model_copy(update={kind: {**getattr(self, kind), **models} for kind, models in own.items()})

    def system(self, name: str, release: str) -> System | None:
        """The distribution release, None if it is not known."""
        return next((entry for entry in self.systems if (entry.name, entry.release) == (name, release)), None)

    def pytorch_build(self, version: str, device: str, system: System) -> PyTorchBuild | None:
        """The pinned wheels that run on a distribution, None if there are none."""
        for build in self.pytorch:
            fits = _number(build.libc) <= _number(system.libc)
            if (build.version, build.device, build.python) == (version, device, system.python) and fits:
                return build
        return None


@cache
def load_catalog() -> Catalog:
    """Return the catalog that ships with hpcforge."""
    return Catalog(
        servers=_models(Server, "hardware.yaml"),
        gpus=_models(Gpu, "gpus.yaml"),
        cpus=_models(Cpu, "cpus.yaml"),
        nics=_models(Nic, "nics.yaml"),
        drives=_models(Drive, "drives.yaml"),
        pdus=_models(Pdu, "pdus.yaml"),
        ups=_models(Ups, "ups.yaml"),
        racks=_models(RackModel, "racks.yaml"),
        cables=_models(CableModel, "cables.yaml"),
        switches=_models(Switch, "switches.yaml"),
        systems=_read("systems.yaml"),
        pytorch=_read("frameworks.yaml")["pytorch"],
    )


def _models(kind: type[AnEntry], file: str) -> dict[str, AnEntry]:
    return resolve_likes({name: kind.model_validate(data) for name, data in (_read(file) or {}).items()})


def resolve_likes(entries: Mapping[str, AnEntry], known: Mapping[str, AnEntry] | None = None) -> dict[str, AnEntry]:
    """Return entries with the facts of those they are like; one without a `like` to be found keeps only its own.

    `known` has entries that are whole already; an entry of a name in it may be like the one it replaces. Entries that
    are like each other in a circle keep their own facts.
    """
    whole: dict[str, AnEntry] = {}

    def resolved(name: str, above: tuple[str, ...]) -> AnEntry | None:
        if name in above or name not in entries:
            return (known or {}).get(name)
        if name not in whole:
            entry = entries[name]
            parent = resolved(entry.like, (*above, name)) if entry.like else None
            whole[name] = inherit(entry, parent) if parent else entry
        return whole[name]

    for name in entries:
        resolved(name, ())
    return whole


def _read(name: str) -> Any:
    return yaml.load(resources.files(__name__).joinpath(name).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
