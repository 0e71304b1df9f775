"""Fabrics on the page of a design: drawings, port maps, and tables of cables that can be searched.

The search is the only script of all pages, and only a page with cables has it. The page's content policy names the
script by its hash, so that no text of a blueprint could become another one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.design.fabric.design import FabricDesign, Loss, SwitchPlace
from hpcforge.design.fabric.graph import PortMaps, PortRun
from hpcforge.report.design import fabric_svg
from hpcforge.report.design.words import CABLES, group_text, names, plain
from hpcforge.report.html.charts import face, template_text
from hpcforge.report.text import clean

MOST_NODES = 1_024  # up to so many the page lists ports and cables; above, `--csv` does
_FACES = 64  # switches of a fabric up to which each one's face is drawn


@dataclass(frozen=True)
class SwitchRow:
    """One switch: its place, and what its ports lead to."""

    place: SwitchPlace
    role: str  # "unit 1, rail 3"
    where: str
    used: str
    face: str  # inline SVG; "": not drawn
    runs: tuple[PortRun, ...]


@dataclass(frozen=True)
class CableRow:
    """One cable, in the order of pulling."""

    pull: int
    name: str
    a: str
    b: str
    length: str
    model: str


@dataclass(frozen=True)
class FabricOnPage:
    """One fabric on the page. Without `switches` and `cables` it is too large to list."""

    design: FabricDesign
    drawing: str
    switches: tuple[SwitchRow, ...]
    cables: tuple[CableRow, ...]
    losses: tuple[tuple[str, Loss], ...]  # the part that fails, in words


def fabrics_on_page(designs: Sequence[FabricDesign], fabrics: Sequence[Cabled]) -> list[FabricOnPage]:
    """Return the content of the page for each fabric."""
    return [_fabric(design, cabling) for design, cabling in zip(designs, fabrics, strict=True)]


def _fabric(design: FabricDesign, cabling: Cabled) -> FabricOnPage:
    small = design.nodes <= MOST_NODES
    return FabricOnPage(
        design=design,
        drawing=fabric_svg.drawing_in_page(cabling.fabric),
        switches=tuple(_switches(design, cabling)) if small else (),
        cables=tuple(_cables(cabling)) if small else (),
        losses=tuple((f"cable {CABLES[loss.what]}" if loss.what in CABLES else loss.what, loss)
                     for loss in design.failures),
    )  # fmt: skip


def _switches(design: FabricDesign, cabling: Cabled) -> Iterator[SwitchRow]:
    ports = PortMaps(cabling.fabric)
    for place, port_map in zip(design.placed, ports, strict=True):
        location = f"{place.rack} U{place.u}" if place.rack else "not known"
        if place.rack and cabling.rooms:
            location = f"{place.room} {location}"
        uses = [port.use.replace("_", "-") if port.use else "free" for port in port_map.ports]
        used = f"{port_map.used} of {len(port_map.ports)}"
        drawn = face(uses) if len(design.placed) <= _FACES else ""
        yield SwitchRow(place, _role(design, place), location, used, drawn, tuple(ports.runs(port_map.ports)))


def _role(design: FabricDesign, place: SwitchPlace) -> str:
    """Return the function of a switch in its fabric."""
    parts = [group_text(design.topology, place.kind, place.unit)] if place.unit is not None else []
    return ", ".join([*parts, *([f"rail {place.rail}"] if place.rail is not None else [])])


def _cables(cabling: Cabled) -> Iterator[CableRow]:
    cables = list(cabling.fabric.cables)
    for pull, index in enumerate(cabling.order, 1):
        cable, model = cables[index], cabling.model[index]
        yield CableRow(
            pull=pull,
            name=cabling.labels.name(cable),
            a=cabling.labels.end(cable.a, cable.a_port),
            b=cabling.labels.end(cable.b, cable.b_port),
            length=f"{plain(cabling.length_m[index])} m" if model != UNKNOWN else "not checked",
            model=cabling.models[model] if model != UNKNOWN else "",
        )


def script() -> str:
    """Return the page's one script."""
    return template_text("fabric.js")


def script_policy() -> str:
    """Return the script's source for the content policy: its hash (CSP, level 2)."""
    digest = hashlib.sha256(script().encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def run_text(run: PortRun) -> str:
    """`1 to 32: gpu[001-032] rail 1`."""
    ports = run.first if run.count == 1 else f"{run.first} to {run.last}"
    return clean(f"{ports}: {names(run.names)}{run.more}" if run.use else f"{ports}: free")
