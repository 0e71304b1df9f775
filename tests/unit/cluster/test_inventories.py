"""Every folder in cases/ holds a blueprint that names an inventory; what is said about the two is its expected.txt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput, render_all
from hpcforge.cluster import load
from hpcforge.cluster.model import Node

CASES = sorted((Path(__file__).parent / "cases").iterdir())


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_what_is_said_about_an_inventory(
    folder: Path, golden: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    try:
        cluster = load(Path("blueprint.yaml")).cluster
        text = "".join(_line(cluster.access.user, node) for node in cluster.nodes)
    except InvalidInput as error:
        text = render_all(error.diagnostics)
    golden(folder / "expected.txt", text)


def _line(user: str, node: Node) -> str:
    others = "".join(f" {network} {address}" for network, address in node.addresses.items())
    return f"{node.name} {user}@{node.address} {node.host_keys}{others}\n"
