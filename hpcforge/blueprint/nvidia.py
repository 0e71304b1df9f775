"""The section `software.nvidia`: the driver and CUDA that hpcforge installs on nodes with GPUs. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import meant
from hpcforge.blueprint import values as v
from hpcforge.blueprint.present import DriverVersion
from hpcforge.blueprint.section import Section

_CudaVersion = Annotated[
    str, v.Matches(r"[0-9]{1,2}\.[0-9]{1,2}", "two numbers, as in 12.4", "12.4", guess=meant.plainer)
]


class Nvidia(Section):
    """What nodes with GPUs of NVIDIA get from the distribution."""

    driver: DriverVersion = Field(
        description="Version of the driver: modules and libraries, pinned and held at it. docs/software.md says which "
        "there are."
    )
    modules: Literal["open", "closed"] = Field(description="Which of its kernel modules.")
    cuda: tuple[_CudaVersion, ...] = Field((), max_length=6, description="CUDA runtimes, side by side.")
