"""Compare a design as built with the design as drawn: misplaced cables, and the fewest moves that correct them. Pure.

Cables that run in parallel between the same two devices are interchangeable: any of their ports at the one may go to
any of their ports at the other. All other cables are compared port by port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from hpcforge.blueprint.hostlist import fold
from hpcforge.design.fabric.cable_index import CableEnds, Drawn, PortName
from hpcforge.design.fabric.port_numbering import MANAGEMENT
from hpcforge.design.fabric.recabling import PlugMove, assign, plugs, swaps

Kind = Literal["ambiguous", "exchanged", "swapped", "wrong", "unknown", "absent", "missing", "extra"]
KINDS: tuple[Kind, ...] = ("ambiguous", "exchanged", "swapped", "wrong", "unknown", "absent", "missing", "extra")
_DEVICE_KINDS = ("node", "endpoint", "leaf", "spine", "core")


@dataclass(frozen=True)
class Unnamed:
    """A switch under another name: the switches of the design that it may be, and the line for the inventory."""

    switches: tuple[str, ...]
    identity: str


@dataclass(frozen=True)
class Seen:
    """Observed cables. `looked_at` has fabric and device of those that reported their neighbours, or should have.

    `unknown` has the devices with unreadable ports, and the reason; such a port has the name "?". `unnamed` has
    switches by the name that links use.
    """

    links: tuple[CableEnds, ...]
    looked_at: frozenset[tuple[str, str]]
    unknown: Mapping[str, str] = field(default_factory=dict)
    unnamed: Mapping[str, Unnamed] = field(default_factory=dict)


@dataclass(frozen=True)
class CableMove:
    """One action on one cable. `cable` has its present ends, or for a new cable the ends where it belongs.

    A plug moves from the port `taken` to the port `into`. `labels` are the new texts of both ends, at `cable.a` and
    `cable.b` in this order; None for a cable that is removed.
    """

    action: Literal["plug in", "move", "take away", "look"]
    cable: CableEnds
    taken: PortName | None = None
    into: PortName | None = None
    labels: tuple[str, str] | None = None


@dataclass(frozen=True)
class CablingFinding:
    """One difference from the drawing. `moves` correct it, or exchanging the two machines of `exchange`."""

    kind: Kind
    message: str
    moves: tuple[CableMove, ...]
    exchange: tuple[str, str] | None = None

    @property
    def only_look(self) -> bool:
        """Whether the cable has to be inspected on site before anything is moved."""
        return all(move.action == "look" for move in self.moves)


@dataclass(frozen=True)
class CablingReport:
    """The result of a comparison. `unchecked` are the cables without a report from either end.

    `notes` name the reports that change nothing.
    """

    findings: tuple[CablingFinding, ...]
    as_drawn: int
    unchecked: int
    notes: tuple[str, ...] = ()

    @property
    def moves(self) -> int:
        """The number of actions."""
        return sum(1 if finding.exchange or finding.only_look else len(finding.moves) for finding in self.findings)


def compare(drawn: Drawn, observed: Seen) -> CablingReport:
    """Compare observed cables with the drawn ones."""
    unread, unread_ports = _unread(drawn, observed)
    unnamed, unnamed_ports = _unnamed(drawn, observed)
    read = [link for link in observed.links if not _is_unread(drawn, link) and not _is_unnamed(observed, link)]
    links, crowded, notes = _one_cable_a_port(drawn, read)
    right = [link for link in links if drawn.right(link)]
    filled = {port for link in right for port in link}
    wrong = [link for link in links if not drawn.right(link)]
    wrong, exchanged = _exchanged(drawn, wrong, filled)
    assigned = assign(wrong, _empty(drawn, filled), drawn)
    moved = [_moved(drawn, group) for group in swaps(plugs(wrong, assigned, filled, drawn), drawn)]
    undecided = unread_ports | unnamed_ports | _ports(crowded)
    empty = [link for link in _still_empty(drawn, filled) if not set(link) & undecided]
    checked = [link for link in empty if any((drawn.fabric(link), port.device) in observed.looked_at for port in link)]
    missing = _missing(drawn, checked, links)
    lacking = {port.device for link in checked for port in link}
    outside = [link for link in wrong if link not in assigned and _is_outside(drawn, link, lacking)]
    notes += _not_compared(outside, "of interfaces that are in no fabric, to devices that the design does not know")
    extra = _extra(drawn, [link for link in wrong if link not in {*assigned, *outside}])
    findings = sorted(
        chain(crowded, exchanged, moved, unread, unnamed, extra, missing),
        key=lambda finding: (KINDS.index(finding.kind), finding.message),
    )
    return CablingReport(tuple(findings), len(right), len(empty) - len(checked), tuple(notes))


def _is_unread(drawn: Drawn, link: CableEnds) -> bool:
    return any(port.name == "?" and port.device in drawn.kinds for port in link)


def _unread(drawn: Drawn, observed: Seen) -> tuple[list[CablingFinding], set[PortName]]:
    """Return findings on cables with an end in an unreadable port, and the ports drawn for these cables.

    Such a cable can be wrong only by its device. Its plugs stay until the ports are known.
    """
    unread = {link: None for link in observed.links if _is_unread(drawn, link)}
    read = {port: link.other(port).device for link in observed.links if link not in unread for port in link}
    groups: dict[tuple[str, str], dict[CableEnds, str]] = {}
    findings: list[CablingFinding] = []
    ports: set[PortName] = set()
    for link in unread:
        far, near = (link.a, link.b) if link.a.name == "?" and link.a.device in drawn.kinds else (link.b, link.a)
        peer = drawn.peer.get(near)
        if read.get(near) == far.device:
            continue  # another report of the cable has both ports
        if peer and peer.device != far.device:
            message = f"{near} leads to {far.device}, not to {peer}; its port there is unknown"
            findings.append(CablingFinding("wrong", message, (CableMove("look", link),)))
        drawn_here = peer is not None and peer.device == far.device
        reason = observed.unknown.get(far.device, "no report names a port")
        group = groups.setdefault((reason if drawn.is_end(far.device) else far.device, reason), {})
        group.setdefault(CableEnds(near, peer) if peer and drawn_here else link, far.device)
        ports |= {near, peer} if peer else _between(drawn, link) if near.name == "?" else {near}
    for (_, reason), cables in groups.items():
        count = "the port of 1 cable is" if len(cables) == 1 else f"the ports of {len(cables)} cables are"
        message = f"{fold(sorted(set(cables.values())))}: {count} unknown: {reason}"
        findings.append(CablingFinding("unknown", message, tuple(CableMove("look", cable) for cable in cables)))
    return findings, ports


def _is_unnamed(observed: Seen, link: CableEnds) -> bool:
    return any(port.device in observed.unnamed for port in link)


def _unnamed(drawn: Drawn, observed: Seen) -> tuple[list[CablingFinding], set[PortName]]:
    """Return the candidates for each unnamed switch, and the ports drawn for its cables."""
    groups: dict[tuple[str, ...], dict[CableEnds, str]] = {}
    for link in observed.links:
        for device in {port.device for port in link} & observed.unnamed.keys():
            groups.setdefault(observed.unnamed[device].switches, {})[link] = device
    findings: list[CablingFinding] = []
    ports: set[PortName] = set()
    for switches, cables in groups.items():
        names = sorted(set(cables.values()))
        line = f"switches: {{{switches[0]}: {{{observed.unnamed[names[0]].identity}}}}}"
        message = f"{', '.join(names)}: which of {fold(switches)} is it? Write it in the inventory, like `{line}`"
        findings.append(CablingFinding("unknown", message, tuple(CableMove("look", link) for link in cables)))
        devices = {port.device for link in cables for port in link}
        ports |= {
            port
            for (a, b), numbers in drawn.bundles.items()
            if (a in devices and b in switches) or (b in devices and a in switches)
            for number in numbers
            for port in drawn.links[number]
        }
    return findings, ports


def _between(drawn: Drawn, link: CableEnds) -> set[PortName]:
    """Return the ports of the design that a cable may be in, judged by its devices; neither port is known."""
    numbers = [n for ends in (link, link[::-1]) for n in drawn.bundles.get((ends[0].device, ends[1].device), ())]
    return {*link, *(port for number in numbers for port in drawn.links[number])}


def _one_cable_a_port(
    drawn: Drawn, observed: Iterable[CableEnds]
) -> tuple[list[CableEnds], list[CablingFinding], list[str]]:
    """Drop repeated cables and those outside the design; report ports with more than one neighbour."""
    reported = list(dict.fromkeys(_ordered(drawn, link) for link in observed))
    links = [link for link in reported if link.a.device in drawn.kinds or link.b.device in drawn.kinds]
    foreign = [link for link in reported if not {link.a.device, link.b.device} & drawn.kinds.keys()]
    management = [link for link in links if _is_management(drawn, link)]
    links = [link for link in links if not _is_management(drawn, link)]
    at: dict[PortName, list[CableEnds]] = {}
    for link in links:
        for port in link:
            at.setdefault(port, []).append(link)
    crowded = {port: neighbours for port, neighbours in at.items() if len(neighbours) > 1}
    doubtful = {link for neighbours in crowded.values() for link in neighbours if not drawn.right(link)}
    ambiguous = [
        _ambiguous(drawn, port, neighbours)
        for port, neighbours in crowded.items()
        if not any(drawn.right(link) for link in neighbours)
    ]
    named_ports = _ports(ambiguous)
    repeats = [link for link in links if link in doubtful and not named_ports.intersection(link)]
    instead = list(_reported_instead(drawn, repeats, {port for link in links if drawn.right(link) for port in link}))
    ambiguous += instead
    repeats = [link for link in repeats if not _ports(instead).intersection(link)]
    notes = [f"{link} is reported beside another neighbour of the port; one report may be old" for link in repeats]
    notes += _not_compared(foreign, "between devices that the design does not know")
    notes += _not_compared(management, "of management ports")
    return [link for link in links if link not in doubtful], ambiguous, notes


def _reported_instead(drawn: Drawn, reports: Iterable[CableEnds], right: set[PortName]) -> Iterator[CablingFinding]:
    """Yield each device that reports the neighbours of another instead of its own: likely another's report."""
    at: dict[str, dict[PortName, CableEnds]] = {}
    for link in reports:
        for port in link:
            if port in drawn.peer and port not in right:
                at.setdefault(port.device, {})[port] = link
    for device, links in at.items():
        example = next(iter(links.values()))
        cables = [CableEnds(port, drawn.peer[port]) for port in links]
        message = (
            f"{device}: the neighbours of {len(links)} of its ports are also another device's ({example}): its report "
            "may be old, or another device's"
        )
        moves = tuple(CableMove("look", cable, labels=drawn.labels(cable)) for cable in cables)
        yield CablingFinding("ambiguous", message, moves)


