"""The number of switches in a tree, and their links: arithmetic only. Pure.

Words: a leaf has `down` ports for ends and `uplinks`. Leaves whose spines are the same are a *group*; two tiers are one
group. In a group every leaf has the same number of links to every spine. With three tiers a spine is known by its
*position* in its group, and positions of all groups are joined by *planes* of core switches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hpcforge.design.fabric.spec import Ask, CannotBuildError, Model, whole


@dataclass(frozen=True)
class Leaf:
    """The division of a leaf's ports between ends and uplinks."""

    down: int  # physical ports for ends
    uplinks: int
    ends: int  # links of ends that `down` takes: times the breakout


@dataclass(frozen=True)
class Spines:
    """The spines of one group."""

    count: int
    per_leaf: int  # links from each leaf to each spine
    stride: int  # a spine's ports for the first link of every leaf, then as many for the second, ...
    uplinks: int = 0  # of each spine
    first_up: int = 0  # ports below it are for leaves; 0: there are no uplinks


@dataclass(frozen=True)
class Cores:
    """The switches above the spines."""

    planes: int
    per_plane: int
    per_spine: int  # links from each spine to each core of its plane
    stride: int

    @property
    def count(self) -> int:
        """All cores."""
        return self.planes * self.per_plane


def leaf(ask: Ask) -> Leaf:
    """Share out a leaf's ports: as many for ends as oversubscription leaves.

    uplinks = ceil((down x port rate + own) / (oversubscription x uplink rate)), `own` being the rate of ends with ports
    of their own; down + uplinks = ports, or each within its own ports where a model has some for ends and others for
    uplinks. A leaf with ports for uplinks alone uses two even where one is enough, so that one may fail.
    """
    model, up_gbps = ask.leaf, ask.leaf_oversubscription * ask.uplink_rate_gbps
    ratio, own = ask.port_rate_gbps / up_gbps, ask.own_gbps / up_gbps
    few = 1 if model.shared else min(2, model.up_ports)
    for down in range(model.end_ports, 0, -1):
        uplinks = ask.uplinks or max(few, whole(down * ratio + own))
        if (down + uplinks <= model.end_ports) if model.shared else (uplinks <= model.up_ports):
            return Leaf(down, uplinks, down * ask.breakout)
    arithmetic = (
        f"1 port for ends + {ask.uplinks or whole(ratio + own)} uplinks > {model.end_ports} ports of {model.name}"
    )
    raise CannotBuildError("FABRIC-001", f"a leaf of {model.name} has no ports left for ends", arithmetic)


def spines(leaves: int, uplinks: int, model: Model, down: int | None = None) -> Spines | None:
    """Return the fewest spines that every leaf reaches by equally many links; None where there are too many leaves.

    count >= leaves x uplinks / down, and uplinks is a multiple of count: three units of 32 DGX H100 have 24 leaves
    with 32 uplinks, 24 x 32 / 64 = 12, but 32 is not a multiple of 12; it is one of 16 (NVIDIA DGX SuperPOD reference
    architecture, DGX H100: 24 leaf and 16 spine switches). `down`: ports of a spine for leaves; None: all.
    """
    ports = model.up_ports if down is None else down
    for count in divisors(uplinks):
        if count * ports >= leaves * uplinks:
            per_leaf = uplinks // count
            return Spines(count, per_leaf, ports // per_leaf)
    return None


def divisors(number: int) -> Iterator[int]:
    """Yield the divisors of a number, the smallest first."""
    return (divisor for divisor in range(1, number + 1) if number % divisor == 0)


def spine_down(ask: Ask) -> int:
    """Return a spine's ports for leaves if it has cores above it: down + ceil(down / oversubscription) <= ports."""
    ports = ask.spine.up_ports
    return max((d for d in range(ports) if d + whole(d / ask.spine_oversubscription) <= ports), default=0)


def spines_below_cores(ask: Ask, leaves: int, uplinks: int) -> Spines:
    """Return the spines of a group of at most `spine_down` leaves; uplinks are used downlinks / oversubscription."""
    down = spine_down(ask)
    fewest = spines(leaves, uplinks, ask.spine, down)
    if fewest is None:
        raise AssertionError(f"{leaves} leaves > {down}")
    used = leaves * fewest.per_leaf
    first = ask.spine.first_up + down
    return Spines(fewest.count, fewest.per_leaf, fewest.stride, whole(used / ask.spine_oversubscription), first)


def cores(groups: int, group: Spines, model: Model) -> Cores | None:
    """Return the fewest cores; None where there are more groups than a core has ports.

    `planes` divides a group's spines, `per_plane` a spine's uplinks, and a core has a link from each group's spines of
    its plane: groups x (spines / planes) x (uplinks / per_plane) <= ports. If several solutions have as few cores,
    choose the one with fewest planes: the loss of a core is then spread over most spines.
    """
    best: Cores | None = None
    for planes in divisors(group.count):
        for per_plane in divisors(group.uplinks):
            per_spine = group.uplinks // per_plane
            fits = groups * (group.count // planes) * per_spine <= model.up_ports
            if fits and (best is None or planes * per_plane < best.count):
                best = Cores(planes, per_plane, per_spine, model.up_ports // per_spine)
    return best


def chunks(things: int, most: int) -> int:
    """Return the size of the fewest chunks of at most `most` things, as even as possible; the last may be smaller."""
    return -(-things // -(-things // most))
