"""docs/disruption.md is what the code says, speaks of every field, and is right about what can be known beforehand."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from hpcforge.plan.diff import diff
from hpcforge.plan.roles.role import load_roles
from tools import disruption_table as module
from tools.disruption_table import (
    NOT_MEASURED,
    RELEASES,
    Effect,
    disruption_table,
    effects,
    mutations,
    observed_as,
)

REPOSITORY = Path(__file__).parents[3]
ROLES = load_roles(REPOSITORY / "roles")


@pytest.fixture(scope="module", params=RELEASES)
def found(request: pytest.FixtureRequest) -> dict[str, Effect]:
    return {f"{effect.mutation.field}: {effect.mutation.what}": effect for effect in effects(ROLES, request.param)}


def test_the_published_table_is_current() -> None:
    published = (REPOSITORY / "docs" / "disruption.md").read_text(encoding="utf-8")
    assert published == disruption_table(ROLES), "write it: python -m tools.disruption_table > docs/disruption.md"


def test_it_speaks_of_every_field() -> None:
    reference = (REPOSITORY / "docs" / "blueprint.md").read_text(encoding="utf-8")
    paths = re.findall(r"^\| `([^`]+)` \|", reference, re.MULTILINE)
    measured = {mutation.field.removesuffix(".*") for mutation in mutations(ROLES)}
    whole = (*NOT_MEASURED, *(m.field.removesuffix(".*") for m in mutations(ROLES) if m.field.endswith(".*")))
    missed = [
        path
        for path in paths
        if path not in measured
        and not any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in whole)
        and not any(field.startswith(f"{path}.") for field in measured)
    ]
    assert len(paths) > 100
    assert missed == [], "a field of the blueprint is neither in MUTATIONS nor in NOT_MEASURED"
    assert measured | set(NOT_MEASURED) <= set(paths), "a field in the table is not in the schema"


@pytest.mark.parametrize("release", RELEASES)
def test_without_a_change_there_is_nothing_to_do(release: str) -> None:
    cluster, desired = module._desired(module.BLUEPRINT.replace("@RELEASE@", release), ROLES)
    plan = diff(cluster, desired, observed_as(desired, desired))
    assert not plan.pending


def test_adding_a_node_touches_the_head_and_the_new_node_only(found: dict[str, Effect]) -> None:
    assert set(found["nodes: one node more"].touched) == {"head", "w04"}


def test_removing_a_node_drains_it_and_revokes_its_key_everywhere(found: dict[str, Effect]) -> None:
    effect = found["nodes: one node less"]
    assert (set(effect.touched), effect.disruption) == ({"head", "login", "w01", "w02", "w03"}, "drain")
    others = [line for line in effect.changes if "`head,login,w[01-02]`" in line]
    assert others == ["`head,login,w[01-02]` ssh_trust: writes /etc/ssh/ssh_known_hosts2"]


def test_what_does_not_concern_nodes_touches_none(found: dict[str, Effect]) -> None:
    for name in ("access.user: another login", "rollout.*: more caution"):
        assert (found[name].touched, found[name].changes, found[name].disruption) == ((), (), "none")
    fewer = found["acceptance.tests.*: fewer tests"]
    assert fewer.changes == ("`w[01-03]` smoke_tests: removes /opt/hpcforge/smoke_tests/train_ddp.py",)
    assert fewer.disruption == "none"


def test_scheduling_is_the_head_s_alone(found: dict[str, Effect]) -> None:
    for name, effect in found.items():
        on_workers = name.startswith(("slurm.ssh:", "slurm.private_tmp:"))  # who reaches them, and what jobs have there
        if name.startswith("slurm.") and not on_workers:
            assert effect.touched == ("head",), name


def test_a_role_s_own_word_on_disruption_is_in_the_table() -> None:
    drains = [
        dataclasses.replace(role, spec=role.spec.model_copy(update={"disrupts": {"units": "drain"}}))
        if role.name == "slurm_controller"
        else role
        for role in ROLES
    ]
    said = {effect.mutation.field: effect.disruption for effect in effects(drains, "12")}
    assert said["slurm.reserve.cores"] == "drain"
    assert said["services.dns.forward"] == "restart"
