"""What NVIDIA's software is called where it comes from, as data: the types of nvidia.yaml. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Modules = Literal["open", "closed"]


class _NvidiaEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Packages(_NvidiaEntry):
    """Packages of a component; `version`: of which versions of it, in the words of compatibility.yaml."""

    version: str = "any"
    packages: tuple[str, ...] = Field(min_length=1)
    home: str = ""  # of a CUDA toolkit: the folder that CUDA_HOME names


class Repository(_NvidiaEntry):
    """A repository of NVIDIA's own, and the key that signs it."""

    url: str
    fingerprint: str = Field(pattern="^[0-9A-F]{40}$")


_NOTHING = ("hpcforge-nothing",)


class Archive(_NvidiaEntry):
    """What one archive has, and what it calls it. Of an archive that nobody knows, nothing."""

    # Which packages apt takes in one version alone: names, or patterns as glob(7) has them. apt compiles a regular
    # expression anew for each name that it knows, of which there are a hundred thousand.
    pinned: tuple[str, ...] = _NOTHING  # those of the driver
    pinned_modules: tuple[str, ...] = _NOTHING  # its kernel modules: where these change, the node restarts
    pinned_dcgm: tuple[str, ...] = _NOTHING
    pinned_container_toolkit: tuple[str, ...] = _NOTHING
    of_driver: str = ""  # which installed packages are the driver's, as `named` has it; "": those of both
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
    """Return the name of the archive for a release of a distribution: its own, or NVIDIA's."""
    return f"{'nvidia-' if nvidias else ''}{name}-{release}"


def named(patterns: Iterable[str]) -> str:
    """Whether an installed package has a name of these, as a condition of awk's: $2 source, $3 version, $4 package.

    `patterns` are names, or patterns as glob(7) has them, with `*` and ranges.
    """
    alternatives = "|".join(
        re.sub(r"[.+*]", lambda match: {"*": ".*"}.get(match[0], f"[{match[0]}]"), pattern) for pattern in patterns
    )
    return f"$4 ~ /^({alternatives})$/"


def bare_name(driver_name: str) -> str:
    """Return the driver's name of a GPU without its brand, which drivers have changed."""
    return driver_name.removeprefix("NVIDIA ").removeprefix("Tesla ")
