"""The sections `software.nvidia` and `software.sources`: what nodes with GPUs of NVIDIA get, and from where. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import suggestions
from hpcforge.blueprint import values as v
from hpcforge.blueprint.preinstalled import DriverVersion
from hpcforge.blueprint.section import Section

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
