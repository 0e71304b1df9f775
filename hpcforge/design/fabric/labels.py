"""What stands on the labels of a cable: one text for each end, unique in the whole site. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hpcforge.design.fabric.floor import Spot
from hpcforge.design.fabric.graph import Cable, Fabric

ENDS = ("node", "endpoint")  # kinds of devices that are no switches


@dataclass(frozen=True)
class Labels:
    """Names and labels of a fabric's cables. `spots` has where each device stands, in the order of the devices."""

    fabric: Fabric
    spots: Sequence[Spot | None]
    rooms: bool = False  # whether there is more than one room, so that labels must say which

    @cached_property
    def _places(self) -> list[str]:
        """Where each device stands, with a space after it: "g01 U3 "; "" where that is not known."""
        return [f"{f'{at.room} ' if self.rooms else ''}{at.rack} U{at.u} " if at else "" for at in self.spots]

    def end(self, device: int, port: int) -> str:
        """One end: "g01 U3 gpu001 rail 1", "i01 U40 compute-leaf-001 port 7", without rack "gpu001 rail 1"."""
        machine = self.fabric.devices[device]
        label = self.fabric.port_label(device, port)
        return f"{self._places[device]}{machine.name} {'' if machine.kind in ENDS else 'port '}{label}"

    def name(self, cable: Cable) -> str:
        """The cable's own name: its switch port, that nearest to the nodes; "compute-leaf-001:7"."""
        a_is_end = self.fabric.devices[cable.a].kind in ENDS
        device, port = (cable.b, cable.b_port) if a_is_end else (cable.a, cable.a_port)
        return f"{self.fabric.devices[device].name}:{self.fabric.port_label(device, port)}"

    def both(self, cable: Cable) -> tuple[str, str]:
        """The texts for the labels at end a and at end b: the cable's name, this end, the other end."""
        name = self.name(cable)
        a, b = self.end(cable.a, cable.a_port), self.end(cable.b, cable.b_port)
        return f"{name} | {a} > {b}", f"{name} | {b} > {a}"
