"""The numbering of a switch's ports: from the names that it reports to the labels of the design. Pure.

Vendors count ports from 1 (`swp7`, `Eth1/7`, `ethernet1/1/7`), from 0 (`et-0/0/6`), or by the lanes before a port
(`Ethernet24`, `fortyGigE0/24`). A numbering is settled only if it is the only one, of those that the words of the names
and the switch model allow, that gives every reported name a port of its own, or if all of them agree.

Evidence is whatever a swap of two plugs does not change: the reported names, their gaps, the description of the
system, and the model's ports and lanes. The device at each port is not evidence: a numbering chosen because it makes
the cables right would hide a swap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from hpcforge.blueprint.sections.hardware import Switch
from hpcforge.design.fabric.graph import Fabric, logical_ports

Counting = Literal["from 1", "from 0", "lanes from 0", "lanes from 1"]
Place = tuple[int, ...]  # a port's number, and its lane from 1 if it is broken out
_LONGEST = 100  # characters of a port's name
_CHANCE = 200  # wide gaps between numbers happen by chance once in this many cases; above it, numbers count lanes
_SHOWN = 4  # names in one message
_DESCRIPTION = 1  # the source with possible free text
_NAME = re.compile(
    r"(?P<word>q?sfp[0-9]{2}-|(?:unit: 1 )?slot: 0 port: (?=[0-9])|[^0-9.]*?|[0-9]{1,3}g(?:e|igabitethernet))"
    r"(?P<numbers>[0-9]{1,6}(?:[/:-][0-9]{1,6})*)(?P<lane>s[0-9]{1,2}|[a-h])?(?P<unit>\.[0-9]{1,5})?"
    r"(?: interface| [0-9a-z]+ - level)?"
)
_NOT_FRONT = re.compile(
    r"(mgmt|management|m-gigabitethernet|cpu|ifalias ).*|eth0|"
    r"(meth|fxp|em|me|vme|irb|vl(an)?|bond|lag|ae|po|port-?channel|bundle-ether|eth-trunk|bridge-aggregation|trunk|"
    r"br(idge)?|lo(opback)?|dummy|docker|veth|virbr|tap|tun|team|oob|usb|wlan|local)[^a-z]*"
)
_MANAGEMENT = re.compile(r"(mgmt|management|m-gigabitethernet|mgmteth).*|fxp0|me0", re.IGNORECASE)
MANAGEMENT = "management "  # before the name of a port that is not on the front
_JUNOS = frozenset({"et-", "xe-", "ge-", "mge-", "fte-"})
_ETHERNET = frozenset({"ethernet", "eth", "et", "e"})
_GIGABIT = re.compile(r"gi|te|twe|fo|hu|tw|fi|(x|m-|ten|two|five|forty|hundred|tf|twentyfive)?-?gigabitethernet")
_PLAIN = frozenset({"swp", "etp", "port", "ether", "combo", "", "unit: 1 slot: 0 port:", "slot: 0 port:"})
_SYSTEMS: tuple[tuple[str, frozenset[Counting]], ...] = (
    ("sonic", frozenset({"lanes from 0", "lanes from 1", "from 0"})),
    ("arista", frozenset({"from 1"})),
    ("force10", frozenset({"lanes from 0"})),
)
_EVERY: frozenset[Counting] = frozenset({"from 1", "from 0", "lanes from 0", "lanes from 1"})


@dataclass(frozen=True)
class InterfaceName:
    """A port's name in parts: `ethernet1/1/3:2` has the word `ethernet`, the numbers 1, 1, 3, and lane 2."""

    word: str
    numbers: tuple[int, ...]
    lane: int | None = None


@dataclass(frozen=True)
class Numbering:
    """A switch's numbering of ports: the numbers before the port's, and the way of counting."""

    before: tuple[int, ...]
    counting: Counting
    lanes: tuple[int, ...] = ()  # of each port, if it counts lanes

    def place(self, name: InterfaceName, broken_out: Mapping[int, int]) -> Place | None:
        """Return the port, and the lane if the name has one; None: this numbering has no such name.

        `broken_out` has the number of ends that share a port, for each port that is split.
        """
        if name.numbers[: len(self.before)] != self.before or not (rest := name.numbers[len(self.before) :]):
            return None
        place = (*rest, *([] if name.lane is None else [name.lane]))
        if self.counting == "from 1":
            return place
        if self.counting == "from 0":
            return (place[0] + 1, *place[1:])
        return self._by_lanes(place[0] - (self.counting == "lanes from 1"), broken_out) if len(place) == 1 else None

    @property
    def step(self) -> int:
        """The least difference between the numbers of two neighbouring ports."""
        return min(self.lanes, default=1)

    def _by_lanes(self, number: int, broken_out: Mapping[int, int]) -> Place | None:
        first = 0
        for port, lanes in enumerate(self.lanes, start=1):
            if first <= number < first + lanes:
                breakout = broken_out.get(port, 1)
                lane, rest = divmod((number - first) * breakout, lanes)
                return None if rest else (port, lane + 1) if breakout > 1 else (port,)
            first += lanes
        return None