def _is_management(drawn: Drawn, link: CableEnds) -> bool:
    """Whether a cable is of a switch's management port, which no design has, and fills no place that is drawn."""
    return any(port.name.startswith(MANAGEMENT) and link.other(port) not in drawn.peer for port in link)


def _ports(findings: Iterable[CablingFinding]) -> set[PortName]:
    return {port for finding in findings for move in finding.moves for port in move.cable}


def _is_outside(drawn: Drawn, link: CableEnds, lacking: set[str]) -> bool:
    """Whether a cable joins a node with no cable missing, on a port that is not drawn, and an unknown device."""
    [near, far] = link if link.a.device in drawn.kinds else link[::-1]
    is_known = far.device in drawn.kinds or not drawn.is_end(near.device)
    return not is_known and near not in drawn.peer and near.device not in lacking


def _not_compared(links: Sequence[CableEnds], kind: str) -> list[str]:
    more = f" and {len(links) - 1} more" if len(links) > 1 else ""
    return [f"not compared: {links[0]}{more}, {kind}"] if links else []


def _ambiguous(drawn: Drawn, port: PortName, links: Sequence[CableEnds]) -> CablingFinding:
    message = (
        f"{port} has {len(links)} neighbours ({', '.join(str(link.other(port)) for link in links)}): something "
        f"between them passes their messages on, or a report is old"
    )
    if port not in drawn.peer:
        return CablingFinding("ambiguous", message, tuple(CableMove("look", link) for link in links))
    cable = CableEnds(port, drawn.peer[port])
    return CablingFinding("ambiguous", message, (CableMove("look", cable, labels=drawn.labels(cable)),))


