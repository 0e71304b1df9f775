"""A blueprint that was read, and its files since."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cluster import Loaded, load
from hpcforge.errors import ChangedFileError
from tests.unit.blueprint.drafts import SMALL
from tests.unit.design.facility.designs import ROOT, altered, loaded, shipped

FABRIC = "fabrics: {ether: {kind: ethernet, rate_gbps: 10, topology: single-switch, switch: sn2410}}\n"


@pytest.fixture
def site(tmp_path: Path) -> Loaded:
    (tmp_path / "machines.yaml").write_text("schema: 1\r\nnodes: {}\r\n", newline="")
    (tmp_path / "site.yaml").write_text(f"inventory: machines.yaml\n{SMALL}")
    return load(tmp_path / "site.yaml")


def test_texts_are_those_that_were_read_with_their_line_ends(site: Loaded) -> None:
    assert site.inventory_path is not None
    assert site.text(site.inventory_path) == "schema: 1\r\nnodes: {}\r\n"
    assert site.text(site.blueprint_path).endswith(SMALL)
    site.require_unchanged()


@pytest.mark.parametrize("name", ["site.yaml", "machines.yaml"])
@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_file_that_has_changed_since_is_not_used(site: Loaded, name: str, change: str) -> None:
    path = site.blueprint_path.with_name(name)
    if change == "edited":
        path.write_text(path.read_text() + "# more\n")
    else:
        path.unlink()
    with pytest.raises(ChangedFileError):
        site.require_unchanged()


def test_a_file_that_was_edited_and_restored_is_the_same(site: Loaded) -> None:
    content = site.blueprint_path.read_bytes()
    site.blueprint_path.write_text("x")
    site.blueprint_path.write_bytes(content)
    site.require_unchanged()


def test_what_breaks_a_rule_has_its_place_and_arithmetic(tmp_path: Path) -> None:
    unit = loaded(altered(tmp_path, shipped("dgx-h100-unit"), ("derating: 1.0", "derating: 0.8")))
    [remark] = [entry for entry in unit.remarks if entry.severity == "error"]
    [diagnostic] = [entry for entry in unit.diagnostics if entry.severity == "error"]
    assert (remark.code, remark.line, remark.file) == ("POWER-003", 16, str(tmp_path / "dgx-h100-unit.yaml"))
    assert (diagnostic.line, diagnostic.message) == (16, f"POWER-003: {remark.message}: {remark.arithmetic}")
    assert {entry.severity for entry in unit.not_checked} == {"not-checked"}
    assert len(unit.not_checked) == 10


def test_without_a_site_only_the_design_says_that_racks_are_not_checked() -> None:
    plain = loaded(ROOT / "blueprints" / "dgx-h100-32.yaml")
    [remark] = [entry for entry in plain.remarks if entry.code == "SITE-001"]
    assert (remark.line, remark.severity) == (None, "not-checked")
    assert not [entry for entry in plain.not_checked if "SITE-001" in entry.message]


def test_switches_are_known_by_what_they_report(tmp_path: Path) -> None:
    (tmp_path / "machines.yaml").write_text(
        "schema: 1\nswitches: {ether-leaf-001: {system_name: sw1, mac: 3c:ec:ef:00:00:01}}\n"
    )
    (tmp_path / "site.yaml").write_text(f"inventory: machines.yaml\nsecrets: own.age\n{SMALL}{FABRIC}")
    site = load(tmp_path / "site.yaml")
    assert site.switch_said == {"sw1": "ether-leaf-001", "3c:ec:ef:00:00:01": "ether-leaf-001"}
    assert site.secrets_path == tmp_path / "own.age"
    (tmp_path / "site.yaml").write_text(SMALL)
    assert load(tmp_path / "site.yaml").secrets_path == tmp_path / "site.age"
