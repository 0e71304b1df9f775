"""Names of NVIDIA's software in each archive, as data: the types of nvidia.yaml. Pure."""

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
    home: str = ""  # the folder for CUDA_HOME of a CUDA toolkit


class Repository(_NvidiaEntry):
    """A repository of NVIDIA's own, and the key that signs it."""

    url: str
    fingerprint: str = Field(pattern="^[0-9A-F]{40}$")


_NOTHING = ("hpcforge-nothing",)


class Archive(_NvidiaEntry):
    """What one archive has, and what it calls it. Of an archive that nobody knows, nothing."""

    # Packages that apt installs in one version only: names, or patterns of glob(7). apt would compile a regular
    # expression for each package name that it has, about a hundred thousand.
    pinned: tuple[str, ...] = _NOTHING  # packages of the driver
    pinned_modules: tuple[str, ...] = _NOTHING  # its kernel modules: a node restarts after their change
    pinned_dcgm: tuple[str, ...] = _NOTHING
    pinned_container_toolkit: tuple[str, ...] = _NOTHING
    of_driver: str = ""  # condition for packages of the driver, in the form of `named`; "": both of the above
    never_from: str | None = None  # the Origin, in apt's words, of another archive with packages of the same names
    beside: tuple[str, ...] = ()  # components of the distribution's archive that these packages need besides main
    driver: tuple[Packages, ...] = ()
    driver_held: tuple[Packages, ...] = ()  # packages of the driver and their dependencies; (): the driver's alone
    modules: Mapping[Modules, tuple[Packages, ...]] = {}
    modules_held: Mapping[Modules, tuple[Packages, ...]] = {}  # the same for modules
    module: Mapping[Modules, str] = {"open": "nvidia", "closed": "nvidia"}  # its name in DKMS and modinfo
    cuda: tuple[Packages, ...] = ()
    fabric_manager: tuple[Packages, ...] = ()
    dcgm: tuple[Packages, ...] = ()
    container_toolkit: tuple[Packages, ...] = ()
    repository: Repository | None = None  # None: the distribution's archive
    sources: Mapping[str, str] = {}  # publication of each fact, by the fact's name; *: all others


@cache
def load_archives() -> Mapping[str, Archive]:
    """Return the archives that hpcforge knows, by name: `debian-12`, and NVIDIA's for it, `nvidia-debian-12`."""
    text = resources.files(__package__).joinpath("nvidia.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Archive]).validate_python(yaml.load(text, Loader=yaml.CSafeLoader))


def archive_name(name: str, release: str, *, nvidias: bool) -> str:
    """Return the name of the archive for a release of a distribution: its own, or NVIDIA's."""
    return f"{'nvidia-' if nvidias else ''}{name}-{release}"


def named(patterns: Iterable[str]) -> str:
    """Return a condition of awk that an installed package has one of these names: $2 source, $3 version, $4 package.

    `patterns` are names, or patterns of glob(7) with `*` and ranges.
    """
    alternatives = "|".join(
        re.sub(r"[.+*]", lambda match: {"*": ".*"}.get(match[0], f"[{match[0]}]"), pattern) for pattern in patterns
    )
    return f"$4 ~ /^({alternatives})$/"


def bare_name(driver_name: str) -> str:
    """Return the driver's name of a GPU without its brand, which drivers have changed."""
    return driver_name.removeprefix("NVIDIA ").removeprefix("Tesla ")
