"""What a blueprint says of drivers and where they come from, against itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.blueprint import schema as s
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.gpus import NvidiaSection
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.variables import Roles

_NVIDIA = ("software", "sources", "nvidia")
_BROUGHT = "remove it here: this lists software that hpcforge does not install"
_THREE_NUMBERS_SINCE, _NUMBERS = 530, 3  # such as 535.261.03, 550.163.01, 580.159.04; 495.46 had two
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
    """Check that what is installed is not brought, too, and that what comes from NVIDIA's repository may."""
    software: s.Software | None = draft.sections["software"]
    if software is None or not all(draft.intact("software", key) for key in ("nvidia", "preinstalled", "sources")):
        return
    yield from _partial_versions(software)
    asked = software.nvidia
    if asked is not None:
        yield from _brought_too(software, asked)
    if software.sources.nvidia is None:
        return
    if asked is None:
        hint = "say what under `software.nvidia`, or remove it"
        yield Finding(_NVIDIA, "nothing is installed from NVIDIA's repository", hint, key=True)
    elif not software.sources.nvidia.licence_accepted:
        licences = "; ".join(text for key, text in _LICENCES.items() if getattr(asked, key))
        message = f"NVIDIA's licences of these packages are not accepted: {licences}"
        yield Finding(_NVIDIA, message, "read them, and write `licence_accepted: true` here", key=True)


def _brought_too(software: s.Software, asked: NvidiaSection) -> Iterator[Finding]:
    for key in ("driver", "modules", "dcgm", "container_toolkit"):
        if getattr(asked, key) and getattr(software.preinstalled, key) is not None:
            yield Finding(("software", "preinstalled", key), f"`software.nvidia` already installs the {key}", _BROUGHT)
    if software.sources.nvidia and software.preinstalled.fabric_manager is not None:
        message = "NVIDIA's repository installs Fabric Manager too, at the driver's version"
        yield Finding(("software", "preinstalled", "fabric_manager"), message, _BROUGHT)


def _partial_versions(software: s.Software) -> Iterator[Finding]:
    """Yield versions that no driver of NVIDIA has: `535.261` is a branch with half of a version."""
    for key in ("driver", "fabric_manager"):
        version = getattr(software.preinstalled, key)
        numbers = (version or "").split(".")
        if numbers[0].isdecimal() and int(numbers[0]) >= _THREE_NUMBERS_SINCE and len(numbers) < _NUMBERS:
            message = f"{quote(version)} is a part of a version: those of branch {numbers[0]} have three numbers"
            hint = "write all of it, as `modinfo -F version nvidia` prints it, for example 535.261.03"
            yield Finding(("software", "preinstalled", key), message, hint, severity="warning")
