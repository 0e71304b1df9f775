"""A design in each form that can be asked for."""

from __future__ import annotations

import json

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.design import designed
from hpcforge.errors import UsageError
from hpcforge.report.design import design_texts
from tests.unit.design.facility.designs import shipped


def text(*, as_json: bool = False, csv: str | None = None, svg: str | None = None) -> str:
    loaded = load(shipped("dgx-h100-unit"), None)
    return "".join(design_texts(loaded, designed(loaded, "site.yaml"), None, as_json=as_json, csv=csv, svg=svg))


def test_each_form_is_its_own() -> None:
    rack = next(iter(load(shipped("dgx-h100-unit"), None).placed.room.racks))
    assert json.loads(text(as_json=True))["blueprint"] == "site.yaml"
    assert [text(csv=table).partition(",")[0] for table in ("cables", "ports")] == ["fabric", "fabric"]
    assert "<svg" in text(svg=f"rack:{rack}")
    assert "of equipment at maximum" in text()


def test_tables_of_cables_need_no_whole_design() -> None:
    loaded = load(shipped("dgx-h100-unit"), None)
    assert "".join(design_texts(loaded, None, None, as_json=False, csv="cables", svg=None)) == text(csv="cables")
    assert not [*design_texts(loaded, None, None, as_json=True, csv=None, svg=None)]


def test_what_is_not_there_is_not_drawn() -> None:
    with pytest.raises(UsageError, match="there is no rack:none to draw"):
        text(svg="rack:none")