@dataclass(frozen=True)
class PortFacts:
    """Facts on ports beside the design: the lanes that a model's ports may have, and names from the inventory."""

    lanes: Mapping[str, Sequence[tuple[int, ...]]] = field(default_factory=dict)  # by model, of each port
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by switch, label in the design to name


@dataclass(frozen=True)
class NumberedPorts:
    """The label of each report of a switch's ports, and the reason for unknown ports."""

    labels: Mapping[tuple[str, ...], str]
    unknown: str = ""


def port_facts(
    fabrics: Iterable[Fabric], models: Mapping[str, Switch], names: Mapping[str, Mapping[str, str]]
) -> PortFacts:
    """Return the facts on the ports of these fabrics' switches, from the catalog's models and the inventory's names."""
    used = {device.model for fabric in fabrics for device in fabric.devices if device.model}
    ports = {model: models[model].ports or () for model in used}
    lanes = {
        model: [possible_lanes(block.rate_gbps, block.connector) for block in of_model for _ in range(block.count)]
        for model, of_model in ports.items()
    }
    return PortFacts(lanes, names)


def possible_lanes(rate_gbps: float, connector: str | None) -> tuple[int, ...]:
    """Return how many lanes a port may have, by its cage; else by its highest rate."""
    by_cage = {"rj45": 1, "qsfp-dd": 8, "osfp": 8}
    if connector is not None and (connector in by_cage or connector.startswith(("sfp", "qsfp"))):
        return (by_cage.get(connector, 2 if connector == "sfp-dd" else 4 if connector.startswith("q") else 1),)
    if rate_gbps <= 25:
        return (1,)
    return {40: (4,), 50: (1, 2), 100: (4,), 200: (4, 8), 400: (4, 8), 800: (8,)}.get(int(rate_gbps), (1, 2, 4, 8))


def interface_name(text: str) -> InterfaceName | None:
    """Split a port's name into parts; None: it is not the name of a port on the front."""
    lower = text[: _LONGEST + 1].strip().lower()
    bridge, _, port = lower.partition("/")
    if re.search("[a-z]", bridge) and re.match("[a-z]", port):  # MikroTik: bridge/ether3
        lower = port
    parts = _NAME.fullmatch(lower) if len(lower) <= _LONGEST else None
    if parts is None or _NOT_FRONT.fullmatch(lower):
        return None
    word, numbers = parts["word"].rstrip(" #"), [int(number) for number in re.split("[/:-]", parts["numbers"])]
    lane = None
    if parts["lane"]:
        lane = int(parts["lane"][1:]) + 1 if parts["lane"][0] == "s" else ord(parts["lane"]) - ord("a") + 1
    elif ":" in parts["numbers"] and len(numbers) > 2:
        lane = numbers.pop() + (word in _JUNOS)
    word = word.rstrip("-") if word not in _JUNOS else word
    return InterfaceName(word, tuple(numbers), lane)


def is_common_name(text: str) -> bool:
    """Return whether switches use such names of ports; free text such as `gpu003` is not one."""
    name = interface_name(text)
    word = name.word if name else "?"
    return bool(word) and (word in _JUNOS | _ETHERNET | _PLAIN or _vendor(word) or word.startswith(("sfp", "qsfp")))


def _countings(name: InterfaceName, system: str) -> frozenset[Counting]:
    """Return the ways to count a name's numbers, by vendors' conventions; a description of the system narrows them."""
    word, before = name.word, name.numbers[:-1]
    gige = bool(re.fullmatch("[a-z-]*gige", word))
    if word in _JUNOS or (gige and len(before) == 3):  # Junos, IOS XR
        ways: frozenset[Counting] = frozenset({"from 0"})
    elif word == "ethernet" and not before:
        ways = _EVERY
    elif gige and before in ((), (0,)):  # FTOS, and SONiC's aliases of the same switches, count lanes
        ways = _EVERY if before else _EVERY - {"from 0"}
    elif _from_one(word, before):
        ways = frozenset({"from 1"})
    else:
        ways = frozenset({"from 1", "from 0"})
    return next((ways & convention for text, convention in _SYSTEMS if text in system.lower()), ways) or ways


