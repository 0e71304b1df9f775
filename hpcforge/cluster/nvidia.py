"""NVIDIA software that hpcforge installs: packages, sources and nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections import gpus as nv
from hpcforge.blueprint.sections.software import Software
from hpcforge.catalog import Catalog
from hpcforge.catalog.nvidia import Archive, Packages, archive_name, load_archives, named
from hpcforge.software.solve import numbers, within

if TYPE_CHECKING:
    from hpcforge.cluster.model.node import Node


_CUDA_13 = ">=580"  # drivers with CUDA 13 (docs.nvidia.com/deploy/cuda-compatibility)


@dataclass(frozen=True)
class NvidiaRepository:
    """NVIDIA's package repository, or a mirror of it."""

    url: str  # ends in /
    host: str  # "": the packages are on the nodes themselves
    key: str  # the public key of its signatures, in ASCII armour


@dataclass(frozen=True)
class NvidiaPackages:
    """The names of installed packages; versions are the blueprint's."""

    of_driver: str  # condition of awk: packages with the driver's version; $2 source, $3 version, $4 package
    other: str  # condition of awk: packages of driver, DCGM and container toolkit with another version than desired
    pinned: tuple[str, ...]  # packages that apt installs only in the driver's version: names or patterns of apt
    pinned_modules: tuple[str, ...]  # the same for kernel modules
    pinned_dcgm: tuple[str, ...]  # the same for DCGM
    pinned_container_toolkit: tuple[str, ...]  # the same for the container toolkit
    never_from: str | None  # the Origin of another archive with packages of the same names
    beside: tuple[str, ...]  # components of the distribution's archive that these packages need besides main
    driver: tuple[str, ...]
    driver_held: tuple[str, ...]
    modules: tuple[str, ...]
    modules_held: tuple[str, ...]
    module: str  # its name in DKMS and modinfo
    cuda: tuple[str, ...]
    fabric_manager: tuple[str, ...]  # (): the archive has none
    dcgm: tuple[str, ...]
    container_toolkit: tuple[str, ...]


@dataclass(frozen=True)
class CudaToolkit:
    """A CUDA toolkit that jobs load as a module."""

    version: str  # "12.4"
    home: str  # the folder above bin/nvcc


@dataclass(frozen=True)
class Nvidia:
    """Software of NVIDIA that hpcforge installs; `Cluster.driver` has its version."""

    modules: Literal["open", "closed"]
    cuda: tuple[str, ...]  # "12.4"
    dcgm: str | None  # its version
    container_toolkit: str | None  # its version
    models: tuple[str, ...]  # models of GPUs whose nodes get it
    switched: tuple[str, ...]  # hardware with NVSwitches between its GPUs
    packages: NvidiaPackages
    repository: NvidiaRepository | None  # None: the distribution's
    kernel: str | None  # kernel of the nodes, if the blueprint sets it
    toolkits: tuple[CudaToolkit, ...] = ()  # toolkits of `cuda`, in its order
    secure_boot: bool = False  # the blueprint declares Secure Boot; rules then check the signer of modules

    def on(self, node: Node) -> bool:
        """Return whether a node gets it."""
        return node.gpus is not None and node.gpus.model in self.models

    def fabric_on(self, node: Node) -> bool:
        """Return whether a node gets Fabric Manager, too: it has NVSwitches, and the archive has it."""
        return self.on(node) and node.hardware in self.switched and bool(self.packages.fabric_manager)


def nvidia(blueprint: Blueprint, catalog: Catalog, models: tuple[str, ...], key: str) -> Nvidia | None:
    """Return the software for nodes with GPUs of these `models`; `key` is the text of the repository's key."""
    software, section = blueprint.software, blueprint.software.nvidia
    if section is None:
        return None
    hardware = {group.hardware for group in blueprint.nodes.values()}
    return Nvidia(
        modules=section.modules,
        cuda=section.cuda,
        dcgm=section.dcgm,
        container_toolkit=section.container_toolkit,
        models=models,
        switched=tuple(sorted(name for name in hardware if catalog.servers[name].nvswitch)),
        packages=_packages(software, section),
        repository=_repository(software, key),
        kernel=software.preinstalled.kernel,
        toolkits=tuple(CudaToolkit(version, _home(_archive(software).cuda, version)) for version in section.cuda),
        secure_boot=bool(software.preinstalled.secure_boot),
    )


