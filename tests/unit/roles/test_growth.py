"""What one node more changes: files on the nodes that serve the cluster, and on the new one; nowhere else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.blueprint.edit import edited
from hpcforge.blueprint.membership import Newcomers, added
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired, DesiredRole, Reread, Unit

REPOSITORY = Path(__file__).parents[3]
REHEARSAL = REPOSITORY / "blueprints" / "rehearsal.yaml"


def grown(loaded: Loaded, name: str, text: str) -> Cluster:
    """The cluster with one worker more."""
    edits = added(loaded.blueprint, loaded.inventory, Newcomers((name,)))
    new = edited(text, edits.blueprint)
    return load(loaded.blueprint_path, loaded.inventory_path, instead={loaded.blueprint_path: new}).cluster


def beyond_checks(wanted: DesiredRole) -> DesiredRole:
    """All that is made so; what is merely looked at, and who is waited for, may know the others."""
    return dataclasses.replace(wanted, checks=(), needs=())


@pytest.mark.parametrize("release", ["12", "13"])
def test_a_new_worker_changes_files_on_the_head_and_on_itself_only(
    release: str, compiled: Callable[[Cluster], Desired]
) -> None:
    text = REHEARSAL.read_text().replace('release: "12"', f'release: "{release}"')
    loaded = load(REHEARSAL, instead={REHEARSAL: text})
    before, after = compiled(loaded.cluster), compiled(grown(loaded, "w04", text))
    changed = {
        (node, wanted.role)
        for node, roles in before.nodes.items()
        for wanted, later in zip(roles, after.nodes[node], strict=True)
        if beyond_checks(wanted) != beyond_checks(later)
    }
    assert changed == {("head", "dns_server"), ("head", "slurm_controller")}
    assert set(after.nodes) - set(before.nodes) == {"w04"}


def test_no_worker_holds_slurms_configuration(compiled: Callable[[Cluster], Desired]) -> None:
    desired = compiled(load(REHEARSAL).cluster)
    for node, roles in desired.nodes.items():
        files = [file.path for wanted in roles for file in wanted.of(File)]
        assert ("/etc/slurm/slurm.conf" in files) == (node == "head")


def test_names_come_and_go_without_a_restart(compiled: Callable[[Cluster], Desired]) -> None:
    (unit,) = units(compiled(load(REHEARSAL).cluster), "dns_server")
    assert unit.rereads == (Reread("/etc/dnsmasq.hosts"),)
    drop_in = "/etc/systemd/system/dnsmasq.service.d/hpcforge.conf"
    assert set(unit.watches) == {"/etc/dnsmasq.hosts", "/etc/dnsmasq.d/hpcforge.conf", drop_in}


def units(desired: Desired, role: str) -> tuple[Unit, ...]:
    return next(wanted.units for roles in desired.nodes.values() for wanted in roles if wanted.role == role)


def test_further_settings_stand_in_slurm_conf(compiled: Callable[[Cluster], Desired]) -> None:
    cluster = load(REHEARSAL).cluster
    slurm = dataclasses.replace(cluster.slurm, settings=(("TreeWidth", "2"),))
    desired = compiled(dataclasses.replace(cluster, slurm=slurm))
    assert any("\nTreeWidth=2\n" in text for text in desired.texts.values())
