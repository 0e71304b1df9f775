"""MAC addresses and serial numbers of an inventory that two machines or ports share; messages: cases/ has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster import load

BLUEPRINT = Path(__file__).parent / "cases" / "mac_twice_or_of_no_port" / "blueprint.yaml"
MAC = "02:00:00:00:00:01"


def errors(folder: Path, nodes: str) -> list[str]:
    """The messages about an inventory."""
    blueprint = folder / "blueprint.yaml"
    blueprint.write_text(BLUEPRINT.read_text())
    (folder / "inventory.yaml").write_text(f"schema: 1\nnodes:\n  {nodes}\n")
    try:
        load(blueprint)
    except InvalidInput as refused:
        return [each.message for each in refused.diagnostics if each.severity == "error"]
    return []


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (f"w01: {{mac: {MAC}, bmc: {{mac: {MAC}}}}}", f"{MAC} of w01 is also its `mac`"),
        (f"w01: {{bmc: {{mac: {MAC}}}}}\n  w02: {{mac: {MAC}}}", f"{MAC} of w02 already belongs to w01"),
        ("w01: {serial: A1}\n  w02: {serial: A1}", "A1 of w02 already belongs to w01"),
    ],
)
def test_no_two_ports_and_no_two_machines_share_one(tmp_path: Path, nodes: str, message: str) -> None:
    assert errors(tmp_path, nodes) == [message]


def test_two_machines_without_either_share_nothing(tmp_path: Path) -> None:
    assert errors(tmp_path, f"w01: {{mac: {MAC}, serial: A1}}\n  w02: {{bmc: {{mac: 02:00:00:00:00:02}}}}") == []
