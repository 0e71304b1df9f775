"""Files that a blueprint and its inventory name; messages of keys and folders: tests/unit/blueprint/cases has them."""

from __future__ import annotations

from pathlib import Path

from hpcforge.blueprint import reader
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.validate import Draft, validate
from hpcforge.cluster.checks.files import is_there, private_key_findings


def inventory(folder: Path, key: str) -> tuple[Draft, Path]:
    path = folder / "inventory.yaml"
    text = f"schema: 1\naccess: {{key: {key}}}\nnodes: {{}}\n"
    return validate(Inventory, reader.read_bytes(text.encode(), str(path), reader.MAX_MACHINE_VALUES))[0], path


def test_a_private_key_is_beside_its_inventory(tmp_path: Path) -> None:
    (finding,) = private_key_findings(*inventory(tmp_path, "key"))
    assert (finding.loc, finding.message) == (("access", "key"), "the key `key` does not exist")
    assert finding.hint == "a path is relative to the inventory"
    (tmp_path / "key").mkdir()
    assert list(private_key_findings(*inventory(tmp_path, "key")))  # a folder is no key
    (tmp_path / "key").rmdir()
    (tmp_path / "key").write_text("")
    assert list(private_key_findings(*inventory(tmp_path, "key"))) == []


def test_a_path_that_is_too_long_leads_nowhere(tmp_path: Path) -> None:
    assert is_there(tmp_path) and not is_there(tmp_path / ("x" * 300))
