"""What the roles make of blueprints, compared whole with golden files; `goldens.py` says what these have.

Refresh with `pytest tests/unit/roles --refresh-golden`, then read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.node.verbs import checked
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import Role
from hpcforge.run.requests import wanted
from hpcforge.secrets.secret_files import Contents
from tests.unit.roles.goldens import BLUEPRINTS, GOLDEN, HANDED_ON, compiled, golden_texts, handed_on, shown

SHOWN = shown()
Compare = Callable[[Path, str], None]


@pytest.mark.parametrize("name", SHOWN)
def test_rendered_as_before(
    name: str, roles: tuple[Role, ...], golden: Compare, request: pytest.FixtureRequest
) -> None:
    [path] = [path for path in BLUEPRINTS if path.stem == name]
    cluster, folder = load(path).cluster, GOLDEN / name
    expected = golden_texts(cluster, roles, compiled(cluster, roles), SHOWN[name])
    stale = {path for path in folder.rglob("*") if path != folder / f"{path.stem}.txt" or path.stem not in expected}
    if request.config.getoption("--refresh-golden"):
        folder.mkdir(exist_ok=True)
        for path in stale:
            path.unlink()
        stale = set()
    for role, text in expected.items():
        golden(folder / f"{role}.txt", text)
    assert not stale, "no role renders these any more"
    assert SHOWN[name] is None or SHOWN[name] == set(expected), "a role is not there"


def test_files_are_handed_on_as_they_were(roles: tuple[Role, ...], golden: Compare) -> None:
    golden(HANDED_ON, handed_on(roles))


def test_no_golden_file_is_left_of_a_blueprint_that_is_not_shown() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {*SHOWN, HANDED_ON.name}


def test_a_node_takes_what_it_is_asked(cluster: Cluster, compiled: Callable[[Cluster], Desired]) -> None:
    """Of every blueprint, also those without golden files: it compiles, and nodes understand it."""
    desired = compiled(cluster)
    contents = Contents(desired.texts, {})
    for roles in desired.nodes.values():
        request = {"verb": "observe", "wanted": [wanted(role, contents) for role in roles]}
        assert checked(json.loads(json.dumps(request)))["verb"] == "observe"
