"""The Slurm of Debian 14, which prefers topology.yaml, loads topology.conf as those before it: the same tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.stories.fabric.conftest import Nodes
from tests.stories.fabric.test_slurm import controller, test_block, test_flat, test_tree

__all__ = ["test_block", "test_flat", "test_tree"]
pytestmark = [pytest.mark.lab, pytest.mark.debian_14]


@pytest.fixture(scope="module")
def head(start: Callable[..., Nodes]) -> Nodes:
    return controller(start, "14")
