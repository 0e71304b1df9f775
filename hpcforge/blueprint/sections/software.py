"""The section `software`: operating system, frameworks, containers, and checks of drivers' sources. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.section import LazySection, Section
from hpcforge.blueprint.sections.gpus import AmdSection, NvidiaSection, Present, Sources
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.variables import Roles
from hpcforge.frameworks import FRAMEWORKS


class OperatingSystemSection(Section):
    """The distribution that is installed on the nodes."""

    name: Annotated[v.DistributionName, v.OfCatalog("systems")] = Field(
        description="Distribution, as in ID of /etc/os-release."
    )
    release: Annotated[v.ReleaseNumber, v.OfCatalog("releases")] = Field(
        description="Release, as in VERSION_ID of /etc/os-release."
    )


_CONTAINERS = "Containers for jobs."


_FRAMEWORKS = "Frameworks on the workers."


_Versions = Annotated[tuple[v.Version, ...], v.ShortForm()]


class Frameworks(Section):
    """What jobs import; of several versions, which are side by side, the first is the default."""

    pytorch: Annotated[tuple[Annotated[v.Version, v.OfCatalog("pytorch")], ...], v.ShortForm()] = Field(
        (), description="Versions of PyTorch in the catalog; the first is the default."
    )

    def others(self) -> dict[str, tuple[str, ...]]:
        """Return the versions of the frameworks beside PyTorch, by name."""
        return {name: versions for name in FRAMEWORKS if (versions := getattr(self, name, ()))}


class SiteRoleSection(Section):
    """A site's own Ansible role."""

    path: v.FilePath = Field(description="The role's folder, relative to the blueprint.")
    on: v.NodeSet = Field(description="Nodes, as a node set: a hostlist, a function, a group, a rack, all!w03.")


class ContainersSection(Section):
    """Container runtimes for jobs."""

    runtimes: tuple[v.SectionName, ...] = Field(
        (), description="Container runtimes on the workers, for jobs of every user. docs/jobs.md shows each."
    )


class Software(Section):
    """Operating system, drivers, frameworks, a site's own roles, and what nodes bring."""

    os: OperatingSystemSection = Field(description="Operating system of all nodes.")
    frameworks: Frameworks = Field(Frameworks.model_construct(), description=_FRAMEWORKS)
    containers: ContainersSection = Field(ContainersSection.model_construct(), description=_CONTAINERS)
    site_roles: tuple[SiteRoleSection, ...] = Field(
        (), description="The site's own Ansible roles; they run after hpcforge's roles."
    )
    nvidia: Annotated[NvidiaSection | None, LazySection()] = Field(
        None, description="Driver and CUDA for nodes with NVIDIA GPUs; checked before any change."
    )
    amd: Annotated[AmdSection | None, LazySection()] = Field(
        None, description="ROCm for nodes with AMD GPUs; checked before any change."
    )
    sources: Annotated[Sources, LazySection()] = Field(
        Sources.model_construct(), description="Package sources in addition to the distribution's."
    )
    preinstalled: Annotated[Present, LazySection()] = Field(
        Present.model_construct(),
        description="Driver software that is already on nodes with GPUs. hpcforge checks it with `nvidia` before any "
        "change, and never installs it.",
    )


def software_model(runtimes: tuple[str, ...]) -> type[Software]:
    """Return the section of a blueprint for the container runtimes that roles provide, and the frameworks."""
    pinned: dict[str, object] = {
        name: (_Versions, Field((), description=f"Versions of {name}, as pinned wheels; the first is the default."))
        for name in FRAMEWORKS
    }
    fields: dict[str, Any] = {"frameworks": _made(Frameworks, _FRAMEWORKS, pinned)}
    if runtimes:
        words = (tuple[Literal[runtimes], ...], ContainersSection.model_fields["runtimes"])  # type: ignore[valid-type]
        fields["containers"] = _made(ContainersSection, _CONTAINERS, {"runtimes": words})
    return create_model("Software", __base__=Software, __doc__=Software.__doc__, **fields)


