"""Tables of a design's cables and ports for spreadsheets, line by line: 200,000 cables are no text to hold at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.design.fabric.floor import Spot
from hpcforge.design.fabric.ports import PortMaps
from hpcforge.report.design_csv import lines

_CABLES = ("fabric", "pull_order", "cable", "kind", "a_room", "a_rack", "a_u", "a_device", "a_port", "b_room", "b_rack",
           "b_u", "b_device", "b_port", "run_m", "length_m", "model", "label_a", "label_b")  # fmt: skip
_PORTS = ("fabric", "switch", "room", "rack", "u", "port", "use", "to_device", "to_port", "to_room", "to_rack", "to_u",
          "cable", "length_m", "model", "label")  # fmt: skip


def cables(fabrics: Iterable[Cabled]) -> Iterator[str]:
    """One line a cable, in the order of pulling, fabric by fabric."""
    return lines(_CABLES, (row for cabling in fabrics for row in _cables(cabling)))


def _cables(cabling: Cabled) -> Iterator[Sequence[object]]:
    fabric = cabling.fabric
    names = [device.name for device in fabric.devices]
    places = [_place(spot) for spot in cabling.spots]
    everything = list(fabric.cables)
    for pull, index in enumerate(cabling.order, 1):
        cable = everything[index]
        labels = cabling.labels.both(cable)
        yield (
            fabric.name,
            pull,
            labels[0].partition(" | ")[0],
            cable.kind,
            *places[cable.a],
            names[cable.a],
            fabric.port_label(cable.a, cable.a_port),
            *places[cable.b],
            names[cable.b],
            fabric.port_label(cable.b, cable.b_port),
            *_cut(cabling, index),
            *labels,
        )


def _cut(cabling: Cabled, cable: int) -> tuple[float | None, float | None, str | None]:
    run, length, model = cabling.run_m[cable], cabling.length_m[cable], cabling.model[cable]
    known = model != UNKNOWN
    return (
        run if run != UNKNOWN else None,
        length if known else None,
        cabling.models[model] if known else None,
    )


def ports(fabrics: Iterable[Cabled]) -> Iterator[str]:
    """One line a port of a switch, free ones too."""
    return lines(_PORTS, (row for cabling in fabrics for row in _ports(cabling)))


def _ports(cabling: Cabled) -> Iterator[Sequence[object]]:
    fabric = cabling.fabric
    names = [device.name for device in fabric.devices]
    places = [_place(spot) for spot in cabling.spots]
    everything = list(fabric.cables)
    for switch in PortMaps(fabric):
        head = (fabric.name, names[switch.device], *places[switch.device])
        for port in switch.ports:
            if port.use is None:
                yield (*head, port.label, "free", *(None,) * 9)
                continue
            cable = everything[port.cable]
            _, length, model = _cut(cabling, port.cable)
            label = cabling.labels.both(cable)[cable.b == switch.device]
            far = (names[port.far], fabric.port_label(port.far, port.far_port), *places[port.far])
            yield (*head, port.label, port.use, *far, cabling.labels.name(cable), length, model, label)


def _place(spot: Spot | None) -> tuple[object, ...]:
    """Room, rack and lowest unit."""
    return (spot.room, spot.rack, spot.u) if spot else (None, None, None)
