"""The result of a smoke test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpcforge.blueprint import values as v
from hpcforge.blueprint.hostlist import fold
from hpcforge.launchers import LAUNCHERS, LauncherName
from hpcforge.styles import joined, state

Status = Literal[
    "passed",
    "wrong",  # some rank computed a wrong result
    "missed",  # it ran well, and a number missed a limit of the test
    "failed",  # a rank, a node or the launch broke
    "timed_out",  # it ran past its limit, or a rank stopped answering
    "unknown",  # nothing failed, and not everything was measured
    "pending",  # Slurm did not start it in time
    "not_run",  # it could not be submitted to Slurm
]


@dataclass(frozen=True)
class Assertion:
    """A number compared with the right one, and the relative error with its bounds."""

    what: str
    expected: float
    got: float
    error: float
    tolerance: float  # highest error
    at_least: float = 0.0  # lowest error: a smaller one shows that something else was measured
    rank: int | None = None
    host: str = ""

    @property
    def numbers(self) -> tuple[float, ...]:
        """Each of its numbers."""
        return self.expected, self.got, self.error, self.tolerance, self.at_least

    @property
    def holds(self) -> bool:
        """Whether the error is within its bounds."""
        return self.at_least <= self.error <= self.tolerance


@dataclass(frozen=True)
class Line:
    """A limit of a measure. One that does not refuse is only shown."""

    measure: str
    bound: str  # at_least, at_most
    limit: float
    source: str  # "test.yaml", "0.8 of the median of 3", "baseline quiet", "0.85 of the derived bandwidth"
    refuses: bool = True
    part: str | None = None  # the node, or "" for all ranks together; None: of each
    derivation: str = ""  # of a derived bandwidth, several lines

    def misses(self, value: float) -> bool:
        """Whether a number is beyond it."""
        return value < self.limit if self.bound == "at_least" else value > self.limit

    def missed_in(self, by_part: Mapping[str, float]) -> list[str]:
        """Return the parts with numbers beyond it."""
        return [part for part, value in by_part.items() if self.part in (None, part) and self.misses(value)]


@dataclass(frozen=True)
class LaunchVerdict:
    """The result of one of several launches of a smoke test."""

    name: str
    launcher: LauncherName
    ends: Literal["done", "killed"]  # the end that it must have
    status: Status  # passed: it had this end
    nodes: tuple[v.NodeName, ...]
    ranks: int  # processes
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class MeasuredRound:
    """One round of a test that isolates bad parts: its measurements, their reasons, and the low values."""

    number: int
    seconds: float
    alone: tuple[str, ...]  # "w01 (first)"
    pairs: tuple[str, ...]  # "w01-w02 (repeat)"
    low: tuple[str, ...]


@dataclass(frozen=True)
class NamedPart:
    """A bad or unsteady part, or one of several indistinguishable candidates."""

    verdict: Literal["bad", "unsteady", "could not tell"]
    kind: str  # node, gpu, adapter, cable, uplink, uplinks, leaf, rail, pair
    part: str  # for people: node, rack and unit, GPU, port, labels of both ends
    nodes: tuple[v.NodeName, ...]
    measured: float  # median of the low values; 0: no answer
    unit: str
    at_least: float
    source: str  # of the line
    detail: str
    next_command: str
    at_most: float = 0.0  # of a latency


@dataclass(frozen=True)
class Isolation:
    """The rounds of a test that isolates bad parts, and the names that they led to."""

    rounds: tuple[MeasuredRound, ...]
    named: tuple[NamedPart, ...] = ()
    not_loaded: tuple[str, ...] = ()  # cables and uplinks that no measurement loaded
    one_way: int = 0  # uplinks that were loaded in one direction alone
    observations: tuple[str, ...] = ()  # on nodes that are fast enough


@dataclass(frozen=True)
class Verdict:
    """The result of one smoke test, with the blamed node and what to check next."""

    test: str
    status: Status
    nodes: tuple[v.NodeName, ...]  # planned or used by the test
    left_out: Mapping[v.NodeName, str] = field(default_factory=dict)  # unused nodes of the test, with reasons
    options: Mapping[str, str] = field(default_factory=dict)  # set by the blueprint, different from the test's own
    launcher: LauncherName = "torchrun"
    ranks: int = 0  # processes
    rank: int | None = None  # the rank to blame, if it is known
    node: str | None = None  # the node to blame, if it is known
    detail: str = ""  # one line
    reasons: Mapping[v.NodeName, str] = field(default_factory=dict)  # of each node that reports a fault of its own
    measurements: tuple[Mapping[str, float | int | str], ...] = ()  # as the test reports them; of each node its `host`
    assertions: tuple[Assertion, ...] = ()  # comparisons with right values
    lines: tuple[Line, ...] = ()  # limits of its numbers
    headline: str = ""  # the number to quote
    backend: str | None = None  # "gloo" or "nccl"
    device: str | None = None  # "cpu", or the GPU's name
    transport: str = ""  # "gloo on eth0": by the ranks' reports
    torch_build: str | None = None  # "2.13.0+cpu from wheel": by the test's report
    seconds: float = 0.0  # from submission to the end; the first of a launch has the start-up, others their own alone
    began_s: float = 0.0  # when its launch was submitted, since 1970, UTC
    jobs: tuple[str, ...] = ()  # numbers of its jobs in Slurm
    next_command: str | None = None  # a command for the head that shows more
    launches: tuple[LaunchVerdict, ...] = ()  # of a test that lists several
    isolation: Isolation | None = None  # of a test that isolates bad parts
    first_run: str = ""  # the missed limits of a first run, if the test was run twice
    waits_for: tuple[str, ...] = ()  # users' jobs that explain a pending test: "job 20, ada's train on w[01-02]"

    @property
    def passed(self) -> bool:
        """True only for a test that ran and was right."""
        return self.status == "passed"


def summary_line(verdict: Verdict) -> str:
    """Return one line for people, e.g. `allreduce  passed  6 ranks on w[01-03]  busbw 1.2 GB/s at 16 MiB  (...)`."""
    status = verdict.status.replace("_", " ")
    parts = [verdict.test, state(status), _middle(verdict)]
    if verdict.passed:
        parts += [verdict.headline, _build(verdict)]
    if verdict.passed and verdict.launches:
        parts.append("launches: " + ", ".join(f"{launch.name} {launch.ends}" for launch in verdict.launches))
    if verdict.options:
        parts.append("options: " + "; ".join(f"{name} {text or 'none'}" for name, text in verdict.options.items()))
    if verdict.first_run and verdict.passed:
        parts.append(f"run twice: the first missed, {verdict.first_run}")
    if verdict.left_out:
        parts.append("left out: " + ", ".join(f"{nodes} ({reason})" for reason, nodes in _by_reason(verdict.left_out)))
    return joined((part for part in parts if part), "  ")


def assertion_row(assertion: Assertion) -> str:
    """Return one line for people: the failed comparison, with the numbers."""
    low = assertion.error < assertion.at_least
    bound = f"at least {assertion.at_least:.3g}" if low else f"at most {assertion.tolerance:.3g}"
    place = f"rank {assertion.rank} on {assertion.host}: " if assertion.rank is not None and assertion.host else ""
    numbers = f"expected {assertion.expected:.7g}, got {assertion.got:.7g}"
    return f"{place}{assertion.what}: {numbers}; relative error {assertion.error:.3g}, must be {bound}"


def spread(launcher: LauncherName, processes: int, nodelist: str) -> str:
    """Return the number of processes and their nodes, e.g. `6 ranks on w[01-03]`."""
    process = LAUNCHERS[launcher].process
    return f"{processes} {process}s on {nodelist}" if process else f"each of {nodelist}"


def _middle(verdict: Verdict) -> str:
    place = fold(verdict.nodes) if verdict.nodes else "no node"
    if verdict.passed:
        return spread(verdict.launcher, verdict.ranks, place)
    if verdict.rank is not None:
        return f"rank {verdict.rank} on {verdict.node or 'an unknown node'}: {verdict.detail}"
    return f"{verdict.node or place}: {verdict.detail}"


def _build(verdict: Verdict) -> str:
    """Return backend, device and PyTorch of a verdict, as far as the test reported them."""
    device = "CPU" if verdict.device == "cpu" else verdict.device
    hardware = ", ".join(part for part in (verdict.backend, device) if part)
    torch = f"torch {verdict.torch_build}" if verdict.torch_build else ""
    text = "; ".join(part for part in (hardware, torch) if part)
    return f"({text})" if text else ""


def _by_reason(left_out: Mapping[str, str]) -> list[tuple[str, str]]:
    reasons = dict.fromkeys(left_out.values())
    return [
        (reason, fold(name for name, node_reason in left_out.items() if node_reason == reason)) for reason in reasons
    ]
