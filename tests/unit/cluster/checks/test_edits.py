"""Edits before they are written: the files are right, and no other machine moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.edit import RemoveEntry, RenameKey, SetValue
from hpcforge.blueprint.membership import Edits, Newcomers, added, removed
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.checks.edits import propose, propose_machines
from hpcforge.errors import ChangedFileError, UsageError
from tests.unit.blueprint.drafts import SMALL


@pytest.fixture
def site(tmp_path: Path) -> Loaded:
    (tmp_path / "machines.yaml").write_text("schema: 1\n")
    (tmp_path / "site.yaml").write_text(f"inventory: machines.yaml\n{SMALL}")
    return load(tmp_path / "site.yaml")


def test_a_proposal_has_both_texts_and_their_difference(site: Loaded) -> None:
    edits = added(site.blueprint, site.inventory, Newcomers(("w05",)))
    proposed = propose(site, edits, ("w05",))
    assert proposed.changed == [site.blueprint_path]
    lines = [line for line in proposed.diff(site.blueprint_path).splitlines() if line[:1] in "+-" and line[1:2] == " "]
    assert len(lines) == 2
    assert "w[01-05]:" in lines[1] and "10.1.0.[11-15]" in lines[1]
    assert site.blueprint_path.read_text() == proposed.old[site.blueprint_path]  # nothing is written


def test_without_edits_nothing_changes(site: Loaded) -> None:
    assert propose(site, Edits(), ()).changed == []


def test_edits_that_make_a_wrong_file_are_refused(site: Loaded) -> None:
    with pytest.raises(InvalidInput):
        propose(site, Edits((SetValue(("slurm", "controller"), "nosuch"),)), ())


def test_a_machine_that_is_not_named_does_not_move(site: Loaded) -> None:
    key = ("nodes", "w[01-04]")
    moves = Edits((SetValue((*key, "addresses"), "10.1.0.[12-15]"), RenameKey(key, "w[01-04]")))
    with pytest.raises(UsageError):
        propose(site, moves, ("w01",))
    assert propose(site, moves, ("w01", "w02", "w03", "w04")).changed


def test_a_removed_machine_moves_nobody(site: Loaded) -> None:
    edits = removed(site.blueprint, site.inventory, ["w02"], {})
    assert propose(site, edits, ("w02",)).changed == [site.blueprint_path]


def test_a_file_that_has_changed_since_is_not_edited(site: Loaded) -> None:
    site.blueprint_path.write_text(SMALL)
    with pytest.raises(ChangedFileError):
        propose(site, Edits((RemoveEntry(("acceptance",)),)), ())


def test_values_of_machines_go_to_the_inventory(site: Loaded) -> None:
    proposed = propose_machines(site, {("w01", "serial"): "S213048X8"})
    assert site.inventory_path is not None
    assert proposed.changed == [site.inventory_path]
    assert "S213048X8" in proposed.new[site.inventory_path]
    assert propose_machines(site, {}).changed == []
    with pytest.raises(InvalidInput):
        propose_machines(site, {("w01", "mac"): "x"})


def test_without_an_inventory_there_is_no_place_for_machines(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(SMALL)
    with pytest.raises(UsageError):
        propose_machines(load(tmp_path / "site.yaml"), {("w01", "serial"): "S213048X8"})