def _ordered(drawn: Drawn, link: CableEnds) -> CableEnds:
    """Put the end nearer to the nodes first, so that a cable reported by both ends is counted once."""
    a, b = sorted(link, key=lambda port: (*_rank(drawn, port.device), port))
    return CableEnds(a, b)


def _rank(drawn: Drawn, device: str) -> tuple[int, str]:
    kind = drawn.kinds.get(device)
    return _DEVICE_KINDS.index(kind) if kind else len(_DEVICE_KINDS), device


def _exchanged(
    drawn: Drawn, wrong: list[CableEnds], filled: set[PortName]
) -> tuple[list[CableEnds], list[CablingFinding]]:
    """Find pairs of machines that have every cable in the other's place; return the remaining wrong cables.

    Their places count as filled: exchanging the two machines corrects all of them.
    """
    place = _places(drawn, wrong, {port.device for port in filled})
    at: dict[str, list[CableEnds]] = {}
    for link in wrong:
        for device in {port.device for port in link}:
            at.setdefault(device, []).append(link)
    findings: list[CablingFinding] = []
    handled: set[str] = set()
    mended: set[CableEnds] = set()
    for machine in sorted(place, key=lambda name: _rank(drawn, name)):
        partner = place[machine]
        if place.get(partner) != machine or {machine, partner} & handled:
            continue
        cables = list(dict.fromkeys((*at[machine], *at[partner])))
        handled |= {port.device for link in cables for port in link}
        mended |= set(cables)
        findings.append(_exchange(drawn, machine, partner, cables, filled))
    return [link for link in wrong if link not in mended], findings


