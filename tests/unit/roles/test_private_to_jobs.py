"""What jobs have for themselves on workers, and who gets in beside them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired
from hpcforge.rehearsal.stand_in_rules import RULES

Compiled = Callable[[Cluster], Desired]


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """One whose jobs have a /tmp of their own, and on whose workers nobody else is."""
    return load(Path(__file__).parent / "blueprints" / "storage.yaml").cluster


def slurm(cluster: Cluster, **changes: Any) -> Cluster:
    return dataclasses.replace(cluster, slurm=dataclasses.replace(cluster.slurm, **changes))


def text(desired: Desired, node: str, path: str) -> str:
    """What a node has in a file."""
    found = [resource for wanted in desired.nodes[node] for resource in wanted.resources if isinstance(resource, File)]
    (digest,) = (one.digest for one in found if one.path == path)
    return desired.texts[str(digest)]


def roles(desired: Desired, node: str) -> set[str]:
    return {wanted.role for wanted in desired.nodes[node]}


def lines(desired: Desired, key: str) -> list[str]:
    return [line for line in text(desired, "head", "/etc/slurm/slurm.conf").splitlines() if line.startswith(f"{key}=")]


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_each_job_has_its_own_tmp(cluster: Cluster, compiled: Compiled, version: str) -> None:
    desired = compiled(dataclasses.replace(cluster, os=dataclasses.replace(cluster.os, slurm=version)))
    assert lines(desired, "JobContainerType") == ["JobContainerType=job_container/tmpfs"]
    assert lines(desired, "PrologFlags") == ["PrologFlags=Alloc,Contain"]
    assert text(desired, "head", "/etc/slurm/job_container.conf").splitlines()[1:] == [
        "AutoBasePath=true",
        "BasePath=/scratch/jobs",
    ]


def test_without_either_nothing_is_contained(cluster: Cluster, compiled: Compiled) -> None:
    desired = compiled(slurm(cluster, ssh="anyone", private_tmp=None))
    assert lines(desired, "PrologFlags") == ["PrologFlags=Alloc"]
    assert lines(desired, "JobContainerType") == []
    assert not {"slurm_ssh", "slurm_private_tmp"} & roles(desired, "w01")


def test_administrators_need_no_job(cluster: Cluster, compiled: Compiled) -> None:
    users = tuple(
        dataclasses.replace(cluster.users[0], name=name, admin=name != "bob") for name in ("ada", "bob", "ops")
    )
    desired = compiled(dataclasses.replace(cluster, users=users))
    assert text(desired, "w01", "/etc/security/hpcforge_without_job").split() == ["root", "ops", "ada"]


def test_where_users_log_in_they_need_no_job(cluster: Cluster, compiled: Compiled) -> None:
    nodes = tuple(
        dataclasses.replace(node, functions=("worker", "login")) if node.name == "w02" else node
        for node in cluster.nodes
    )
    desired = compiled(dataclasses.replace(cluster, nodes=nodes))
    have = {node for node in desired.nodes if "slurm_ssh" in roles(desired, node)}
    assert have == {"w01", "w03", "w04"}


def test_containers_do_not_show_it(cluster: Cluster, compiled: Compiled) -> None:
    (limits,) = (rule for rule in RULES if rule.name == "limits")
    said = limits.says(cluster, SimpleNamespace(boots=False, controllers=frozenset()))  # type: ignore[arg-type]
    assert said is not None
    assert said[1].endswith("; users without a job get into workers, too; jobs share a node's /tmp")
    desired = compiled(limits.change(cluster, None))  # type: ignore[arg-type]
    assert not {"slurm_ssh", "slurm_private_tmp"} & roles(desired, "w01")
    assert lines(desired, "ProctrackType") == ["ProctrackType=proctrack/linuxproc"]