def _repository(software: Software, key: str) -> NvidiaRepository | None:
    source = software.sources.nvidia
    if source is None:
        return None
    default = _archive(software).repository
    url = source.url or (default.url if default else "")
    return NvidiaRepository(url.rstrip("/") + "/", urlsplit(url).hostname or "", key)


def _packages(software: Software, section: nv.NvidiaSection) -> NvidiaPackages:
    archive, driver = _archive(software), section.driver
    modules = archive.modules.get(section.modules, ())
    cuda = "13" if within(driver, _CUDA_13) else "12"
    return NvidiaPackages(
        of_driver=_driver_condition(archive),
        other=_differing_packages(archive, section),
        pinned=archive.pinned,
        pinned_modules=archive.pinned_modules,
        pinned_dcgm=archive.pinned_dcgm,
        pinned_container_toolkit=archive.pinned_container_toolkit,
        never_from=archive.never_from,
        beside=archive.beside,
        driver=_names(archive.driver, driver),
        driver_held=_names(archive.driver_held or archive.driver, driver),
        modules=_names(modules, driver),
        modules_held=_names(archive.modules_held.get(section.modules, modules), driver),
        module=archive.module[section.modules],
        cuda=tuple(name for version in section.cuda for name in _names(archive.cuda, version)),
        fabric_manager=_names(archive.fabric_manager, driver),
        dcgm=_names(archive.dcgm, section.dcgm, cuda),
        container_toolkit=_names(archive.container_toolkit, section.container_toolkit),
    )


def wanted_fingerprint(software: Software) -> str | None:
    """Return the fingerprint of the key that must sign NVIDIA's repository; None: not set."""
    repository = _archive(software).repository
    source = software.sources.nvidia
    return (source.fingerprint if source else None) or (repository.fingerprint if repository else None)


def _archive(software: Software) -> Archive:
    name = archive_name(software.os.name, software.os.release, nvidias=software.sources.nvidia is not None)
    return load_archives().get(name, Archive())


def _differing_packages(archive: Archive, section: nv.NvidiaSection) -> str:
    """Return an awk condition: installed packages whose version differs from the desired one."""
    others = ((archive.pinned_dcgm, section.dcgm), (archive.pinned_container_toolkit, section.container_toolkit))
    parts = [
        (_driver_condition(archive), section.driver),
        *((named(names), version) for names, version in others if version),
    ]
    return " || ".join(f'({part} && $3 != "{version}")' for part, version in parts)


def _driver_condition(archive: Archive) -> str:
    return archive.of_driver or named((*archive.pinned, *archive.pinned_modules))


def _names(releases: Iterable[Packages], version: str | None, cuda: str = "") -> tuple[str, ...]:
    """Return the packages of a version; none if it is not requested or not known."""
    if version is None:
        return ()
    major, minor = (*numbers(version), 0)[:2]
    packages = next((packages.packages for packages in releases if within(version, packages.version)), ())
    return tuple(name.format(major=major, minor=minor, cuda=cuda) for name in packages)


def _home(releases: Iterable[Packages], version: str) -> str:
    """Return the folder of a CUDA toolkit; "" if the version is not known."""
    major, minor = (*numbers(version), 0)[:2]
    folder = next((packages.home for packages in releases if within(version, packages.version)), "")
    return folder.format(major=major, minor=minor)


# Software of AMD that hpcforge installs, and its nodes. Pure.


@dataclass(frozen=True)
class Amd:
    """Software of AMD that hpcforge installs."""

    rocm: str  # version in the form of the HIP runtime
    models: tuple[str, ...]  # models of GPUs whose nodes get it
    kernel: str | None  # kernel of the nodes, if the blueprint sets it

    def on(self, node: Node) -> bool:
        """Return whether a node gets it."""
        return node.gpus is not None and node.gpus.model in self.models


def amd(software: Software, models: tuple[str, ...]) -> Amd | None:
    """Return the software for nodes with GPUs of these `models`."""
    return Amd(software.amd.rocm, models, software.preinstalled.kernel) if software.amd else None
