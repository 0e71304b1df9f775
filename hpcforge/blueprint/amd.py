"""The section `software.amd`: what nodes with GPUs of AMD get. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hpcforge.blueprint import suggestions
from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section

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
