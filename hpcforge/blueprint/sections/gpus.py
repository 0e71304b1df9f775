"""GPUs in a blueprint: MIG and shards of a node; `software.nvidia`, `amd`, `sources` and `preinstalled`. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import suggestions
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.section import Section

# GPUs of a node in a blueprint: their names, their division into instances (MIG), and their jobs. Pure.


ALL = "all"
_LARGEST = 15  # a node has no more than 16
_RANGE = re.compile(r"(0|[1-9][0-9]?)(?:-(0|[1-9][0-9]?))?")

_PROFILE = r"[1-7]g\.[1-9][0-9]{0,2}gb(?:\+me)?"

MigProfile = Annotated[str, v.Matches(_PROFILE, "a MIG profile as nvidia-smi names it", "1g.10gb")]


def _gpus(text: str) -> str:
    """Check what names GPUs of a node."""
    if text == ALL:
        return text
    if re.fullmatch(_PROFILE, text):
        raise v.refusal(
            f"{quote(text)} does not name GPUs of a node", f"name the GPUs with these instances: all: {{{text}: 1}}"
        )
    for part in text.split(","):
        right = _RANGE.fullmatch(part)
        if not right or int(right[2] or right[1]) > _LARGEST or int(right[2] or right[1]) < int(right[1]):
            hint = "as nvidia-smi counts them, from 0, for example 0-3 or 0,2,6-7; or all"
            raise v.refusal(f"{quote(text)} does not name GPUs of a node", hint)
    return text


GpuSet = Annotated[str, v.Checked(_gpus)]


def gpus_named(text: str, count: int) -> tuple[int, ...]:
    """Return the GPUs in a `GpuSet`, for a node that has `count`: all of those, or the listed ones, present or not."""
    if text == ALL:
        return tuple(range(count))
    indices: dict[int, None] = {}
    for part in text.split(","):
        first, _, last = part.partition("-")
        indices |= dict.fromkeys(range(int(first), int(last or first) + 1))
    return tuple(indices)


Instances = Annotated[v.Whole, Field(ge=1, le=7)]
Shards = Annotated[v.Whole, Field(ge=2, le=128)]


class MigShape(Section):
    """How an instance of a MIG profile lies on a GPU."""

    size: v.Whole = Field(ge=1, le=8, description="Memory slices that it uses, of eight.")
    placements: tuple[v.Whole, ...] = Field(min_length=1, description="Slices where it may start, counted from 0.")
    max_instances: v.Whole | None = Field(
        None,
        ge=1,
        le=7,
        description="Highest number of instances on one GPU, if that is lower than the number that fits.",
    )


# The section `software.amd`: software for nodes with AMD's GPUs. Pure.


_Version = Annotated[
    str,
    v.Matches(
        r"[0-9]{1,3}(?:\.[0-9]{1,3}){2}", "a version with all its three numbers", "5.7.1", guess=suggestions.plainer
    ),
]


class AmdSection(Section):
    """What nodes with GPUs of AMD get from the distribution; the driver (amdgpu) is that of its kernel."""

    rocm: _Version = Field(
        description="ROCm version of the HIP runtime, pinned and held. docs/software.md lists the versions."
    )


_CudaVersion = Annotated[
    str, v.Matches(r"[0-9]{1,2}\.[0-9]{1,2}", "two numbers, as in 12.4", "12.4", guess=suggestions.plainer)
]
_Full = Annotated[
    str,
    v.Matches(
        r"[0-9]{1,4}(?:\.[0-9]{1,4}){2}", "a version with all its three numbers", "4.4.1", guess=suggestions.plainer
    ),
]
_Repository = Annotated[
    str,
    v.Matches(
        r"(?:https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?|file://)(?:/[A-Za-z0-9._~+-]{1,100}){1,20}/?",
        "the address of a package repository",
        "https://mirror.example.org/cuda/debian12/",
        guess=suggestions.plainer,
    ),
]
_Fingerprint = Annotated[
    str,
    v.Matches(
        "[0-9A-F]{40}",
        "the fingerprint of a key, 40 hexadecimal digits without spaces",
        "EB693B3035CD5710E231E123A4B469963BF863CC",
        guess=lambda text: text.replace(" ", "").upper(),
    ),
]


class NvidiaSection(Section):
    """What nodes with GPUs of NVIDIA get, from the distribution or from NVIDIA's repository (`sources.nvidia`)."""

    driver: DriverVersion = Field(
        description="Driver version, pinned and held: modules and libraries, and Fabric Manager from NVIDIA's "
        "repository on machines with NVSwitches. docs/software.md lists the versions."
    )
    modules: Literal["open", "closed"] = Field(description="Which kernel modules: `open` or `closed` (proprietary).")
    cuda: tuple[_CudaVersion, ...] = Field(
        (),
        max_length=6,
        description="CUDA toolkits, installed side by side, each with a module `cuda/VERSION` (`roles.lmod`): the "
        "distribution's, or NVIDIA's.",
    )
    dcgm: _Full | None = Field(None, description="Version of DCGM, from NVIDIA's repository.")
    container_toolkit: _Full | None = Field(
        None, description="Version of NVIDIA's container toolkit, from NVIDIA's repository; nodes get a CDI file."
    )