def _from_one(word: str, before: Place) -> bool:
    if word == "":
        return before[:1] != (0,)
    if word in _PLAIN or word.startswith(("sfp", "qsfp")):
        return True
    return bool(before) and (word in _ETHERNET or (before[0] == 1 and _vendor(word)))


def _vendor(word: str) -> bool:
    return bool(_GIGABIT.fullmatch(word) or re.fullmatch("([a-z-]*gig|[0-9]*g)e|[0-9]+gigabitethernet", word))


def _kind(name: InterfaceName) -> str:
    """Return the kind of a name: names of one kind share the numbers of ports, each kind may begin at the first."""
    if name.word in _JUNOS:
        return "junos"
    return "gige" if name.word.endswith("gige") else name.word


def _plausible(before: Place, word: str) -> bool:
    """Whether the numbers before the port's can be those of the only unit and slot; others may be a second module's."""
    highest = 0 if word in _JUNOS else 1
    module = len(before) > 1 and before[-1] and re.fullmatch(f"{_GIGABIT.pattern}|[a-z-]*gige", word)
    return all(number <= highest for number in before) and not module


class SwitchNumbering:
    """The search for the numbering of one switch."""

    def __init__(self, fabric: Fabric, device: int, facts: PortFacts) -> None:
        self.machine = fabric.devices[device]
        split = {port: fabric.breakout_of(device, port) for port in range(1, self.machine.ports + 1)}
        self.broken_out = {port: ends for port, ends in split.items() if ends > 1}
        self.places = dict(_places(fabric, device))
        self.lanes = facts.lanes.get(self.machine.model or "", [(1, 2, 4, 8)] * self.machine.ports)
        self.names = facts.names.get(self.machine.name, {})

    def settle(self, reports: Mapping[tuple[str, ...], str]) -> NumberedPorts:
        """Return the labels of reports: all texts that name a port, to the description of the switch's system.

        Texts at one place are of one source: the port's identifier, its description, the switch's own names.
        """
        exact = {name: label for label, name in self.names.items()}
        labels = {report: exact[text] for report in reports for text in report[::-1] if text in exact}
        own = {report for report in reports if len(report) > 2}
        labels |= _management_ports(reports)
        reasons = []
        for of_switch in (True, False):
            rest = reports.keys() - labels.keys()
            numbered = self._settle({report: reports[report] for report in rest if (report in own) is of_switch})
            labels |= numbered.labels
            reasons += [numbered.unknown] if numbered.unknown else []
        return NumberedPorts(labels, "; ".join(reasons))

    def _settle(self, reports: Mapping[tuple[str, ...], str]) -> NumberedPorts:
        sources: list[dict[tuple[str, ...], InterfaceName]] = []
        for source in range(max(map(len, reports), default=0)):
            texts = {report: report[source] for report in reports if len(report) > source}
            parts = {
                report: interface_name(text)
                for report, text in texts.items()
                if source != _DESCRIPTION or is_common_name(text)
            }
            sources.append({report: name for report, name in parts.items() if name})
        outcomes = _joined([self._fitting(parts, reports) if parts else [] for parts in sources])
        labels = {
            report: label
            for report, label in (outcomes[0].items() if outcomes else ())
            if all(outcome.get(report) == label for outcome in outcomes)
        }
        others = sorted({_texts(report) for report in reports if report not in labels})
        listed = ", ".join(others[:_SHOWN]) + (f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else "")
        if not others:
            return NumberedPorts(labels)
        if len(outcomes) > 1:
            return NumberedPorts(labels, f"{_ambiguous(outcomes)}; {self._way_out}")
        if labels or not any(sources):
            return NumberedPorts(labels, f"not names of its ports: {listed}")
        model = f"{self.machine.ports} ports of {self.machine.model}"
        return NumberedPorts({}, f"no numbering of the {model} fits {listed}; {self._way_out}")

    @property
    def _way_out(self) -> str:
        line = f"switches: {{{self.machine.name}: {{ports: {{PORT: NAME}}}}}}"
        return f"settle it in the inventory for one or two ports as printed on the switch, {line}"

    def _fitting(
        self, parts: Mapping[tuple[str, ...], InterfaceName], reports: Mapping[tuple[str, ...], str]
    ) -> list[dict[tuple[str, ...], str]]:
        """Return the labels by each numbering that gives every name a port of its own."""
        pinned = {name: label for label, text in self.names.items() if (name := interface_name(text))}
        names = set(parts.values()) | {name for name in pinned if any(_kind(name) == _kind(o) for o in parts.values())}
        if len({_kind(name) for name in names}) > 1:
            return []
        ways = frozenset.intersection(
            *(_countings(name, reports[report]) for report, name in parts.items()),
        )
        fitting: list[tuple[int, dict[tuple[str, ...], str]]] = []
        for numbering in self._numberings(next(iter(names)), ways):
            labels = {name: self.places.get(numbering.place(name, self.broken_out) or ()) for name in names}
            distinct = len(set(labels.values())) == len(names) and None not in labels.values()
            if distinct and all(labels.get(name, label) == label for name, label in pinned.items()):
                fitting.append((numbering.step, {report: str(labels[name]) for report, name in parts.items()}))
        widest = max((step for step, _ in fitting), default=1)
        return [labels for step, labels in fitting if (widest / step) ** (len(names) - 1) < _CHANCE]

    def _numberings(self, name: InterfaceName, ways: frozenset[Counting]) -> Iterator[Numbering]:
        for length, counting in product(range(len(name.numbers)), sorted(ways)):
            before = name.numbers[:length]
            if not _plausible(before, name.word):
                continue
            if not counting.startswith("lanes"):
                yield Numbering(before, counting)
                continue
            kinds = list(dict.fromkeys(self.lanes))
            for chosen in product(*kinds):
                lanes = dict(zip(kinds, chosen, strict=True))
                numbering = Numbering(before, counting, tuple(lanes[possible] for possible in self.lanes))
                if counting == "lanes from 0" or numbering.step > 1:  # one lane a port, from 1, is "from 1"
                    yield numbering


