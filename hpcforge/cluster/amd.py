"""What hpcforge installs of AMD's, and on which nodes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcforge.blueprint import schema as s

if TYPE_CHECKING:
    from hpcforge.cluster.model.node import Node


@dataclass(frozen=True)
class Amd:
    """What hpcforge installs of AMD's."""

    rocm: str  # its version, as the HIP runtime has it
    models: tuple[str, ...]  # of GPUs whose nodes get it
    kernel: str | None  # that nodes have, where the blueprint says it

    def on(self, node: Node) -> bool:
        """Whether a node gets it."""
        return node.gpus is not None and node.gpus.model in self.models


def amd(software: s.Software, models: tuple[str, ...]) -> Amd | None:
    """What is installed on nodes with GPUs of these `models`."""
    return Amd(software.amd.rocm, models, software.preinstalled.kernel) if software.amd else None
