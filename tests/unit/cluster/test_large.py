"""Thousands of nodes, each with its line in both files: reading stays a matter of seconds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import MAX_SHOWN, InvalidInput
from hpcforge.cluster import load

VALID = Path(__file__).parents[1] / "blueprint" / "cases" / "valid.yaml"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"


def write(folder: Path, node: str, count: int) -> Path:
    groups = [f"  n{n:05}: {node}\n" for n in range(count)]
    machines = [
        f'  n{n:05}: {{address: 10.1.{n // 250 + 1}.{n % 250 + 1}, host_keys: ["{KEY}"]}}\n' for n in range(count)
    ]
    text = VALID.read_text().replace("10.1.0.0/24", "10.1.0.0/16").replace("nodes:\n", "nodes:\n" + "".join(groups), 1)
    (folder / "large.yaml").write_text(text.replace("access:", "inventory: machines.yaml\naccess:", 1))
    (folder / "machines.yaml").write_text("schema: 1\nnodes:\n" + "".join(machines))
    return folder / "large.yaml"


def test_ten_thousand_nodes(tmp_path: Path) -> None:
    path = write(tmp_path, "{functions: [worker], hardware: rehearsal-node}", 10_000)
    start = time.process_time()
    assert len(load(path).cluster.nodes) == 10_005
    assert time.process_time() - start < 30  # about 4 s of one core


def test_thousands_of_errors(tmp_path: Path) -> None:
    path = write(tmp_path, "{functions: [worker], hardware: rehersal-node, rack: g01}", 3_000)
    start = time.process_time()
    with pytest.raises(InvalidInput) as caught:
        load(path)
    assert len(caught.value.diagnostics) == MAX_SHOWN
    assert caught.value.diagnostics[-1].message == "and more: shown when what is said here is mended"
    assert time.process_time() - start < 10  # about 1 s of one core
