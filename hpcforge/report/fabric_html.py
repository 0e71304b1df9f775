"""What the page of a design shows of its fabrics: drawings, port maps, and a table of cables that can be searched.

The search is the one script that a page has, and only a page with cables has it: its content policy names the script
by its hash, so that no text of a blueprint could become another.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from xml.etree import ElementTree as ET

from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.design.fabric.design import FabricDesign, Loss, SwitchPlace
from hpcforge.design.fabric.ports import PortMap, PortMaps, PortRun, SwitchPort
from hpcforge.report import fabric_svg
from hpcforge.report.design_words import names, plain
from hpcforge.report.fabric_words import CABLES, group_said
from hpcforge.report.text import clean

MOST_NODES = 1_024  # up to so many the page lists ports and cables; above, `--csv` does
_FACES = 64  # switches of a fabric up to which each one's face is drawn
_CELL, _STEP = 7.0, 8.0  # a port on a drawn face, and from one to the next


@dataclass(frozen=True)
class SwitchRow:
    """One switch: where it stands, and what its ports lead to."""

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
    losses: tuple[tuple[str, Loss], ...]  # what fails, in words


def shown(designs: Sequence[FabricDesign], fabrics: Sequence[Cabled]) -> list[FabricOnPage]:
    """Return what the page has of each fabric."""
    return [_shown(design, cabling) for design, cabling in zip(designs, fabrics, strict=True)]


def _shown(design: FabricDesign, cabling: Cabled) -> FabricOnPage:
    small = design.nodes <= MOST_NODES
    return FabricOnPage(
        design=design,
        drawing=fabric_svg.inline(cabling.fabric),
        switches=tuple(_switches(design, cabling)) if small else (),
        cables=tuple(_cables(cabling)) if small else (),
        losses=tuple((_what(loss), loss) for loss in design.failures),
    )


def _what(loss: Loss) -> str:
    return f"cable {CABLES[loss.what]}" if loss.what in CABLES else loss.what


def _switches(design: FabricDesign, cabling: Cabled) -> Iterator[SwitchRow]:
    ports = PortMaps(cabling.fabric)
    for place, port_map in zip(design.placed, ports, strict=True):
        where = f"{place.rack} U{place.u}" if place.rack else "not known"
        if place.rack and cabling.rooms:
            where = f"{place.room} {where}"
        face = _face(port_map) if len(design.placed) <= _FACES else ""
        used = f"{port_map.used} of {len(port_map.ports)}"
        yield SwitchRow(place, _role(design, place), where, used, face, tuple(ports.runs(port_map.ports)))


def _role(design: FabricDesign, place: SwitchPlace) -> str:
    """What a switch is in its fabric."""
    parts = [group_said(design.topology, place.kind, place.unit)] if place.unit is not None else []
    return ", ".join([*parts, *([f"rail {place.rail}"] if place.rail is not None else [])])


def _face(port_map: PortMap) -> str:
    """A switch's ports in two rows, odd numbers above even ones, coloured by what they lead to."""
    columns = -(-len(port_map.ports) // 2)
    width, height = columns * _STEP, 2 * _STEP
    svg = ET.Element("svg", {"class": "face", "viewBox": f"0 0 {width:g} {height:g}", "aria-hidden": "true"})
    svg.set("width", f"{width:g}")
    svg.set("height", f"{height:g}")
    for number, port in enumerate(port_map.ports):
        where = {"x": f"{number // 2 * _STEP:g}", "y": f"{number % 2 * _STEP:g}"}
        ET.SubElement(svg, "rect", {"class": _use(port), "width": f"{_CELL:g}", "height": f"{_CELL:g}", **where})
    return ET.tostring(svg, encoding="unicode")


def _use(port: SwitchPort) -> str:
    return port.use.replace("_", "-") if port.use else "free"


def _cables(cabling: Cabled) -> Iterator[CableRow]:
    everything = list(cabling.fabric.cables)
    for pull, index in enumerate(cabling.order, 1):
        cable, model = everything[index], cabling.model[index]
        yield CableRow(
            pull=pull,
            name=cabling.labels.name(cable),
            a=cabling.labels.end(cable.a, cable.a_port),
            b=cabling.labels.end(cable.b, cable.b_port),
            length=f"{plain(cabling.length_m[index])} m" if model != UNKNOWN else "not checked",
            model=cabling.models[model] if model != UNKNOWN else "",
        )


@lru_cache
def script() -> str:
    """Return the page's one script."""
    return files("hpcforge.report").joinpath("templates", "fabric.js").read_text("utf-8")


@lru_cache
def script_policy() -> str:
    """Return what the page's content policy says of the script: its hash (CSP, level 2)."""
    digest = hashlib.sha256(script().encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def run_said(run: PortRun) -> str:
    """`1 to 32: gpu[001-032] rail 1`."""
    ports = run.first if run.count == 1 else f"{run.first} to {run.last}"
    return clean(f"{ports}: {names(run.names)}{run.more}" if run.use else f"{ports}: free")
