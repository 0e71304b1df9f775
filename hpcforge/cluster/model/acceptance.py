"""Smoke tests as programs declare them, and the tests that a blueprint selects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hpcforge.blueprint.smoke_tests import Bound, Level, OneGpu, Operation
from hpcforge.cluster.launches import ProgramLaunch, RankNeeds
from hpcforge.cluster.model.node import Node
from hpcforge.launchers import LAUNCHERS, ContainerName, LauncherName


@dataclass(frozen=True)
class Measure:
    """A number that a smoke test reports."""

    name: str
    unit: str  # "1": no unit
    better: Literal["higher", "lower"] | None = None
    shown: Literal["number", "count", "size", "text"] = "number"
    per: Literal["rank"] | None = None  # rank: each rank reports its own value
    between: Literal["ranks", "local_ranks"] | None = None  # measured between two ranks of the job, or two of each node


@dataclass(frozen=True)
class Threshold:
    """The limit of a measure: a number, or a fraction of the nodes' median."""

    measure: str
    bound: Bound
    number: float


@dataclass(frozen=True)
class TransportRule:
    """The transport that ranks must use. Names are as NCCL's log spells them."""

    network: str | None = None  # network that gloo uses: "nodes", or one of the blueprint; None: any
    rdma_only: bool = False  # the other fields count only between nodes on one InfiniBand or RoCE fabric
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportedModule:
    """A module beside smoke tests' folders, which programs import."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class SmokeTestProgram:
    """The folder of a smoke test: its program and the measures that it must report."""

    name: str = ""
    text: str = field(default="", repr=False)
    launcher: LauncherName = "torchrun"
    measures: tuple[Measure, ...] = ()
    headline: str = ""
    lines: tuple[Threshold, ...] = ()
    options: tuple[tuple[str, str], ...] = ()  # options with their defaults, as the program gets them
    pytorch: bool = True
    gpus: Literal["any", "real"] | None = None
    pytorch_at_least: str | None = None  # the lowest version, as two numbers
    min_nodes: int = 1
    imports: tuple[ImportedModule, ...] = ()
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # imported modules
    ranks: RankNeeds = field(default=RankNeeds())
    scratch: Literal["shared"] | None = None  # None: any
    framework: str | None = None  # a framework other than PyTorch, whose Python runs the program
    container: ContainerName | None = None  # the container runtime of its ranks
    declared: bool = False  # it reads declared.json of its node
    launches: tuple[ProgramLaunch, ...] = ()  # empty: a single launch
    isolates: bool = False  # further launches isolate a bad node or rank
    description: str = ""
    level: Level = "smoke"
    transport: TransportRule | None = None  # None: any
    derived: tuple[tuple[str, Operation | OneGpu], ...] = ()  # measures and the operations that limit them

    @property
    def ranked(self) -> bool:
        """True if any launch starts ranks: rank 0 reports for all."""
        names = [launch.launcher for launch in self.launches] or [self.launcher]
        return any(LAUNCHERS[name].ranked for name in names)

    @property
    def wants_whole_gpus(self) -> bool:
        """True if each of its ranks needs a GPU, where there are any."""
        return self.pytorch or self.gpus is not None

    def has_gpus(self, node: Node) -> bool:
        """Return whether a node has the GPUs that it needs."""
        return self.gpus is None or (node.gpus is not None and not (self.gpus == "real" and node.gpus.fake))


@dataclass(frozen=True)
class SmokeTest:
    """One acceptance test and the nodes that it spans; of a test with several sets there is one for each."""

    name: str
    nodes: tuple[str, ...]
    time_limit_s: int
    program: SmokeTestProgram = field(default=SmokeTestProgram(), compare=False)
    options: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # options that differ from their defaults


@dataclass(frozen=True)
class Acceptance:
    """Tests that must pass before the cluster counts as working."""

    run_as: str
    tests: tuple[SmokeTest, ...]
