"""Settings of slurm.conf as data: a release of Slurm is a file, `slurm/RELEASE.yaml`, made by a tool. Pure."""

from __future__ import annotations

from functools import cached_property

from pydantic import BaseModel, ConfigDict


class SlurmRelease(BaseModel):
    """The names that a release takes in slurm.conf, spelled as its own table has them; their case does not count."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str  # the package that they were read from, with its version
    settings: tuple[str, ...]

    def knows(self, name: str) -> bool:
        """Whether it takes a setting of this name, in whatever case."""
        return name.lower() in self._folded

    @cached_property
    def _folded(self) -> frozenset[str]:
        return frozenset(map(str.lower, self.settings))
