"""The Slurm of Debian 14 loads topology.yaml: the tests of those before it, and one of two topologies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.hostlist import expand
from tests.stories.fabric.conftest import Nodes
from tests.stories.fabric.test_slurm import (
    UNITS,
    configured,
    controller,
    problems,
    test_block,
    test_flat,
    test_tree,
    told,
)

__all__ = ["test_block", "test_flat", "test_tree"]
pytestmark = [pytest.mark.lab, pytest.mark.debian_14]


@pytest.fixture(scope="module")
def head(start: Callable[..., Nodes]) -> Nodes:
    return controller(start, "14")


def test_a_tree_and_blocks(head: Nodes, tmp_path: Path) -> None:
    configured(head, tmp_path, "tree", '    near: {nodes: "gpu[033-072]", topology: block}')
    assert expand(told(head, "SwitchName")["compute-spine"]["Switches"]) == tuple(UNITS)
    blocks = told(head, "BlockName", "block")
    assert {name: block["Nodes"] for name, block in blocks.items()} == dict(list(UNITS.items())[1:])
    assert {block["BlockSize"] for block in blocks.values()} == {"8"}
    assert "Topology=block" in head.run("head", "scontrol show partition near")
    assert "Topology=" not in head.run("head", "scontrol show partition main")
    assert "topology: tree" in head.run("head", "scontrol show topoconf")
    head.run("head", "test ! -e /etc/slurm/topology.conf")
    assert problems(head) == []
