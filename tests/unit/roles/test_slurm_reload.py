"""What slurmctld takes up while it runs, and for what it is restarted, by the version of Slurm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.engines.tasks import NodeProgram
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import OwnedResources, Plan, Removal
from hpcforge.run.result import Run
from hpcforge.run.stages import stages
from tests.support.plans import with_fields

REHEARSAL = Path(__file__).parents[3] / "blueprints" / "rehearsal.yaml"
RUN = Run(2, "one", "ops@host", "rehearsal", "0.2.0")
SLURM_CONF = "/etc/slurm/slurm.conf"
DROP_INS = "/etc/systemd/system/slurmctld.service.d"


def slurm_conf(desired: Desired) -> File:
    return next(f for roles in desired.nodes.values() for role in roles for f in role.of(File) if f.path == SLURM_CONF)


def planned(compiled: Callable[[Cluster], Desired], release: str, edit: Callable[[str], str], **found: Any) -> Plan:
    """What is planned where slurm.conf on the head is what `edit` makes of the wanted one."""
    text = REHEARSAL.read_text().replace('release: "12"', f'release: "{release}"')
    cluster = load(REHEARSAL, instead={REHEARSAL: text}).cluster
    desired = compiled(cluster)
    file = slurm_conf(desired)
    old = edit(desired.texts[str(file.digest)])
    differs = old != desired.texts[str(file.digest)]
    there = {**dataclasses.asdict(file), "exists": True, "digest": "00", "written": "00", "text": old}
    unit = {"name": "slurmctld.service", "enabled": True, "active": "active", **found}
    difference = {"role": "slurm_controller", "files": [there] if differs else [], "units": [unit] if found else []}
    return diff(
        cluster, desired, {"head": Observation("head", {}, {"slurm_controller": difference}, receipt={"run": 1})}
    )


def done_to_slurmctld(
    compiled: Callable[[Cluster], Desired], release: str, edit: Callable[[str], str], **found: Any
) -> tuple[str, ...]:
    """The actions on slurmctld, which alone decide what is disrupted."""
    [change] = [step.changes["head"] for step in planned(compiled, release, edit, **found).changes.steps]
    assert change.disruption == ("restart" if "restart" in change.units[0].actions else "none")
    return change.units[0].actions


def shorter(text: str) -> str:
    return text.replace("MaxTime=01:00:00", "MaxTime=00:30:00")


@pytest.mark.parametrize("release", ["12", "13"])
def test_a_partitions_limit_is_read_again_without_a_restart(
    release: str, compiled: Callable[[Cluster], Desired]
) -> None:
    assert done_to_slurmctld(compiled, release, shorter) == ("refresh",)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace("RealMemory=", "RealMemory=1"),
        lambda text: shorter(text).replace("SlurmdTimeout=120", "SlurmdTimeout=130"),
        lambda text: text + "SlurmctldPort=7000\n",
        lambda text: "".join(sorted(text.splitlines(keepends=True))),  # the order of nodes has a meaning
    ],
)
def test_what_slurm_22_05_takes_up_only_when_it_starts_restarts_it(
    edit: Callable[[str], str], compiled: Callable[[Cluster], Desired]
) -> None:
    assert done_to_slurmctld(compiled, "12", edit) == ("restart",)
    assert done_to_slurmctld(compiled, "13", edit) == ("refresh",)


def test_a_restart_that_is_due_is_not_forgotten_over_a_reload(compiled: Callable[[Cluster], Desired]) -> None:
    """A run that was cut off may have left a change that only a restart takes up; which one is not known."""
    assert done_to_slurmctld(compiled, "12", shorter, restart_pending=True) == ("restart",)
    assert done_to_slurmctld(compiled, "12", shorter, restart_pending=False) == ("refresh",)


def test_a_run_that_is_cut_off_before_the_reload_is_taken_back(compiled: Callable[[Cluster], Desired]) -> None:
    """The node has the guard before the file changes; a restart that is due for something else stays due."""
    [prepare] = [
        stage.task.request
        for stage in stages(planned(compiled, "12", shorter), "head", {}, RUN)
        if isinstance(stage.task, NodeProgram) and stage.task.request.get("phase") == "prepare"
    ]
    assert [file["path"] for role in prepare["work"] for file in role["files"]] == [SLURM_CONF]
    assert [role["guard"] for role in prepare["work"]] == [{"id": f"{RUN.id}.slurm_controller", "revert_s": 60.0}]
    assert done_to_slurmctld(compiled, "12", str, restart_pending=True) == ("restart",)


@pytest.mark.parametrize("release", ["12", "13"])
def test_how_slurmctld_is_started_is_not_read_again(release: str, compiled: Callable[[Cluster], Desired]) -> None:
    text = REHEARSAL.read_text().replace('release: "12"', f'release: "{release}"')
    desired = compiled(load(REHEARSAL, instead={REHEARSAL: text}).cluster)
    [unit] = [unit for node in desired.nodes["head"] if node.role == "slurm_controller" for unit in node.units]
    drop_in = "/etc/systemd/system/slurmctld.service.d/hpcforge.conf"
    assert {SLURM_CONF, drop_in} <= set(unit.watches)
    assert drop_in not in {reread.path for reread in unit.rereads}


def test_accounting_turned_on_late_forgets_the_clusters_number_and_restarts_nothing(
    compiled: Callable[[Cluster], Desired],
) -> None:
    """By the program in a refresh, and by the drop-in where slurmctld does not run: both files are new with it."""
    path = Path(__file__).parent / "blueprints" / "accounting.yaml"
    cluster = load(path).cluster
    assert cluster.os.slurm == "24.11"
    desired = compiled(cluster)
    [controller] = [node for node in desired.nodes[cluster.slurm.controller] if node.role == "slurm_controller"]
    new = (SLURM_CONF, "/usr/sbin/hpcforge-cluster-number", f"{DROP_INS}/hpcforge-cluster-number.conf")
    there = [{**dataclasses.asdict(one), "exists": False} for one in controller.of(File) if one.path in new]
    assert len(there) == len(new)
    difference = {"role": "slurm_controller", "files": there}
    observed = Observation("head", {}, {"slurm_controller": difference}, receipt={"run": 1})
    [change] = [
        step.changes["head"] for step in diff(cluster, desired, {cluster.slurm.controller: observed}).changes.steps
        if step.role == "slurm_controller"
    ]  # fmt: skip
    [unit] = change.units
    assert unit.actions == ("refresh",)
    assert unit.refresh == (("/usr/sbin/hpcforge-cluster-number",), ("scontrol", "reconfigure"))
    assert change.disruption == "none"


ACCOUNTED = Path(__file__).parent / "blueprints" / "accounting.yaml"


def test_a_qos_is_added_before_slurmctld_starts_with_partitions_that_name_it(
    compiled: Callable[[Cluster], Desired],
) -> None:
    """slurmctld ends where the database lacks it: so another list of them restarts it, and is no matter of a reload."""
    text = ACCOUNTED.read_text().replace(
        "qos: low}", 'qos: low}\n    picky: {nodes: all, settings: {AllowQOS: "normal,high"}}'
    )
    cluster = load(ACCOUNTED, instead={ACCOUNTED: text}).cluster
    desired = compiled(cluster)
    [controller] = [node for node in desired.nodes[cluster.slurm.controller] if node.role == "slurm_controller"]
    [file] = [file for file in controller.of(File) if file.path == f"{DROP_INS}/hpcforge-qos.conf"]
    assert " add qos name=low,high " in desired.texts[str(file.text)]
    [unit] = controller.units
    assert file.path in unit.watches
    assert file.path not in {reread.path for reread in unit.rereads}


def test_a_qos_leaves_the_database_once_slurmctld_runs_without_it(compiled: Callable[[Cluster], Desired]) -> None:
    shorter_plan = planned(compiled, "12", shorter)
    gone = Removal("slurm_accounts", OwnedResources(resources={"associations": ("qos low",)}), wanted=True)
    other = Removal("time", OwnedResources(resources={"files": ("/etc/old",)}), wanted=True)
    first, *_, last = stages(with_fields(shorter_plan, removals={"head": (gone, other)}), "head", {}, RUN)
    assert (first.roles, last.roles) == (("time (removed)",), ("slurm_accounts (removed)",))
    assert last.after == (("head", "slurm_controller"),)
