"""What was really plugged in: LLDP neighbours and InfiniBand discovery, parsed and compared with the design.

LLDP: `lldpctl -f json` of each node (or switch), as lldpd 1.0 writes it. InfiniBand: `ibnetdiscover`, one file for the
whole fabric. Saved files are `NAME.lldp.json`, NAME being the machine that it was written on, and
`FABRIC.ibnetdiscover`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.errors import ExpectedError
from hpcforge.fabric.graph import Fabric
from hpcforge.fabric.neighbour_matching import Heard, ReportedEnd

LLDP_COMMAND = ("lldpctl", "-f", "json")
IB_COMMAND = ("ibnetdiscover",)
_LLDP, _IB = ".lldp.json", ".ibnetdiscover"
_MOST = 4 << 20  # characters of a machine's neighbours, which any machine on its cables can announce

_RECORD = re.compile(r'(Switch|Ca|Rt)\s+\d+ "(?P<id>[^"]+)"\s*# "(?P<said>[^"]*)"')
_PORT = re.compile(r'\[(?P<port>[0-9]{1,6})\](?:\([0-9a-f]+\))?\s+"(?P<peer>[^"]+)"\[(?P<peer_port>[0-9]{1,6})\]')
_AGGREGATION = "Aggregation Node"  # of in-switch reduction: a port inside the switch, not a cable


class CablingError(ExpectedError):
    """What was read says nothing of cables."""


def parse_lldp(text: str, name: str) -> list[tuple[ReportedEnd, ReportedEnd]]:
    """Return the neighbours of one machine from `lldpctl -f json`. Raises CablingError."""
    if len(text) > _MOST:
        raise CablingError(f"{name}: more than {_MOST} characters from `lldpctl -f json`")
    try:
        interfaces = json.loads(text)["lldp"].get("interface", [])
        entries = interfaces if isinstance(interfaces, list) else [interfaces]
        return [
            (ReportedEnd((name,), (interface,)), _neighbour(told))
            for entry in entries
            for interface, told in entry.items()
            if told.get("via") == "LLDP"
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CablingError(f"{name}: this is not what `lldpctl -f json` writes ({error!r:.200})") from error


def _neighbour(told: Mapping[str, Any]) -> ReportedEnd:
    """The far end: a chassis is under its name, one that says no name is not."""
    chassis = told.get("chassis", {})
    names = [] if "id" in chassis else list(chassis)
    inner = chassis if "id" in chassis else next(iter(chassis.values()), {})
    identity = inner.get("id", {})
    port = told.get("port", {})
    port_id = port.get("id", {})
    by_id = [str(port_id["value"])] if port_id.get("type") in ("ifname", "ifalias", "local") else []
    descr = [str(port["descr"])] if port.get("descr") else []
    return ReportedEnd((*names, str(identity.get("value", "?"))), (*by_id, *descr))


def parse_ibnetdiscover(text: str) -> list[tuple[ReportedEnd, ReportedEnd]]:
    """Return all cables of a fabric, each once. Raises CablingError."""
    described: dict[str, tuple[str, str]] = {}  # id to kind and what it says of itself
    ports: list[tuple[str, int, str, int]] = []
    current = None
    for line in text.splitlines():
        if record := _RECORD.match(line):
            current = record["id"]
            described[current] = record[1], record["said"]
        elif current and (port := _PORT.match(line)):
            ports.append((current, int(port["port"]), port["peer"], int(port["peer_port"])))
    if not described:
        raise CablingError("this is not what `ibnetdiscover` writes: there is no switch and no adapter in it")
    once = {tuple(sorted([(device, port), (peer, peer_port)])) for device, port, peer, peer_port in ports}
    both = [(_ib_end(described, *end), _ib_end(described, *other)) for end, other in sorted(once)]
    return [(end, other) for end, other in both if end and other]


def _ib_end(described: Mapping[str, tuple[str, str]], identity: str, port: int) -> ReportedEnd | None:
    kind, said = described.get(identity, ("Switch" if identity.startswith("S-") else "Ca", ""))
    guid = f"0x{identity.partition('-')[2]}"
    if _AGGREGATION in said:
        return None
    if kind == "Switch":  # "MF0;compute-leaf-001:MQM9700/U1" of a managed one, else what it was called
        name = said.partition(";")[2].partition(":")[0] if ";" in said else said
        return ReportedEnd((name, guid), (f"#{port}",))
    host, _, adapter = said.partition(" ")  # "gpu001 mlx5_0"
    name = adapter or guid
    return ReportedEnd((host, guid), (name if port == 1 else f"{name}/{port}",))


def heard(lldp: Mapping[str, str], discovered: Mapping[str, str], asked: Iterable[str]) -> Heard:
    """Put together what machines said: `lldp` by machine, `discovered` by fabric. Raises CablingError."""
    neighbours = [pair for name, text in lldp.items() for pair in parse_lldp(text, name)]
    for fabric, text in discovered.items():
        try:
            neighbours += parse_ibnetdiscover(text)
        except CablingError as error:
            raise CablingError(f"{fabric}: {error}") from error
    return Heard(tuple(neighbours), frozenset(asked), frozenset(discovered))


def read_saved(folder: Path, fabrics: Sequence[Fabric]) -> Heard:
    """Read saved files; a fabric's by its name, or whatever its name where only one fabric is InfiniBand."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    lldp = {path.name.removesuffix(_LLDP): _text(path) for path in files if path.name.endswith(_LLDP)}
    discovered = dict(_discovered([path for path in files if path.suffix == _IB], fabrics))
    if not lldp and not discovered:
        raise CablingError(f"{folder}: no NAME{_LLDP} and no FABRIC{_IB} there")
    return heard(lldp, discovered, lldp)


def _discovered(files: Sequence[Path], fabrics: Sequence[Fabric]) -> Iterator[tuple[str, str]]:
    names = [fabric.name for fabric in fabrics if fabric.kind in ("infiniband", "omni-path")]
    for path in files:
        name = names[0] if len(names) == len(files) == 1 else path.name.removesuffix(_IB)
        if name not in names:
            known = ", ".join(f"{each}{_IB}" for each in names) or "none: no fabric of this blueprint is InfiniBand"
            raise CablingError(f"{path.name} is not of a fabric of this blueprint; expected: {known}")
        yield name, _text(path)


def _text(path: Path) -> str:
    try:
        return read_named(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CablingError(f"{path.name} cannot be read: {error}") from error
