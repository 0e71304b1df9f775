"""Services, operating system, PyTorch, frameworks, platforms and the roles of a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from hpcforge.catalog import load_catalog
from hpcforge.catalog.distribution import PackageAccount


@dataclass(frozen=True)
class Service:
    """The nodes of a service, or the outside service; neither: the cluster has none."""

    on: tuple[str, ...] = ()  # nodes
    external: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # all options of its role
    certified: bool = False  # its nodes have certificates of the cluster's authority
    people: tuple[str, ...] = ()  # accounts in a directory that stands in for the site's

    @property
    def host(self) -> str | None:
        """The node that it runs on; None where it runs outside, or nowhere."""
        return self.on[0] if self.on else None


@dataclass(frozen=True)
class Names:
    """A distribution's names for parts that roles name by Debian's; see `OperatingSystem`."""

    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    units: Mapping[str, str] = field(default_factory=dict, hash=False)
    paths: Mapping[str, str] = field(default_factory=dict, hash=False)  # files, and folders with everything below
    accounts: Mapping[str, str] = field(default_factory=dict, hash=False)  # users and groups that packages create
    lacks: Mapping[str, str] = field(default_factory=dict, hash=False)  # missing packages, with the reason

    @cached_property
    def all_as_in_debian(self) -> bool:
        """True if all its names are the same as in Debian."""
        return not (self.packages or self.units or self.paths or self.accounts)


@dataclass(frozen=True)
class OperatingSystem:
    """A distribution release and what follows from it."""

    name: str  # "debian"
    release: str  # "12"
    python: str  # the distribution's own, "3.11"
    slurm: str  # the distribution's own, "22.05"
    libc: str  # "2.36": the newest that a wheel may need
    openssh: str  # the distribution's own, "9.2"
    names: Names = Names()  # names that differ from Debian 12's
    suite: str | None = None  # its name in the package archive
    oldest_slurmd: str | None = None  # the oldest slurmd that works with its slurmctld and slurmdbd

    @property
    def slurm_version(self) -> tuple[int, ...]:
        """Slurm's version as numbers that compare, (22, 5)."""
        return tuple(int(part) for part in self.slurm.split("."))

    @property
    def slurm_settings(self) -> tuple[str, ...] | None:
        """The names that its Slurm takes in slurm.conf; None for a release that the catalog does not have."""
        release = load_catalog().slurm.get(self.slurm)
        return tuple(release.settings) if release else None

    @property
    def package_accounts(self) -> Mapping[str, PackageAccount]:
        """The accounts that packages make, by their names here; none for a release that the catalog lacks."""
        distribution = load_catalog().distributions.get((self.name, self.release))
        return (
            {self.account(name): account for name, account in distribution.package_accounts.items()}
            if distribution
            else {}
        )

    @property
    def openssh_version(self) -> tuple[int, ...]:
        """OpenSSH's version as numbers that compare, (9, 2)."""
        return tuple(int(part) for part in self.openssh.split("."))

    def packages(self, name: str) -> tuple[str, ...]:
        """Return the packages here for one of Debian's. Raise ValueError for one that the release lacks."""
        if name in self.names.lacks:
            raise ValueError(f"{self.name} {self.release} lacks the package {name}: {self.names.lacks[name]}")
        return self.names.packages.get(name, (name,))

    def unit(self, name: str) -> str:
        """Return the name of a systemd unit here."""
        return self.names.units.get(name, name)

    def path(self, path: str) -> str:
        """Return a path in this distribution. A folder's content moves with it, and drop-ins with their unit."""
        if self.names.units and "/systemd/system/" in path:
            path = "/".join(map(self._unit_part, path.split("/")))
        if not self.names.paths:
            return path
        at = len(path)
        while at > 0:  # the longest declared path
            if (own := self.names.paths.get(path[:at])) is not None:
                return own + path[at:]
            at = path.rfind("/", 0, at)
        return path

    def account(self, name: str) -> str:
        """Return the name here of a user or a group that a package brings."""
        return self.names.accounts.get(name, name)

    def _unit_part(self, part: str) -> str:
        unit = part.removesuffix(".d")
        return self.unit(unit) + part[len(unit) :]


@dataclass(frozen=True)
class Wheel:
    """A pinned Python wheel."""

    file: str
    sha256: str


@dataclass(frozen=True)
class PyTorch:
    """PyTorch of the workers: pinned wheels, or the distribution's package."""

    version: str
    build: Literal["wheel", "distribution"]
    wheels: tuple[Wheel, ...]  # torch itself first; empty: the distribution's build

    @property
    def modules(self) -> frozenset[str]:
        """The modules of its wheels."""
        return frozenset(wheel.file.split("-")[0].lower() for wheel in self.wheels)

    @property
    def python(self) -> str:
        """The interpreter on a worker that can import torch."""
        return "/opt/hpcforge/pytorch/bin/python" if self.build == "wheel" else "/usr/bin/python3"


@dataclass(frozen=True)
class Framework:
    """A framework beside PyTorch that the workers get as pinned wheels."""

    name: str
    title: str
    version: str
    use: str  # Python statements that fail if it does not work
    wheels: tuple[Wheel, ...]  # the framework itself first
    environment: str  # folder below /opt/hpcforge: its name; for further versions with the version

    @property
    def default(self) -> bool:
        """True if jobs get it without a version."""
        return self.environment == self.name

    @property
    def python(self) -> str:
        """The interpreter on a worker that can import it."""
        return f"/opt/hpcforge/{self.environment}/bin/python"


@dataclass(frozen=True)
class Platform:
    """The release of the distribution that a node has, and the frameworks that it gets there."""

    os: OperatingSystem
    pytorch: PyTorch | None
    frameworks: tuple[Framework, ...] = ()


@dataclass(frozen=True)
class SiteRole:
    """A site's own Ansible role, and the nodes it runs on."""

    name: str
    path: Path
    on: tuple[str, ...]