def _management_ports(reports: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return the reports of management ports; a switch's own `eth0` is one if no other of its ports is an `eth`."""
    names = {report: report[-1] if len(report) > 2 else "".join(report[:1]) for report in reports}
    others = {name for report, name in names.items() if len(report) > 2} - {"eth0"}
    alone = {"eth0"} if others and not any(re.fullmatch("eth[0-9]+", name) for name in others) else set()
    return {
        report: f"{MANAGEMENT}{name}"
        for report, name in names.items()
        if _MANAGEMENT.fullmatch(name) or (len(report) > 2 and name in alone)
    }


def _places(fabric: Fabric, device: int) -> Iterator[tuple[Place, str]]:
    """Yield the labels of a switch's ports by number and lane; lane 1 of a port that is not broken out is the port."""
    machine = fabric.devices[device]
    for port in range(1, logical_ports(fabric, machine) + 1):
        label = fabric.port_label(device, port)
        number, lane = fabric.physical_port(device, port)
        cage, place = divmod(number - 1, machine.per_cage)
        for key in {(number,), (cage + 1, place + 1) if machine.per_cage > 1 else (number,)}:
            yield ((*key, lane) if lane else key), label
            if not lane and machine.per_cage == 1:
                yield (*key, 1), label


def _joined(fitting: Sequence[Sequence[dict[tuple[str, ...], str]]]) -> list[dict[tuple[str, ...], str]]:
    """Return the distinct outcomes: of all sources together if they agree, else of the first that has any."""
    used = [source for source in fitting if source]
    agreeing: list[dict[tuple[str, ...], str]] = []
    for choice in product(*used) if used else ():
        labels: dict[tuple[str, ...], str] = {}
        if all(labels.setdefault(report, label) == label for source in choice for report, label in source.items()):
            agreeing.append(labels)
    outcomes: list[dict[tuple[str, ...], str]] = []
    for labels in agreeing or (used[0] if used else ()):
        if labels not in outcomes:
            outcomes.append(labels)
    return outcomes


def _texts(report: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(text for text in report if text)) or "a port without a name"


def _ambiguous(outcomes: Sequence[Mapping[tuple[str, ...], str]]) -> str:
    report = min((report for report in outcomes[0] if len({labels.get(report) for labels in outcomes}) > 1), key=_texts)
    ports = dict.fromkeys(str(labels[report]) for labels in outcomes if report in labels)
    return f"{len(outcomes)} numberings fit: {_texts(report)} may be port {' or '.join(ports)}"
