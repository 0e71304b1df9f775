"""Every kind of resource, from role.yaml to the plan, by its type alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.kinds import KINDS
from hpcforge.kinds.resource import Resource
from hpcforge.node import answer_types
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.resources import TYPES
from hpcforge.plan.roles.role import RoleError, load_roles
from hpcforge.report.plan_text import plan_text
from hpcforge.typed_json import fits

BY_TYPE = [kind for kind in TYPES if kind not in ("files", "downloads")]  # which have schemas by hand
Compiled = Callable[..., Desired]


def spelled(of: type[Resource], text: str = "{{ node.name }}-x") -> dict[str, Any]:
    """A resource as role.yaml gives it, with a template in every field that is text."""
    plain = {str: text, int: "{{ 40 + 2 }}", bool: "true", tuple[str, ...]: ["one", text]}
    optional = {int | None: "7", str | None: text}
    hints = get_type_hints(of)
    return {one.name: (plain | optional)[hints[one.name]] for one in dataclasses.fields(of)}


@pytest.fixture
def compiled(cluster: Cluster, tmp_path: Path) -> Compiled:
    def compiled(**role: Any) -> Desired:
        (tmp_path / "kinds/one").mkdir(parents=True)
        text = json.dumps(
            {"description": "One.", "on": "node.name == 'head'", **role}
        )  # which YAML is, too, and has no aliases
        (tmp_path / "kinds/one/role.yaml").write_text(text)
        return compile_desired(cluster, load_roles(tmp_path / "kinds"), {})

    return compiled


@pytest.mark.parametrize("kind", BY_TYPE)
def test_it_is_read_rendered_sent_and_planned(cluster: Cluster, compiled: Compiled, kind: str) -> None:
    desired = compiled(**{kind: [spelled(TYPES[kind])]})
    [wanted] = desired.nodes["head"]
    [one] = wanted.resources
    assert type(one) is TYPES[kind]
    assert one.named == "head-x"
    hints = get_type_hints(TYPES[kind])
    whole = [field.name for field in dataclasses.fields(one) if hints[field.name] is int]
    assert all(getattr(one, name) == 42 for name in whole)
    assert wanted.plain()[kind] == [dataclasses.asdict(one)]

    receipt = {"run": 1, "surplus": {"old": {kind: ["gone"], "on_remove": "stop"}}, "unowned": []}
    found = {"role": "one", kind: [{KINDS[kind].key: one.named, "exists": False}]}
    plan = diff(cluster, desired, {"head": Observation("head", differs={"one": found}, receipt=receipt)})
    [change] = plan.changes.steps[0].changes.values()
    assert [each.resource for each in change.resources] == [one]
    assert change.owns.resources[kind] == ("head-x",)
    text = plan_text(plan)
    assert "head-x" in text
    assert one.removal_line("gone") is None or f"- old: {one.removal_line('gone')}" in text


@pytest.mark.parametrize("kind", BY_TYPE)
def test_what_it_is_not_is_refused_in_role_yaml(compiled: Compiled, kind: str) -> None:
    with pytest.raises(RoleError, match="no_such_field"):
        compiled(**{kind: [{**spelled(TYPES[kind]), "no_such_field": "x"}]})


def test_a_number_that_is_none_is_refused(compiled: Compiled) -> None:
    account = {"name": "ada", "uid": "many", "home": "/home/ada"}
    with pytest.raises(RoleError, match=r"ada: uid: .*valid integer.*: 'many'") as error:
        compiled(accounts=[account])
    assert "kinds/one/role.yaml" in str(error.value)  # where it lies, which a role of a site has to say


def test_a_disruption_of_what_there_is_not_is_refused(compiled: Compiled) -> None:
    with pytest.raises(RoleError, match="'quotas' is none of packages, accounts, "):
        compiled(disrupts={"quotas": "drain"})


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_of_its_type_passes_the_border(kind: str) -> None:
    names = get_type_hints(answer_types.EVENTS["observed"])["differs"].__args__[0].__annotations__
    assert kind in names
    fits(names[kind])([])
