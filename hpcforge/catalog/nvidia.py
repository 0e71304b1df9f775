"""What NVIDIA's software is called where it comes from, as data: the types of nvidia.yaml. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Modules = Literal["open", "closed"]


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Packages(_Said):
    """Packages of a component; `version`: of which versions of it, in the words of compatibility.yaml."""

    version: str = "any"
    packages: tuple[str, ...] = Field(min_length=1)


class Repository(_Said):
    """A repository of NVIDIA's own, and the key that signs it."""

    url: str
    fingerprint: str = Field(pattern="^[0-9A-F]{40}$")


class Archive(_Said):
    """What one archive has, and what it calls it. Of an archive that nobody knows, nothing."""

    of_driver: str = "0"  # which installed packages have the driver's version; awk: $2 source, $3 version, $4 package
    pinned: str = "hpcforge-nothing"  # which packages apt takes in the driver's version alone, as it names them
    pinned_modules: str = "hpcforge-nothing"  # the same of kernel modules: where these change, the node restarts
    pinned_dcgm: str = "/^$/"  # those of DCGM
    pinned_container_toolkit: str = "/^$/"  # those of the container toolkit
    never_from: str | None = None  # the Origin of another archive that has packages of the same names, as apt knows it
    beside: tuple[str, ...] = ()  # components of the distribution's archive that these packages need, beside main
    driver: tuple[Packages, ...] = ()
    driver_held: tuple[Packages, ...] = ()  # those, and what comes with them; none said: those
    modules: Mapping[Modules, tuple[Packages, ...]] = {}
    modules_held: Mapping[Modules, tuple[Packages, ...]] = {}  # likewise
    module: Mapping[Modules, str] = {"open": "nvidia", "closed": "nvidia"}  # what DKMS and modinfo call it
    cuda: tuple[Packages, ...] = ()
    fabric_manager: tuple[Packages, ...] = ()
    dcgm: tuple[Packages, ...] = ()
    container_toolkit: tuple[Packages, ...] = ()
    repository: Repository | None = None  # None: the distribution's own
    sources: Mapping[str, str] = {}  # where each fact is published, by its name; *: the rest


@cache
def load_archives() -> Mapping[str, Archive]:
    """Return the archives that hpcforge knows, by name: `debian-12`, and NVIDIA's for it, `nvidia-debian-12`."""
    text = resources.files(__package__).joinpath("nvidia.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Archive]).validate_python(yaml.load(text, Loader=yaml.CSafeLoader))


def archive_name(name: str, release: str, *, nvidias: bool) -> str:
    """What the archive for a release of a distribution is called: its own, or NVIDIA's."""
    return f"{'nvidia-' if nvidias else ''}{name}-{release}"
