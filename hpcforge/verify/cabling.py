"""The actual cables: LLDP neighbours and InfiniBand discovery, parsed and compared with the design.

LLDP: `lldpctl -f json` (or json0, keyvalue) of each node or switch. InfiniBand: `ibnetdiscover`, with any of its
options that list cables, one file for the whole fabric. Saved files are `NAME.lldp.json`, where NAME is the reporting
machine, and `FABRIC.ibnetdiscover`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.cluster import Loaded
from hpcforge.design.fabric.as_built import CablingReport
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.neighbour_matching import CablingFacts, Heard, ReportedEnd, compare_with_design
from hpcforge.errors import ExpectedError

LLDP_COMMAND = ("lldpctl", "-f", "json")
IB_COMMAND = ("ibnetdiscover",)
_LLDP, _IB = ".lldp.json", ".ibnetdiscover"
_MOST = 4 << 20  # characters of a machine's neighbours; any machine on its cables can announce them

_KEYVALUE = re.compile(
    r"lldp\.(?P<interface>.+?)\.(?:(?P<first>via)|chassis\.(?P<chassis>name|descr|mac|local|ifname|ip)|"
    r"port\.(?P<port>descr|ttl|ifname|ifalias|local|mac|ip|unhandled))=(?P<value>.*)"
)
_LOGICAL = re.compile("(bond|team|br|vlan|docker|veth|virbr|vmbr|vnet|tap|tun|fwln|fwpr|cali|lxc|dummy)")
_RECORD = re.compile(r'\s*(?P<kind>Switch|Ca|Rt)\s+(?P<ports>[0-9]{1,6}) "(?P<id>[^"]+)"\s*# "(?P<text>.*)"')
_PORT = re.compile(
    r'\s*\[(?P<port>[0-9]{1,6})\](?:\[ext [0-9]+\])?(?:\([^)"]*\))?\s+"(?P<peer>[^"]+)"\[(?P<peer_port>[0-9]{1,6})\]'
    r'(?:[^"]*"(?P<text>.*)")?'
)
_IB_END = r"(SW|CA|RT) +[0-9]+ +([0-9]{1,6}) 0x([0-9a-f]{1,16})"
_PORTS_LINE = re.compile(rf"\s*{_IB_END} +\S+ +\S+ +- +{_IB_END} +\( '(.{{0,256}})' - '(.{{0,256}})' \)")
_NO_CABLE = re.compile(
    r"\s*(#.*|[a-z]+=.*|Chassis [0-9].*|Hostname: .*|Non-Chassis Nodes|"
    r"(SW|CA|RT) +[0-9]+ +[0-9]+ 0x\S+ +\S+ +\S+ +'.*')?"
)
_OTHER_LISTS = re.compile(r"^((Switch|Ca|Router)\s+: 0x|[<>] )", re.MULTILINE)
_KINDS = {"S": "Switch", "H": "Ca", "C": "Ca", "R": "Rt"}
_AGGREGATION = "Aggregation Node"  # of in-switch reduction: a port inside the switch, not a cable


class CablingError(ExpectedError):
    """The input does not describe cables."""


@dataclass(frozen=True)
class Reports:
    """The cables in one answer, and the neighbours or lines that cannot be parsed."""

    pairs: tuple[tuple[ReportedEnd, ReportedEnd], ...]
    left_out: tuple[str, ...]


def parse_lldp(text: str, name: str) -> Reports:
    """Return the neighbours of one machine from lldpctl's formats json, json0 or keyvalue. Raises CablingError."""
    if len(text) > _MOST:
        raise CablingError(f"{name}: more than {_MOST} characters from `lldpctl -f json`")
    try:
        entries = list(_keyvalue(text) if text.lstrip().startswith("lldp.") else _json(text))
        ends = [(interface, _neighbour(entry), _left_out(interface, entry)) for interface, entry in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CablingError(f"{name}: this is not output of `lldpctl -f json` ({error!r:.200})") from error
    pairs: dict[tuple[ReportedEnd, ReportedEnd], None] = {}
    for interface, end, problem in ends:
        if not problem:  # a VLAN is on the cable of its interface
            pairs[ReportedEnd((name,), ("", "", interface.partition(".")[0])), end] = None
    repeated = {end for _, end in pairs}  # a bond repeats the neighbours of its interfaces
    left_out = [
        f"{name}: the neighbour on {interface}: {problem}"
        for interface, end, problem in ends
        if problem and end not in repeated
    ]
    return Reports(tuple(pairs), tuple(left_out))


def _left_out(interface: str, entry: Mapping[str, object]) -> str:
    """Return why a neighbour does not describe a cable; "" if it does."""
    if _LOGICAL.match(interface):
        return f"{interface} is not a port"
    if _value(_first(entry, "port").get("ttl")) == "0":
        return "it has shut down (ttl 0)"
    return "" if _first(entry, "chassis") else "it has no chassis"


def _json(text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield interface and neighbour; `json` has interfaces as keys, `json0` as values of `name`."""
    for part in _listed(json.loads(text)["lldp"]):
        for entry in map(_mapping, _listed(_mapping(part).get("interface", []))):
            if isinstance(entry.get("name"), str):
                yield str(entry["name"]), entry
                continue
            for interface, neighbours in entry.items():
                yield from ((interface, _mapping(neighbour)) for neighbour in _listed(neighbours))


def _keyvalue(text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield interface and neighbour, each as `json` has it."""
    entries: list[tuple[str, dict[str, dict[str, object]]]] = []
    for line in filter(None, map(_KEYVALUE.match, text.splitlines())):
        if line["first"] or not entries or entries[-1][0] != line["interface"]:
            entries.append((line["interface"], {"chassis": {}, "port": {}}))
        part, key = ("chassis", line["chassis"]) if line["chassis"] else ("port", line["port"])
        if key in ("name", "descr", "ttl"):
            entries[-1][1][part][key] = line["value"]
        elif key:
            entries[-1][1][part]["id"] = {"type": key, "value": line["value"]}
    return iter(entries)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is not a mapping")
    return value


def _first(parent: Mapping[str, object], key: str) -> Mapping[str, object]:
    """Return the mapping under a key, or the first in a list there; empty if there is none."""
    values = [value for value in _listed(parent.get(key)) if value]
    return _mapping(values[0]) if values else {}


def _value(value: object) -> str:
    """Return a text, which `json0` has in a list of mappings."""
    inner = _listed(value)[0] if value else ""
    return str(inner.get("value", "") if isinstance(inner, dict) else inner)


def _neighbour(entry: Mapping[str, object]) -> ReportedEnd:
    """Return the far end: `json` has a chassis under its name if it has one."""
    chassis, port = _first(entry, "chassis"), _first(entry, "port")
    name = _value(chassis.get("name"))
    if chassis and "id" not in chassis and "name" not in chassis:
        name = next(iter(chassis))
        chassis = _first(chassis, name)
    port_id = _first(port, "id")
    reported = _value(port_id.get("type")), _value(port_id.get("value")), _value(port.get("descr"))
    device = (*([name] if name else []), _value(_first(chassis, "id").get("value")) or "?")
    return ReportedEnd.of_lldp(device, reported, _value(chassis.get("descr")))


def parse_ibnetdiscover(text: str) -> Reports:
    """Return all cables of a fabric, each once. Raises CablingError."""
    described: dict[str, tuple[str, str, int]] = {}  # by id: kind, description, number of ports
    ports: list[tuple[str, int, str, int]] = []
    left_out: list[str] = []
    current = None
    for number, line in enumerate(text.splitlines(), start=1):
        if record := _RECORD.match(line):
            current = record["id"].replace("-0x", "-")
            described[current] = record["kind"], record["text"], int(record["ports"])
        elif current and (port := _PORT.match(line)):
            peer = port["peer"].replace("-0x", "-")
            described.setdefault(peer, (_KINDS.get(peer[:1], "Ca"), port["text"] or "", 0))
            ports.append((current, int(port["port"]), peer, int(port["peer_port"])))
        elif cable := _PORTS_LINE.fullmatch(line):
            kind, place, guid, far_kind, far_place, far_guid, name, far_name = cable.groups()
            described |= {guid: (_KINDS[kind[:1]], name, 0), far_guid: (_KINDS[far_kind[:1]], far_name, 0)}
            ports.append((guid, int(place), far_guid, int(far_place)))
        elif not _NO_CABLE.fullmatch(line):
            left_out.append(f"line {number}: {line.strip():.200}")
    if not described or _OTHER_LISTS.search(text):
        raise CablingError("this is not output of `ibnetdiscover`: it has neither switch nor adapter")
    once = {tuple(sorted([(device, port), (peer, peer_port)])) for device, port, peer, peer_port in ports}
    both_ends = [(_ib_end(described, *end), _ib_end(described, *far_end)) for end, far_end in sorted(once)]
    return Reports(tuple((end, far_end) for end, far_end in both_ends if end and far_end), tuple(left_out))


def _ib_end(described: Mapping[str, tuple[str, str, int]], identity: str, port: int) -> ReportedEnd | None:
    kind, text, ports = described[identity]
    guid = f"0x{identity.rpartition('-')[2]}"
    if _AGGREGATION in text:
        return None
    # "MF0;compute-leaf-001:MQM9700/U1" of a managed switch, or of one of the chips in it
    name, _, model = text.partition(";")[2].rpartition(":") if ";" in text else (text, "", "")
    chip = model.partition("/")[2]
    name = f"{name}/{chip}" if chip not in ("", "U1") else name
    if kind == "Switch":
        return ReportedEnd((name or guid, guid), (f"#{port} of {ports}" if ports else f"#{port}",))
    host, _, adapter = name.partition(" ")  # "gpu001 mlx5_0"
    adapter = adapter or guid
    return ReportedEnd((host or guid, guid), (adapter if port == 1 else f"{adapter}/{port}",))


def heard(
    lldp: Mapping[str, str], discovered: Mapping[str, str], machines: Iterable[str], unread: Iterable[str] = ()
) -> Heard:
    """Combine the reports of machines: `lldp` by machine, `discovered` by fabric. Raises CablingError."""
    reports = [parse_lldp(text, name) for name, text in lldp.items()]
    left_out = [line for report in reports for line in report.left_out]
    for fabric, text in discovered.items():
        try:
            reports.append(parse_ibnetdiscover(text))
        except CablingError as error:
            raise CablingError(f"{fabric}: {error}") from error
        left_out += [f"{fabric}, {line}" for line in reports[-1].left_out]
    pairs = tuple(pair for report in reports for pair in report.pairs)
    return Heard(pairs, frozenset(machines), frozenset(discovered), tuple(left_out), tuple(unread))


def read_saved(folder: Path, fabrics: Sequence[Fabric]) -> Heard:
    """Read saved files; a fabric's by its name, or under any name if only one fabric is InfiniBand."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    lldp = {path.name.removesuffix(_LLDP): _text(path) for path in files if path.name.endswith(_LLDP)}
    discovered = dict(_discovered([path for path in files if path.suffix == _IB], fabrics))
    if not lldp and not discovered:
        raise CablingError(f"{folder}: no NAME{_LLDP} and no FABRIC{_IB} there")
    names = {name for fabric in fabrics for name in (fabric.name, *fabric.index)}
    others = [path.name for path in files if not path.name.endswith((_LLDP, _IB))]
    unread = [name for name in others if name.partition(".")[0] in names or "lldp" in name or "ibnet" in name]
    return heard(lldp, discovered, lldp, unread)


def _discovered(files: Sequence[Path], fabrics: Sequence[Fabric]) -> Iterator[tuple[str, str]]:
    names = [fabric.name for fabric in fabrics if fabric.kind in ("infiniband", "omni-path")]
    for path in files:
        name = names[0] if len(names) == len(files) == 1 else path.name.removesuffix(_IB)
        if name not in names:
            expected = (
                ", ".join(f"{fabric_name}{_IB}" for fabric_name in names)
                or "none: no fabric of this blueprint is InfiniBand"
            )
            raise CablingError(f"{path.name} is not of a fabric of this blueprint; expected: {expected}")
        yield name, _text(path)


def _text(path: Path) -> str:
    try:
        return read_named(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CablingError(f"{path.name} cannot be read: {error}") from error


@dataclass(frozen=True)
class ComparedCables:
    """How the cables that devices report differ from the design.

    `doubts` are unclear reports, and reports that change nothing; `unreported` are nodes with cables without a report
    from either end, and InfiniBand fabrics.
    """

    report: CablingReport
    doubts: tuple[str, ...]
    unreported: tuple[str, ...]


def compare_with(loaded: Loaded, reported: Heard) -> ComparedCables:
    """Compare reported cables with the design of a blueprint, its inventory and the catalog."""
    specs, switches = loaded.blueprint.fabrics, loaded.inventory.switches if loaded.inventory else {}
    facts = CablingFacts(
        identities=loaded.switch_said,
        hardware={node.name: node.hardware for node in loaded.cluster.nodes},
        interfaces={name: spec.interfaces for name, spec in specs.items() if spec.interfaces},
        by_lldp=[fabric.name for fabric in loaded.cluster.fabrics if fabric.lldp],
        models=loaded.catalog.switches,
        port_names={name: switch.ports for name, switch in switches.items()},
    )
    comparison, report = compare_with_design(loaded.cables, reported, facts)
    return ComparedCables(report, (*comparison.doubts, *report.notes), comparison.unreported)
