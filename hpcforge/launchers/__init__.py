"""The launchers of smoke tests: a file `NAME.yaml` here is one, and nothing else is told of it. Pure.

So is a file `containers/NAME.yaml`: how a container runtime runs a command in an image.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Literal

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter


class Launcher(BaseModel):
    """How the processes of a smoke test are started through Slurm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    description: str
    process: str = ""  # what verdicts call a process; "": there is one on each node
    per_node: Literal["gpus", "one"]  # processes on a node: one for each GPU, at least one; or one
    pytorch: bool = False  # it is part of PyTorch
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
        """The command with its values; a word that is only a name becomes all the words of its value."""
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


def load_launchers(folder: Traversable | None = None) -> dict[str, Launcher]:
    """Every launcher of a folder, by name; None: of this package. Raises ValidationError."""
    return TypeAdapter(dict[str, Launcher]).validate_python(_read(folder or resources.files(__name__)))


def load_containers(folder: Traversable | None = None) -> dict[str, Container]:
    """Every container runtime of a folder, by its word in blueprints; None: of this package. Raises ValidationError."""
    found = _read(folder or resources.files(__name__).joinpath("containers"))
    return TypeAdapter(dict[str, Container]).validate_python(found)


def _read(folder: Traversable) -> dict[str, object]:
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    texts = {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in files}
    return {name: yaml.load(texts[name], Loader=yaml.CSafeLoader) for name in sorted(texts)}


LAUNCHERS = load_launchers()
CONTAINERS = load_containers()
if TYPE_CHECKING:
    LauncherName = str
    ContainerName = str
else:
    LauncherName = Literal[tuple(LAUNCHERS)]
    ContainerName = Literal[tuple(CONTAINERS)]