class NvidiaRepositorySection(Section):
    """NVIDIA's package repository, or a mirror of it."""

    url: _Repository | None = Field(None, description="Its address; default: NVIDIA's repository for the release.")
    key: v.FilePath = Field(
        description="The file of its public key in ASCII armour, relative to the blueprint; no other key is accepted."
    )
    fingerprint: _Fingerprint | None = Field(
        None, description="Fingerprint of that key; default: NVIDIA's key for the release."
    )
    licence_accepted: v.Truth = Field(
        False, description="You accept NVIDIA's licences of the installed packages; required."
    )


class Sources(Section):
    """Where software comes from that the distribution does not have."""

    nvidia: NvidiaRepositorySection | None = Field(None, description="The package repository for `software.nvidia`.")


# The section `software.preinstalled`: software on nodes with GPUs that hpcforge does not install. Pure.


_FULL = r"[0-9]{1,6}(?:\.[0-9]{1,6}){1,3}"
DriverVersion = Annotated[
    str, v.Matches(_FULL, "a version with all its numbers", "535.261.03", guess=suggestions.plainer)
]
_Matched = Annotated[
    str,
    v.Matches(rf"matched|{_FULL}", "`matched` or a version with all its numbers", "matched", guess=suggestions.plainer),
]
_Kernel = Annotated[
    str,
    v.Matches(
        r"[0-9]{1,3}\.[0-9]{1,3}(?:[.+-][A-Za-z0-9_]{1,32}){0,8}",  # Debian 13 has 6.12.48+deb13-amd64
        "the release of a kernel, as `uname -r` prints it",
        "6.1.0-40-amd64",
        guess=suggestions.plainer,
    ),
]


class Present(Section):
    """What nodes with GPUs bring with them."""

    kernel: _Kernel | None = Field(None, description="The kernel's release, as `uname -r` prints it.")
    secure_boot: v.Truth | None = Field(None, description="Secure Boot is on.")
    signed_by: Literal["none", "owner", "distribution"] | None = Field(
        None, description="The signer of the kernel modules; owner: an enrolled machine owner key."
    )
    driver: DriverVersion | None = Field(None, description="Version of NVIDIA's driver.")
    modules: Literal["open", "closed"] | None = Field(
        None, description="Which kernel modules: `open` or `closed` (proprietary)."
    )
    fabric_manager: _Matched | None = Field(
        None, description="Version of Fabric Manager; matched: the driver's version."
    )
    cuda: tuple[v.Version, ...] = Field((), max_length=6, description="CUDA toolkits, side by side.")
    dcgm: v.Version | None = Field(None, description="Version of DCGM.")
    container_toolkit: v.Version | None = Field(None, description="Version of NVIDIA's container toolkit.")
    ofed: v.Version | None = Field(
        None, description="Version of DOCA-OFED, if used instead of the kernel's own drivers."
    )
    gpudirect: Literal["peermem", "dma-buf"] | None = Field(
        None, description="How adapters reach the memory of GPUs; peermem: over the module nvidia-peermem."
    )
