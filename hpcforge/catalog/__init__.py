"""Hardware, distributions and framework builds as data: each number with its unit and source, unknown is None. Pure."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DefaultGpus(_Entry):
    """The GPUs that a server model comes with."""

    model: str
    count: int = Field(ge=1)


class Server(_Entry):
    """A server model. `sources` maps each known fact, or `*` for all, to where it is published."""

    description: str
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    memory_gib: int | None
    gpus: DefaultGpus | None
    sources: dict[str, str]


class Gpu(_Entry):
    """A GPU model; `vendor` "none": a rehearsal's stand-in."""

    description: str
    vendor: Literal["none", "nvidia"]
    memory_gb: float | None
    memory_peak_tb_per_s: float | None
    bf16_dense_peak_tflops: float | None
    sources: dict[str, str]


class System(_Entry):
    """A distribution release and the versions that it packages itself."""

    name: str
    release: str
    python: str
    slurm: str
    libc: str
    pytorch: str | None
    source: str


class PinnedWheel(_Entry):
    """A wheel's file name and SHA-256."""

    file: str = Field(pattern=r"^[A-Za-z0-9_.+-]+\.whl$")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class PyTorchBuild(_Entry):
    """Wheels for one PyTorch version, device and Python; torch itself first. `libc`: the oldest they run with."""

    version: str
    device: Literal["cpu", "cuda"]
    python: str
    arch: str
    libc: str
    source: str
    wheels: tuple[PinnedWheel, ...] = Field(min_length=1)


class Catalog(_Entry):
    """Everything that is known about hardware and software that can be bought or downloaded."""

    servers: dict[str, Server]
    gpus: dict[str, Gpu]
    systems: tuple[System, ...]
    pytorch: tuple[PyTorchBuild, ...]

    def system(self, name: str, release: str) -> System | None:
        """The distribution release, None if it is not known."""
        return next((entry for entry in self.systems if (entry.name, entry.release) == (name, release)), None)

    def pytorch_build(self, version: str, device: str, system: System) -> PyTorchBuild | None:
        """The pinned wheels that run on a distribution, None if there are none."""
        for build in self.pytorch:
            fits = _number(build.libc) <= _number(system.libc)
            if (build.version, build.device, build.python) == (version, device, system.python) and fits:
                return build
        return None


@cache
def load_catalog() -> Catalog:
    """Return the catalog that ships with hpcforge."""
    return Catalog(
        servers=_read("hardware.yaml"),
        gpus=_read("gpus.yaml"),
        systems=_read("systems.yaml"),
        pytorch=_read("frameworks.yaml")["pytorch"],
    )


def _read(name: str) -> Any:
    return yaml.load(resources.files(__name__).joinpath(name).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
