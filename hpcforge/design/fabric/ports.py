"""What is plugged into each port of each switch. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from hpcforge.design.fabric.graph import CABLE_KINDS, CableKind, Device, Fabric
from hpcforge.design.fabric.labels import ENDS

Use = CableKind | None  # None: free


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """A port of a switch. `far` and `far_port` are what its cable leads to; a free port has no cable."""

    label: str
    use: Use
    cable: int = -1
    far: int = -1
    far_port: int = -1


@dataclass(frozen=True)
class PortRun:
    """Neighbouring ports with one use: 1 to 32 lead to gpu001 to gpu032, " rail 1"."""

    first: str
    last: str
    count: int
    use: Use
    names: tuple[str, ...]  # devices that they lead to; none of free ones
    more: str  # what is to be said behind the names: " rail 1", ", 4 each"


@dataclass(frozen=True)
class PortMap:
    """The ports of one switch, all of them, in order."""

    device: int
    ports: tuple[SwitchPort, ...]

    @property
    def used(self) -> int:
        """Ports with a cable."""
        return sum(port.use is not None for port in self.ports)


@dataclass(frozen=True)
class PortMaps:
    """The port maps of a fabric's switches."""

    fabric: Fabric

    @cached_property
    def _plugged(self) -> dict[int, dict[int, tuple[int, int, int]]]:
        """Switch, port: cable, device and port at the other end."""
        found: dict[int, dict[int, tuple[int, int, int]]] = {}
        columns = self.fabric.cables
        ends = enumerate(zip(columns.a, columns.a_port, columns.b, columns.b_port, strict=True))
        is_switch = [device.kind not in ENDS for device in self.fabric.devices]
        for cable, (a, a_port, b, b_port) in ends:
            if is_switch[a]:
                found.setdefault(a, {})[a_port] = cable, b, b_port
            found.setdefault(b, {})[b_port] = cable, a, a_port
        return found

    def __iter__(self) -> Iterator[PortMap]:
        """Every switch, in the order of the devices."""
        for index, device in enumerate(self.fabric.devices):
            if device.kind not in ENDS:
                yield self.of(index)

    def of(self, switch: int) -> PortMap:
        """The ports of one switch."""
        plugged, fabric = self._plugged.get(switch, {}), self.fabric
        kinds = fabric.cables.kind
        ports = []
        for number in range(1, logical_ports(fabric, fabric.devices[switch]) + 1):
            label = fabric.port_label(switch, number)
            found = plugged.get(number)
            ports.append(SwitchPort(label, CABLE_KINDS[kinds[found[0]]], *found) if found else SwitchPort(label, None))
        return PortMap(switch, tuple(ports))

    def runs(self, ports: Sequence[SwitchPort]) -> Iterator[PortRun]:
        """Fold neighbouring ports with one use."""
        for use, group in groupby(ports, key=lambda port: port.use):
            run = list(group)
            far = Counter(self.fabric.devices[port.far].name for port in run) if use else Counter[str]()
            yield PortRun(run[0].label, run[-1].label, len(run), use, tuple(far), self._more(run, far) if use else "")

    def _more(self, run: Sequence[SwitchPort], far: Counter[str]) -> str:
        """` rail 1` if all lead to that of machines, `, 4 each` if all switches have as many, `, 1 to 2 each`."""
        if self.fabric.devices[run[0].far].kind in ENDS:
            links = {self.fabric.port_label(port.far, port.far_port) for port in run}
            return f" {links.pop()}" if len(links) == 1 else ""
        least, most = min(far.values()), max(far.values())
        if least != most:
            return f", {least} to {most} each"
        return f", {most} each" if len(far) > 1 and most > 1 else ""


def logical_ports(fabric: Fabric, device: Device) -> int:
    """Return the number of a switch's ports, where each lane of a broken-out port is one."""
    blocks = fabric.broken_out if device.kind == "leaf" else ()
    return device.ports + sum(block.count * (block.breakout - 1) for block in blocks)
