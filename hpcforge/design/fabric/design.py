"""The result of a fabric: its part of `hpcforge design --json`, and the data of all summaries. Pure.

Rates and capacities are in Gb/s of one direction, lengths in m. The cables themselves, one line each, are what
`hpcforge design --csv cables` prints; here they are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from hpcforge.design.fabric.graph import CableKind, FabricKind, Topology

SwitchKind = Literal["leaf", "spine", "core"]
SWITCH_KINDS: tuple[SwitchKind, ...] = ("leaf", "spine", "core")


def _about(text: str) -> Any:
    return Field(description=text)


@dataclass(frozen=True)
class SwitchPlace:
    """One switch."""

    name: Annotated[str, _about("The switch's name.")]
    kind: Annotated[SwitchKind, _about("Leaf, spine or core.")]
    model: Annotated[str, _about("Switch model.")]
    unit: Annotated[
        int | None, _about("Scalable unit, group or plane that it belongs to, from 1; null: it belongs to none.")
    ]
    rail: Annotated[int | None, _about("Its rail, from 1; null: it serves no one rail.")]
    ports_used: Annotated[int, _about("Cables that are plugged into it.")]
    room: Annotated[str | None, _about("The room it stands in; null: not known.")]
    rack: Annotated[str | None, _about("The rack it stands in; null: not known.")]
    u: Annotated[int | None, _about("Lowest rack unit it takes, counted from 1; null: not known.")]


@dataclass(frozen=True)
class CableLot:
    """Cables that are bought alike."""

    model: Annotated[str, _about("Kind of cable in the catalog.")]
    length_m: Annotated[float, _about("Length as it is bought, m.")]
    count: Annotated[int, _about("How many.")]
    ends: Annotated[int, _about("Ends that share one port of a switch: 1, or 2, 4, 8 of a broken-out cable.")]


@dataclass(frozen=True)
class Cutting:
    """The fabric's cables as they are bought."""

    total_m: Annotated[float, _about("All cables that have a length, as bought, m.")]
    longest_m: Annotated[float | None, _about("The longest, as bought, m; null: none has a length.")]
    not_checked: Annotated[int, _about("Cables without a length, because an end has no place.")]
    lots: Annotated[tuple[CableLot, ...], _about("What is bought.")]


@dataclass(frozen=True)
class Ways:
    """Shortest ways between two leaves."""

    between: Annotated[str, _about("The two leaves, as text.")]
    switches: Annotated[int, _about("Switches at the top to choose from.")]
    ways: Annotated[int, _about("Ways that differ in at least one cable.")]
    disjoint: Annotated[int, _about("Ways without a common cable.")]


@dataclass(frozen=True)
class Loss:
    """What is lost with one switch or one cable, the first of its kind."""

    what: Annotated[str, _about("Leaf, spine or core, or a kind of cable.")]
    name: Annotated[str, _about("The switch, or both ends of the cable.")]
    alike: Annotated[int, _about("How many there are of its kind.")]
    links_lost: Annotated[int, _about("Links of nodes that are lost.")]
    nodes_cut_off: Annotated[int, _about("Nodes that have no link left.")]
    bisection_gbps: Annotated[float, _about("Remaining bandwidth between the same halves, Gb/s of one direction.")]


@dataclass(frozen=True)
class CableMove:
    """A cable that growth beyond `designed_for` moves."""

    kind: Annotated[CableKind, _about("Kind of the cable.")]
    taken: Annotated[tuple[str, str], _about("Device and port of both ends, as it was plugged in.")]
    to: Annotated[tuple[str, str] | None, _about("Device and port of both ends now; null: it is removed.")]


@dataclass(frozen=True)
class FabricDesign:
    """One fabric: switches, cables, and what they carry."""

    name: Annotated[str, _about("The fabric's name.")]
    kind: Annotated[FabricKind, _about("Link protocol of its switches.")]
    topology: Annotated[Topology, _about("How its switches are connected.")]
    tiers: Annotated[int, _about("Tiers of switches, 1 to 3.")]
    rate_gbps: Annotated[float, _about("Rate of one link of a node, Gb/s.")]
    uplink_rate_gbps: Annotated[float, _about("Rate of one link between switches, Gb/s.")]
    breakout: Annotated[int, _about("Links of nodes that share one port of a leaf.")]
    rails: Annotated[int, _about("Links of a node.")]
    nodes: Annotated[int, _about("Nodes on it.")]
    endpoints: Annotated[int, _about("Other ends on it: subnet managers, storage.")]
    designed_for: Annotated[int, _about("Nodes that its wiring has room for; up to this number no cable moves.")]
    switches: Annotated[Mapping[SwitchKind, int], _about("Switches by kind, also where the number is 0.")]
    cables: Annotated[
        Mapping[CableKind, int], _about("Cables by the ends that they connect, also where the number is 0.")
    ]
    capacity_gbps: Annotated[
        Mapping[CableKind, float],
        _about("Cables times their rate, by the ends that they connect, Gb/s of one direction."),
    ]
    oversubscription: Annotated[
        Mapping[str, float],
        _about("Bandwidth down from a switch divided by bandwidth up, by tier; 1: not oversubscribed."),
    ]
    bisection_gbps: Annotated[
        float, _about("Bandwidth from half of the nodes to the other half, Gb/s of one direction.")
    ]
    paths: Annotated[tuple[Ways, ...], _about("Shortest ways between leaves.")]
    failures: Annotated[tuple[Loss, ...], _about("Losses by one failure, by the part that fails.")]
    cutting: Annotated[Cutting, _about("Cables as they are bought.")]
    placed: Annotated[tuple[SwitchPlace, ...], _about("Every switch, and where it stands.")]
    notes: Annotated[tuple[str, ...], _about("Choices that the blueprint does not set, as text.")]
    moves: Annotated[tuple[CableMove, ...], _about("Where there are more nodes than designed for: cables that move.")]
