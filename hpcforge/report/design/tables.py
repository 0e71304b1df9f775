"""Tables of a design for spreadsheets: comma-separated, a header line, figures in the unit that the header names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from hpcforge.cluster.design import Design
from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.design.fabric.graph import PortMaps
from hpcforge.design.facility.design import PduLoad

_FORMULA = ("=", "+", "-", "@")  # a spreadsheet would compute a text that begins so
_BATCH = 4_096  # lines that are written at once


def power(design: Design) -> str:
    """One line a PDU phase; a PDU whose phases are not known has one line."""
    header = ("rack", "pdu", "model", "feed", "load_w", "limit_w", "load_w_one_lost", "phase", "phase_load_w",
              "phase_load_a", "phase_limit_a", "phase_load_a_one_lost")  # fmt: skip
    return _text(header, (row for rack in design.racks for pdu in rack.pdus for row in _rows(rack.name, pdu)))


def _rows(rack: str, pdu: PduLoad) -> Iterable[Sequence[object]]:
    head = (rack, pdu.name, pdu.model, pdu.feed, pdu.load_w, pdu.limit_w, pdu.load_w_one_lost)
    if not pdu.phases:
        yield (*head, None, None, None, None, None)
    for phase in pdu.phases:
        yield (*head, phase.name, phase.load_w, phase.load_a, phase.limit_a, phase.load_a_one_lost)


def bom(design: Design) -> str:
    """One line a model."""
    header = ("kind", "model", "description", "count", "included", "each_w", "each_kg")
    rows = ((b.kind, b.model, b.description, b.count, "yes" if b.included else "no", b.each_w, b.each_kg)
            for b in design.bom)  # fmt: skip
    return _text(header, rows)


def _text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return "".join(lines(header, rows))


def lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield a table in pieces of some thousand lines."""
    left = chain([header], ([_cell(value) for value in row] for row in rows))
    while batch := list(islice(left, _BATCH)):
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(batch)
        yield stream.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value


# Tables of a design's cables and ports for spreadsheets, line by line: 200,000 cables are no text to hold at once.


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
    places = _places(cabling)
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
    places = _places(cabling)
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


def _places(cabling: Cabled) -> list[tuple[object, ...]]:
    """Return room, rack and lowest unit of each device."""
    return [(spot.room, spot.rack, spot.u) if spot else (None, None, None) for spot in cabling.spots]
