"""Tables of a design for spreadsheets: comma-separated, a header line, figures in the unit that the header names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from hpcforge.cluster.design import Design
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