def _places(drawn: Drawn, wrong: Sequence[CableEnds], partly_right: set[str]) -> dict[str, str]:
    """Return, for each device with two or more cables, all wrong, the device that belongs where these are."""
    votes: dict[str, Counter[str]] = {}
    cables: Counter[str] = Counter()
    for link in wrong:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            cables[near.device] += 1
            peer = drawn.peer.get(far)
            if near in drawn.peer and peer and peer.name == near.name and _same_kind(drawn, near.device, peer.device):
                votes.setdefault(near.device, Counter())[peer.device] += 1
    place_of = {}
    for device, counted in votes.items():
        [(owner, count)] = counted.most_common(1)
        if count == cables[device] > 1 and not {device, owner} & partly_right:
            place_of[device] = owner
    return place_of


def _same_kind(drawn: Drawn, device: str, peer: str) -> bool:
    return device != peer and drawn.kinds.get(device) == drawn.kinds.get(peer)


def _exchange(
    drawn: Drawn, device: str, partner: str, cables: list[CableEnds], filled: set[PortName]
) -> CablingFinding:
    name = {device: partner, partner: device}
    moves = []
    for link in cables:
        near, far = (link.a, link.b) if link.a.device in name else (link.b, link.a)
        into = PortName(name[near.device], near.name)  # the drawn port of the far end's cable
        moves.append(CableMove("move", link, far, drawn.peer[near], drawn.labels(CableEnds(near, drawn.peer[near]))))
        filled |= {far, into}
    message = (
        f"{device} and {partner} are exchanged, with all {len(cables)} cables. "
        "Exchange the "
        f"machines, or their names; or else {len(moves)} plugs"
    )
    return CablingFinding("exchanged", message, tuple(moves), (device, partner))


