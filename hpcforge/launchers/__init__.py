"""The launchers of smoke tests: a file `NAME.yaml` here is one, and no other place names it. Pure.

A file `containers/NAME.yaml` is a container runtime: how it runs a command in an image. The package may import
`hpcforge.yaml_folder` only. The resulting command lines are made in `hpcforge.cluster` and `hpcforge.verify`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from hpcforge.yaml_folder import Folder


class Launcher(BaseModel):
    """How the processes of a smoke test are started through Slurm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    process: str = ""  # what verdicts call a process; "": there is one on each node
    per_node: Literal["gpus", "one"]  # processes on a node: one for each GPU, at least one; or one
    pytorch: bool = False  # it is part of PyTorch
    mpi: bool = False  # its processes are ranks of MPI: they get HPCFORGE_MPI_TRANSPORT, the planned transport
    in_order: bool = True  # ranks fill the nodes in the order of the launch, so a rank's number tells its node
    meets: bool = False  # its processes get HPCFORGE_MEETING=ADDRESS:PORT, a free port of the first node
    # Options of srun for the step; {cpus} is the number of CPUs that each process has. Ranks of a launcher with a
    # command share what its one task on the node has.
    srun: tuple[str, ...] = ("--cpu-bind=none", "--mpi=none")
    # What a task on each node runs to start the processes; Slurm starts each of them where this is empty. In braces:
    # python, nodes, per_node, job, address and port of the first node, torchrun, torchrun_options (words of the build).
    command: tuple[str, ...] = ()

    @property
    def ranked(self) -> bool:
        """Whether the processes are ranks: they meet at a port of the first node, and rank 0 reports for all."""
        return bool(self.command)

    def words(self, values: Mapping[str, str | tuple[str, ...]]) -> list[str]:
        """Return the command with its values; a word that is only a name becomes all the words of its value."""
        found: list[str] = []
        for word in self.command:
            value = values.get(word[1:-1], "")
            found += value if isinstance(value, tuple) else [word.format_map(values)]
        return found


class Container(BaseModel):
    """How a container runtime runs a command in an image: a folder with a root file system."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    # The words before the command. In braces: image, a folder that the job's user owns; tmp, the value of TMPDIR.
    # /opt/hpcforge and the folder TMPDIR must be in the container, and the variable must be set.
    enter: tuple[str, ...]


LAUNCHERS = Folder(resources.files(__name__), Launcher)  # by name
CONTAINERS = Folder(resources.files(__name__).joinpath("containers"), Container)  # by their words in blueprints
if TYPE_CHECKING:
    LauncherName = str
    ContainerName = str
else:
    LauncherName = Literal[tuple(LAUNCHERS)]
    ContainerName = Literal[tuple(CONTAINERS)]
