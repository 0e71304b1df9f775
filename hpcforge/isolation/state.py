"""The state of isolation: rounds, their measurements, and the named parts. All of it can be written as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hpcforge.isolation.wiring import NodeWiring

Judgement = Literal["bad", "unsteady", "could not tell"]
Kind = Literal["node", "gpu", "adapter", "cable", "uplink", "uplinks", "leaf", "rail", "pair"]
Quantity = Literal[
    "round_trip_ms",
    "retransmits_per_1000_segments",
    "duplicates_per_1000_segments",
    "reorders_per_1000_segments",
]
# first: not measured before. cover: nothing else loads a part. repeat: it was low. suspect: a part with other partners.
# control: good until now, so that a slow moment of all nodes blames no part.
Why = Literal["first", "cover", "repeat", "suspect", "control"]


class Part(NamedTuple):
    """A part that may be bad, by numbers: node, leaf or rail, and GPU, rail, uplink or other node."""

    kind: Kind
    of: int
    at: int = 0


class Pair(NamedTuple):
    """Two nodes that will send to each other on every rail, and the reason."""

    a: int
    b: int
    why: Why


class Alone(NamedTuple):
    """A node to measure without partners, and the reason."""

    node: int
    why: Why


@dataclass(frozen=True)
class Round:
    """Measurements of one launch. A node first measures alone, then takes its pairs in turn, in the order given."""

    number: int  # from 1
    alone: tuple[Alone, ...] = ()
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class NodeValues:
    """The values of a node alone: of each GPU, and through each adapter back to itself if that can be measured."""

    compute: tuple[float, ...]
    loopback: tuple[float, ...] = ()


class Symptom(NamedTuple):
    """A value of a pair besides its rates. Lower is better.

    `least` is compared with others; of round trips it is the shortest, which a busy machine hardly makes longer.
    """

    round: int
    a: int
    b: int
    rail: int
    quantity: Quantity
    value: float
    least: float


@dataclass(frozen=True)
class Results:
    """The values of a round. A node or pair without values gave no answer.

    Values of a pair are by rail: from a to b, then from b to a. Higher is better.
    """

    alone: Mapping[int, NodeValues] = field(default_factory=dict)
    pairs: Mapping[tuple[int, int], tuple[float, ...]] = field(default_factory=dict)
    symptoms: tuple[Symptom, ...] = ()


class FleetLine(NamedTuple):
    """The lowest normal value, and the median from which it is computed."""

    at_least: float
    median: float


class Met(NamedTuple):
    """A measured pair of a round, with its low values."""

    round: int
    a: int
    b: int
    low: tuple[int, ...]  # places in the values of the pair
    values: tuple[float, ...]  # the low ones
    silent: bool  # no answer: all are low


class SeenAlone(NamedTuple):
    """A node measured alone, with its low values by part (`node`, `gpu`, `adapter`)."""

    round: int
    node: int
    low: tuple[Part, ...]
    values: tuple[float, ...]
    silent: bool


@dataclass(frozen=True)
class BadPart:
    """A bad or unsteady part, or several that no measurement can distinguish."""

    verdict: Judgement
    parts: tuple[Part, ...]  # one; for `could not tell` the candidates
    measured: float  # median of the low values; 0: no answer
    line: FleetLine
    low: int  # values below the line
    good: int
    rounds: tuple[int, ...]  # in which it was low


@dataclass(frozen=True)
class Excess:
    """A part with far more of a quantity than others: its median, and theirs."""

    part: Part
    quantity: Quantity
    measured: float
    usual: float
    at_most: float
    values: int
    rounds: tuple[int, ...]


@dataclass(frozen=True)
class Counts:
    """The numbers of judged values, and of low ones that were not low again."""

    values: int = 0
    passing: int = 0


@dataclass(frozen=True)
class State:
    """The state of isolation. A step reads this and the results of the last round, and nothing else."""

    wiring: NodeWiring
    rounds: tuple[Round, ...] = ()
    met: tuple[Met, ...] = ()
    seen: tuple[SeenAlone, ...] = ()
    lines: Mapping[str, FleetLine] = field(default_factory=dict)  # by the kind of measurement
    slow_rails: Mapping[int, tuple[BadPart, ...]] = field(default_factory=dict)
    counts: Mapping[str, Counts] = field(default_factory=dict)  # "alone" and "pair"
    symptoms: tuple[Symptom, ...] = ()


@dataclass(frozen=True)
class Conclusion:
    """The end: the named parts. Without any, all measured parts are good."""

    findings: tuple[BadPart, ...]
    excesses: tuple[Excess, ...] = ()
