"""The section `software.preinstalled`: what nodes with GPUs have that hpcforge does not install. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import suggestions
from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section

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
