"""The shipped machines, and a cluster's machines as other programs see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.machines import GroupNameError, groups
from tests.support.shipped import ROOT, anywhere

BLUEPRINTS = sorted((ROOT / "blueprints").glob("*.yaml"))


@pytest.mark.parametrize("blueprint", BLUEPRINTS, ids=lambda path: path.stem)
def test_each_shipped_blueprint_has_its_machines_in_an_inventory_of_its_name(blueprint: Path) -> None:
    loaded = load(blueprint)
    if loaded.wants_lab:
        assert not (ROOT / "inventory" / blueprint.name).exists()  # its machines are made when they are needed
        return
    path = ROOT / "inventory" / blueprint.name
    assert loaded.inventory_path is not None
    assert loaded.inventory_path.resolve() == path
    assert path.read_text().splitlines()[0] == "# yaml-language-server: $schema=./inventory.schema.json"
    for node in loaded.cluster.nodes:
        assert node.bmc is not None
        assert None not in (node.mac, node.serial, node.bmc.address, node.bmc.mac), node.name


def test_no_inventory_is_of_nothing() -> None:
    assert {path.name for path in (ROOT / "inventory").glob("*.yaml")} <= {path.name for path in BLUEPRINTS}


def test_groups_are_functions_racks_and_partitions() -> None:
    cluster = load(ROOT / "blueprints" / "dgx-h100-unit.yaml").cluster
    found = groups(cluster)
    assert found["function_login"] == ("login01", "login02")
    assert found["rack_g02"] == ("gpu005", "gpu006", "gpu007", "gpu008")
    assert found["partition_debug"] == ("gpu031", "gpu032")
    assert {name.partition("_")[0] for name in found} == {"function", "rack", "partition"}


def test_names_of_groups_are_names_for_ansible_and_python(tmp_path: Path) -> None:
    text = anywhere(ROOT / "blueprints" / "two-node-lab.yaml")
    (tmp_path / "b.yaml").write_text(
        text.replace(" main:", " big-jobs: {nodes: n1}\n    main:").replace(" r1", " row-1-a")
    )
    found = groups(load(tmp_path / "b.yaml").cluster)
    assert list(found) == ["function_head", "function_worker", "rack_row_1_a", "partition_big_jobs", "partition_main"]
    assert all(name.isidentifier() for name in found)


def test_two_partitions_that_would_be_one_group_are_refused(tmp_path: Path) -> None:
    text = anywhere(ROOT / "blueprints" / "two-node-lab.yaml")
    (tmp_path / "b.yaml").write_text(
        text.replace(" main:", " big-jobs: {nodes: n1}\n    big_jobs: {nodes: n2}\n    main:")
    )
    with pytest.raises(GroupNameError, match="partition_big_jobs"):
        groups(load(tmp_path / "b.yaml").cluster)
