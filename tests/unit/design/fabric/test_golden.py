"""The graphs of shipped blueprints, whole: every device, port and cable, and what they carry."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.summary import metrics
from tests.unit.design.fabric.asks import ROOT, loaded

GOLDEN = Path(__file__).parent / "golden"
SHIPPED = ("dgx-h100-pod", "roce-pair-16", "dgx-h100-site")


@pytest.mark.parametrize("name", SHIPPED)
def test_graph(name: str, golden: Callable[[Path, str], None]) -> None:
    fabrics = [lines(fabric) for fabric in loaded(ROOT / "blueprints" / f"{name}.yaml").fabrics]
    golden(GOLDEN / f"{name}.json", "[\n" + ",\n".join(fabrics) + "\n]\n")


def lines(fabric: Fabric) -> str:
    """JSON with a line for each device and cable: device and printed port of both ends, and the kind."""
    facts = {name: getattr(fabric, name) for name in FACTS}
    head: dict[str, Any] = {**facts, **json.loads(json.dumps(dataclasses.asdict(metrics(fabric))))}
    devices = [[d.name, d.kind, d.model, d.ports, d.unit, d.rail] for d in fabric.devices]
    cables = [
        [names(fabric, cable.a, cable.a_port), names(fabric, cable.b, cable.b_port), cable.kind]
        for cable in fabric.cables
    ]
    rows = [f'"{key}": {json.dumps(value)}' for key, value in head.items()]
    for key, entries in (("devices", devices), ("cables", cables)):
        body = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
        rows.append(f'"{key}": [\n{body}\n]')
    text = "{" + ",\n".join(rows) + "}"
    assert json.loads(text)["cables"] == cables
    return text


FACTS = tuple(
    field.name for field in dataclasses.fields(Fabric) if field.name not in ("devices", "cables", "moves", "designed")
)


def names(fabric: Fabric, device: int, port: int) -> str:
    return f"{fabric.devices[device].name} {fabric.port_label(device, port)}"
