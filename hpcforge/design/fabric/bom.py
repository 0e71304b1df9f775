"""Cables and transceivers in the bill of materials. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hpcforge.blueprint.hardware import CableModel
from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.design.fabric.fitting import LinkKind
from hpcforge.design.fabric.labels import ENDS
from hpcforge.design.facility.design import BomLine


def bom(fabrics: Sequence[Cabled], cables: Mapping[str, CableModel]) -> Iterator[BomLine]:
    """Yield a line for each model and length of cable, and one for the transceivers of each model."""
    lots: Counter[tuple[str, float, int]] = Counter()
    for cabling in fabrics:
        lots.update(cabling.bought)
    for (model, length_m, ends), count in sorted(lots.items()):
        split = f", one port to {ends} ends" if ends > 1 else ""
        fibre = "fibre, " if cables[model].fibre else ""
        said = f"{fibre}{length_m:g} m{split}: {cables[model].description or ''}".removesuffix(": ")
        yield BomLine("cable", model, said, count, False, None, None)
    adapters = sum((cabling.adapters for cabling in fabrics), Counter[str]())
    for model, count in sorted(adapters.items()):
        yield BomLine("adapter", model, (cables[model].description or "").removesuffix("."), count, False, None, None)
    plugs: Counter[str] = Counter()
    for cabling in fabrics:
        plugs.update(transceivers(cabling, cables))
    for model, count in sorted(plugs.items()):
        said = "transceivers: one a link at a machine, one a cage at a switch, twin-port where the cage is"
        yield BomLine("transceiver", model, said, count, False, cables[model].end_w, None)


def transceivers(cabling: Cabled, cables: Mapping[str, CableModel]) -> Counter[str]:
    """How many transceivers of a model: those of a switch by cage, of a broken-out port by port, at its whole rate."""
    fabric, columns, counts = cabling.fabric, cabling.fabric.cables, Counter[str]()
    optics = [cables[model].kind == "optics" for model in cabling.models]
    cages: set[tuple[int, int, str]] = set()
    for cable, model in enumerate(cabling.model):
        if model == UNKNOWN or not optics[model]:
            continue
        for device, port in ((columns.a[cable], columns.a_port[cable]), (columns.b[cable], columns.b_port[cable])):
            machine = fabric.devices[device]
            if machine.kind in ENDS:
                counts[cabling.models[model]] += 1
            else:
                number, _ = fabric.physical_port(device, port)
                plug = _whole(cabling.models[model], cabling.links[cabling.link[cable]], cables)
                cages.add((device, (number - 1) // machine.per_cage, plug))
    counts.update(plug for _, _, plug in cages)
    return counts


def _whole(model: str, link: LinkKind, cables: Mapping[str, CableModel]) -> str:
    """Return the transceiver at a switch: of a broken-out port the one of the whole port, for the same fibre."""
    rate_gbps, fibre = link.rate_gbps * link.breakout, cables[model].fibre
    whole = (name for name, cable in cables.items() if (cable.rate_gbps, cable.fibre) == (rate_gbps, fibre))
    return next(whole, model) if link.breakout > 1 else model