def _empty(drawn: Drawn, filled: set[PortName]) -> Counter[tuple[str, str]]:
    """Count the empty places of each bundle."""
    return Counter((link.a.device, link.b.device) for link in drawn.links if link.a not in filled)


def _still_empty(drawn: Drawn, filled: set[PortName]) -> Iterator[CableEnds]:
    """Yield a cable for each remaining place; free ports of parallel cables are paired in their order."""
    for numbers in drawn.bundles.values():
        links = [drawn.links[number] for number in numbers]
        near = [link.a for link in links if link.a not in filled]
        far = [link.b for link in links if link.b not in filled]
        yield from (CableEnds(a, b) for a, b in zip(near, far, strict=False))


def _moved(drawn: Drawn, group: tuple[PlugMove, ...]) -> CablingFinding:
    moves = tuple(
        CableMove("move", plug.cable, plug.taken, plug.into, _labels_of(drawn, plug.cable, plug.taken, plug.into))
        for plug in group
    )
    if len(group) == 2:
        cable_end, second = group
        message = (
            f"the cables in {cable_end.taken} and {second.taken} are swapped: "
            f"{cable_end.stays} belongs to {cable_end.into}, "
            f"{second.stays} to {second.into}"
        )
        return CablingFinding("swapped", message, moves)
    return CablingFinding("wrong", f"{group[0].stays} leads to {group[0].taken}, not to {group[0].into}", moves)


def _labels_of(drawn: Drawn, cable: CableEnds, source: PortName, into: PortName) -> tuple[str, str]:
    return drawn.labels(CableEnds(into, cable.b) if cable.a == source else CableEnds(cable.a, into))


def _extra(drawn: Drawn, extra: Sequence[CableEnds]) -> Iterator[CablingFinding]:
    """Yield cables that the design does not have; those to one device that it does not know, together."""
    strange: dict[str, list[CableEnds]] = {}
    for link in extra:
        strangers = [port.device for port in link if port.device not in drawn.kinds]
        if strangers:
            strange.setdefault(strangers[0], []).append(link)
        else:
            yield CablingFinding("extra", f"{link}: the design has no such cable", (CableMove("take away", link),))
    for device, links in strange.items():
        subject = f"{links[0]} leads" if len(links) == 1 else f"{len(links)} cables lead"
        message = f"{subject} to {device}, which the design does not know by this name"
        yield CablingFinding("extra", message, tuple(CableMove("look", link) for link in links))


def _missing(drawn: Drawn, empty: Sequence[CableEnds], observed: Iterable[CableEnds]) -> Iterator[CablingFinding]:
    """Yield missing cables; a device without any observed cable, in all or in one fabric, is one finding."""
    alive: set[tuple[str, str | None]] = set()
    for link in observed:
        fabric = drawn.fabric(link)
        alive |= {(port.device, place) for port in link for place in (None, fabric)}
    dead: dict[tuple[str, str | None], list[CableEnds]] = {}
    for link in empty:
        for key in {(port.device, place) for port in link for place in (None, drawn.fabric(link))} - alive:
            dead.setdefault(key, []).append(link)
    reported: set[CableEnds] = set()
    for (device, fabric), links in sorted(dead.items(), key=lambda item: (-len(item[1]), str(item[0][1]), item[0][0])):
        own = [link for link in links if link not in reported]
        if len(own) > 1:
            reported |= set(own)
            on = "" if fabric is None else f" on {fabric}"
            message = f"{device}: no report of its {len(own)} cables{on}; is it on, and are its ports up?"
            yield CablingFinding(
                "absent", message, tuple(CableMove("look", link, labels=drawn.labels(link)) for link in own)
            )
    for link in empty:
        if link not in reported:
            move = CableMove("plug in", link, labels=drawn.labels(link))
            yield CablingFinding("missing", f"{link} is not seen: not plugged in, or dead", (move,))
