"""Frameworks beside PyTorch: a file `NAME.yaml` here is one, and a key of `software.frameworks`. Pure.

A file has its pinned wheels, one build for each version and Python, and is read when the blueprint names the framework.
The package may import `hpcforge.yaml_folder` only. Nothing else in hpcforge names a framework of this folder.
"""

from __future__ import annotations

from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hpcforge.yaml_folder import Folder


class _Pinned(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PinnedWheel(_Pinned):
    """A wheel's file name and SHA-256."""

    file: str = Field(pattern=r"^[A-Za-z0-9_.+-]+\.whl$")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class FrameworkBuild(_Pinned):
    """Wheels for one version, device and Python; the framework itself first. `libc`: the oldest they run with."""

    version: str
    device: Literal["cpu", "cuda"] = "cpu"
    cuda: str | None = None  # the runtime that the wheels bring; None for the device cpu
    python: str
    arch: str
    libc: str
    source: str
    wheels: tuple[PinnedWheel, ...] = Field(min_length=1)

    def runs_with(self, python: str, libc: str) -> bool:
        """Whether a release with this Python and C library can have it."""
        return self.python == python and _number(self.libc) <= _number(libc)


class PinnedFramework(_Pinned):
    """A framework, and its builds for CPUs and GPUs."""

    title: str
    use: str  # Python statements that fail where an environment is not whole
    builds: tuple[FrameworkBuild, ...] = Field(min_length=1)

    @property
    def versions(self) -> tuple[str, ...]:
        """Each once, in the order of the file."""
        return tuple(dict.fromkeys(build.version for build in self.builds))

    def build(self, version: str, python: str, libc: str, device: str = "cpu") -> FrameworkBuild | None:
        """Return the pinned wheels for a Python and a C library; None if there are none.

        Without a build for the device that for CPUs is returned.
        """
        fit = [build for build in self.builds if build.version == version and build.runs_with(python, libc)]
        return next((build for kind in (device, "cpu") for build in fit if build.device == kind), None)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


# As `use` of the others. Bytecode is made for what it imports, since jobs cannot write it themselves: not for all 4,900
# files, but with what training imports late (an optimizer brings torch._dynamo).
USE_OF_PYTORCH = "import torch, torch.distributed.run, torch.nn.parallel; torch.optim.SGD([torch.zeros(1)], lr=1)"
FRAMEWORKS = Folder(resources.files(__name__), PinnedFramework)  # by their keys in blueprints