def _made(base: type[Section], description: str, fields: Mapping[str, Any]) -> tuple[type[Section], object]:
    """Return a section with more fields, and itself as a field."""
    section = create_model(base.__name__, __base__=base, __doc__=base.__doc__, **fields)
    return section, Field(section.model_construct(), description=description)


_NVIDIA = ("software", "sources", "nvidia")
_BROUGHT = "remove it here: this lists software that hpcforge does not install"
_THREE_NUMBERS_SINCE, _NUMBERS = 530, 3  # 535.261.03, 550.163.01, 580.159.04; but 495.46 has two
_LICENCES = {
    "driver": "of the driver the License For Customer Use of NVIDIA Software (nvidia.com/en-us/drivers/nvidia-license)",
    "cuda": "of CUDA the End User License Agreement (docs.nvidia.com/cuda/eula)",
    "dcgm": "of DCGM the one in its package (/usr/share/doc)",
    "container_toolkit": "of the container toolkit the Apache License 2.0",
}


def variable_findings(draft: Draft) -> Iterator[Finding]:
    """Yield variables of roles that have no effect without another one."""
    roles: Roles | None = draft.sections["roles"]
    for role, name, needed, variable in roles.unmet() if roles else ():
        if draft.intact("roles", role, name) and draft.intact("roles", role, needed):
            hint = f"add `{needed}: ...` beside it. {variable.description}"
            yield Finding(("roles", role, name), f"`{name}` needs `{needed}`", hint, key=True)


def software_findings(draft: Draft) -> Iterator[Finding]:
    """Check that preinstalled software is not also installed, and that NVIDIA's repository is allowed if used."""
    software: Software | None = draft.sections["software"]
    if software is None or not all(draft.intact("software", key) for key in ("nvidia", "preinstalled", "sources")):
        return
    yield from _partial_versions(software)
    nvidia = software.nvidia
    if nvidia is not None:
        yield from _brought_too(software, nvidia)
    if software.sources.nvidia is None:
        return
    if nvidia is None:
        hint = "name the software under `software.nvidia`, or remove this"
        yield Finding(_NVIDIA, "nothing is installed from NVIDIA's repository", hint, key=True)
    elif not software.sources.nvidia.licence_accepted:
        licences = "; ".join(text for key, text in _LICENCES.items() if getattr(nvidia, key))
        message = f"NVIDIA's licences of these packages are not accepted: {licences}"
        yield Finding(_NVIDIA, message, "read them, and write `licence_accepted: true` here", key=True)


def _brought_too(software: Software, nvidia: NvidiaSection) -> Iterator[Finding]:
    for key in ("driver", "modules", "dcgm", "container_toolkit"):
        if getattr(nvidia, key) and getattr(software.preinstalled, key) is not None:
            yield Finding(("software", "preinstalled", key), f"`software.nvidia` already installs the {key}", _BROUGHT)
    if software.sources.nvidia and software.preinstalled.fabric_manager is not None:
        message = "NVIDIA's repository installs Fabric Manager too, at the driver's version"
        yield Finding(("software", "preinstalled", "fabric_manager"), message, _BROUGHT)


def _partial_versions(software: Software) -> Iterator[Finding]:
    """Yield versions that no driver of NVIDIA has: `535.261` is a branch with half of a version."""
    for key in ("driver", "fabric_manager"):
        version = getattr(software.preinstalled, key)
        numbers = (version or "").split(".")
        if numbers[0].isdecimal() and int(numbers[0]) >= _THREE_NUMBERS_SINCE and len(numbers) < _NUMBERS:
            message = f"{quote(version)} is not a full version: branch {numbers[0]} has three numbers"
            hint = "write the full version, as `modinfo -F version nvidia` prints it, for example 535.261.03"
            yield Finding(("software", "preinstalled", key), message, hint, severity="warning")
