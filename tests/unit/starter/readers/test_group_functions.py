"""What groups of an inventory say that hosts are for."""

from __future__ import annotations

import pytest

from hpcforge.starter.readers.host_names import function_of, level, silent, stated


@pytest.mark.parametrize(
    ("function", "names"),
    [
        ("head", "slurm-master slurmctld slurm_controller slurmservers control head_node mg_managements"),
        ("login", "login slurm_submit login-nodes mg_logins"),
        ("storage", "nfs nfs-server beegfs_oss osds mdss storage_nodes"),
        ("worker", "compute slurm-node kube-node gpu-servers slurmexechosts workers mg_computes"),
        (None, "slurm slurm-cluster nfs-clients slurmdbdservers slurm_database node_exporter ldap etcd slurm_backup"),
    ],
)
def test_a_name_says_a_function_or_none(function: str | None, names: str) -> None:
    assert {name: function_of(name) for name in names.split()} == dict.fromkeys(names.split(), function)


def test_groups_about_slurm_win_over_others_and_kubernetes() -> None:
    assert (level("slurm-node"), level("compute"), level("k8s_master")) == (3, 2, 1)
    members = {
        "kube-master": {"m1"},
        "master": {"m2"},
        "slurm-master": {"l1"},
        "slurm-node": {"g1", "g2"},
        "nfs": {"l1"},
    }
    assert stated(members) == {"l1": ("head", "storage"), "g1": ("worker",), "g2": ("worker",)}
    assert stated({"kube-master": {"m1"}, "kube-node": {"m1", "n1"}}) == {"m1": ("head", "worker"), "n1": ("worker",)}


def test_a_group_with_every_worker_says_what_they_use() -> None:
    assert stated({"compute": {"n1", "n2"}, "nfs": {"n1", "n2", "c"}}) == {"n1": ("worker",), "n2": ("worker",)}
    assert stated({"compute": {"n1"}, "control": {"n1"}, "nfs": set()}) == {"n1": ("head", "worker")}


def test_groups_of_all_hosts_and_those_of_a_function_are_not_silent() -> None:
    members = {"compute": {"n1", "n2"}, "gpu": {"n2"}, "nfs": {"n1", "n2"}, "control": {"h"}, "c": {"h", "n1", "n2"}}
    assert list(silent(members, stated(members))) == ["gpu", "nfs"]
