"""Three real nodes to run the node program on."""

import os
from collections.abc import Iterator

import pytest

from hpcforge.lab import lab as labs
from tests.support import node_program as nodes
from tests.support.resources import Resources


@pytest.fixture(scope="module")
def lab() -> Iterator[labs.Lab]:
    """Three real nodes for all tests of a file: `full`, `bare` without Python, and `ours`, which has receipts."""
    name = f"test-node-{os.getpid()}"
    try:
        yield nodes.up(name, [labs.LabNode("full"), labs.LabNode("bare", python=False), labs.LabNode("ours")])
    finally:
        labs.down(name, None, nodes.quiet)


@pytest.fixture
def node(lab: labs.Lab) -> nodes.Node:
    return nodes.Node(lab, "ours")


@pytest.fixture(scope="module")
def wanted() -> type[Resources]:
    return Resources
