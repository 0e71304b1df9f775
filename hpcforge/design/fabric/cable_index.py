"""Every cable as drawn, indexed by its ports, for comparison with observed cables. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hpcforge.design.fabric.cabling import Labels
from hpcforge.design.fabric.graph import CABLE_KINDS, ENDS, Cable, DeviceKind

Bundle = tuple[str, str]  # all cables between two devices, by their names, the device nearer to the nodes first


class PortName(NamedTuple):
    """A port by its device's name and its own, as `Fabric.port_label` spells it; "?" if it is unknown."""

    device: str
    name: str

    def __str__(self) -> str:
        return f"{self.device} {self.name if ' ' in self.name else f'port {self.name}'}"


class CableEnds(NamedTuple):
    """A cable by its two ends."""

    a: PortName
    b: PortName

    def __str__(self) -> str:
        return f"{self.a} -- {self.b}"

    def other(self, port: PortName) -> PortName:
        return self.b if self.a == port else self.a


@dataclass
class Drawn:
    """All cables of all fabrics of a design. Links are numbered in the order in which they are added."""

    kinds: dict[str, DeviceKind] = field(default_factory=dict)  # of devices, by name
    links: list[CableEnds] = field(default_factory=list)
    peer: dict[PortName, PortName] = field(default_factory=dict)  # both ways
    number: dict[PortName, int] = field(default_factory=dict)  # port to its link
    bundles: dict[Bundle, list[int]] = field(default_factory=dict)  # numbers of their links
    _texts: list[tuple[Labels, int]] = field(default_factory=list)

    @classmethod
    def of(cls, labels: Iterable[Labels]) -> Drawn:
        """Take the fabrics that these labels are for, with all their cables."""
        drawn = cls()
        for texts in labels:
            fabric, cables = texts.fabric, texts.fabric.cables
            drawn.kinds |= {device.name: device.kind for device in fabric.devices}
            ends: dict[tuple[int, int], PortName] = {}

            def port(
                device: int, number: int, ends: dict[tuple[int, int], PortName] = ends, texts: Labels = texts
            ) -> PortName:
                if (device, number) not in ends:
                    own = texts.fabric
                    ends[device, number] = PortName(own.devices[device].name, _name(texts, device, number))
                return ends[device, number]

            for index, (a, a_port, b, b_port) in enumerate(
                zip(cables.a, cables.a_port, cables.b, cables.b_port, strict=True)
            ):
                drawn._add(CableEnds(port(a, a_port), port(b, b_port)), texts, index)
        return drawn

    def _add(self, link: CableEnds, texts: Labels, index: int) -> None:
        number = len(self.links)
        self.links.append(link)
        self._texts.append((texts, index))
        self.peer[link.a], self.peer[link.b] = link.b, link.a
        self.number[link.a] = self.number[link.b] = number
        self.bundles.setdefault((link.a.device, link.b.device), []).append(number)

    def bundle_of(self, port: PortName) -> Bundle | None:
        """Return the bundle of parallel cables that a port is drawn into; None for a port that stays free."""
        number = self.number.get(port)
        return None if number is None else (self.links[number].a.device, self.links[number].b.device)

    def right(self, link: CableEnds) -> bool:
        """Whether a cable joins two ports of the same bundle, one at each of its devices."""
        bundle = self.bundle_of(link.a)
        return bundle is not None and bundle == self.bundle_of(link.b) and link.a.device != link.b.device

    def fabric(self, link: CableEnds) -> str | None:
        """Return the fabric that a cable is in by its ports; None for a cable between ports that are not drawn."""
        number = self.number.get(link.a, self.number.get(link.b))
        return None if number is None else self._texts[number][0].fabric.name

    def is_end(self, device: str) -> bool:
        """Whether a device is not a switch."""
        return self.kinds.get(device) in ENDS

    def labels(self, link: CableEnds) -> tuple[str, str]:
        """Return the label texts of a cable's two ends in its final place, in the order of the ends given.

        For parallel cables that changed places, use the text of the drawn cable at the first port that is drawn.
        """
        number = self.number.get(link.a, self.number.get(link.b))
        if number is None:
            raise KeyError(link)
        texts, index = self._texts[number]
        cables = texts.fabric.cables
        kind = CABLE_KINDS[cables.kind[index]]
        a, b = texts.both(Cable(cables.a[index], cables.a_port[index], cables.b[index], cables.b_port[index], kind))
        return (a, b) if self.links[number].a.device == link.a.device else (b, a)


def _name(texts: Labels, device: int, port: int) -> str:
    """Return a port's name within the site: ends are in several fabrics, so their links have the fabric's name, too."""
    label = texts.fabric.port_label(device, port)
    return f"{texts.fabric.name} {label}" if texts.fabric.devices[device].kind in ENDS else label
