"""What a blueprint's nodes have by the catalog."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.nodes import NodeGroup, Override
from hpcforge.catalog import load_catalog
from hpcforge.cluster.checks.catalog import pytorch_device, shape

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("models", "device"),
    [([], "cpu"), (["h100-sxm"], "cuda"), (["mi300x"], "rocm"), (["mi300x", "h100-sxm"], "cuda")],
)
def test_pytorch_is_built_for_the_gpus_of_nodes(models: list[str], device: str) -> None:
    assert pytorch_device(models, CATALOG) == device


def test_an_override_comes_before_the_catalog() -> None:
    group = NodeGroup.model_validate({"functions": ["worker"], "hardware": "dgx-h100"})
    override = Override.model_validate({"reason": "a DIMM is out", "memory_gib": 1920})
    usual, own = shape(group, None, CATALOG), shape(group, override, CATALOG)
    assert (usual.gpu_count, usual.memory_gib, own.memory_gib) == (8, 2048, 1920)
    assert own.sockets == usual.sockets == 2
