"""What nodes that are hardened are held to, and the exceptions that a training cluster needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.kinds.sysctls import Sysctl
from hpcforge.plan.desired import Desired, DesiredRole

Compiled = Callable[[Cluster], Desired]
SSHD = "/etc/ssh/sshd_config.d/00-hpcforge_hardening.conf"
_OTHER_KERNELS = {"kernel.yama.ptrace_scope"}  # of a module that a kernel may be without


@pytest.fixture(scope="module")
def dgx() -> Cluster:
    return load(bundled.root() / "blueprints" / "dgx-h100-site.yaml").cluster


def chosen(cluster: Cluster, role: str, **variables: Any) -> Cluster:
    values: Mapping[str, Any] = {**cluster.variables[role], "enabled": True, **variables}
    return replace(cluster, variables={**cluster.variables, role: values})


def of(desired: Desired, node: str, role: str) -> DesiredRole:
    return next(one for one in desired.nodes[node] if one.role == role)


def sysctls(desired: Desired, node: str) -> dict[str, str]:
    return {one.name: one.value for one in of(desired, node, "kernel_hardening").of(Sysctl)}


def sshd(desired: Desired, node: str) -> list[str]:
    (file,) = [one for one in of(desired, node, "hardening").of(File) if one.path == SSHD]
    return [line for line in desired.texts[str(file.digest)].splitlines() if not line.startswith("#")]


def test_nobody_is_hardened_who_did_not_ask(dgx: Cluster, compiled: Compiled) -> None:
    wanted = {one.role for node in compiled(dgx).nodes.values() for one in node}
    assert not wanted & {"hardening", "kernel_hardening"}


def test_processes_of_a_job_read_each_other_and_are_sampled_on_workers_alone(dgx: Cluster, compiled: Compiled) -> None:
    both = ("kernel.yama.ptrace_scope", "kernel.perf_event_paranoid")
    desired = compiled(chosen(dgx, "kernel_hardening"))
    worker, head = sysctls(desired, "gpu001"), sysctls(desired, "head01")
    assert [worker[name] for name in both] == ["0", "2"]
    assert [head[name] for name in both] == ["1", "3"]
    assert {name for name in worker if worker[name] != head[name]} == set(both)
    without = compiled(chosen(dgx, "kernel_hardening", shared_memory_copies=False, profilers=False))
    assert sysctls(without, "gpu001") == head


def test_several_adapters_in_a_subnet_are_answered(dgx: Cluster, compiled: Compiled) -> None:
    worker = sysctls(compiled(chosen(dgx, "kernel_hardening")), "gpu001")
    assert worker["net.ipv4.conf.all.rp_filter"] == worker["net.ipv4.conf.default.rp_filter"] == "2"


def test_containers_drivers_and_crash_dumps_go_on(dgx: Cluster, compiled: Compiled) -> None:
    for node in ("gpu001", "head01"):
        names = set(sysctls(compiled(chosen(dgx, "kernel_hardening")), node))
        assert not {
            name for name in names if "user" in name or "kexec" in name or "modules" in name or "forward" in name
        }


def test_the_kernel_has_these_parameters(dgx: Cluster, compiled: Compiled) -> None:
    names = set(sysctls(compiled(chosen(dgx, "kernel_hardening")), "gpu001")) - _OTHER_KERNELS
    assert {name for name in names if not Path("/proc/sys", *name.split(".")).is_file()} == set()


def test_sshd_takes_keys_alone(dgx: Cluster, compiled: Compiled) -> None:
    said = sshd(compiled(chosen(dgx, "hardening")), "gpu001")
    assert {"PermitRootLogin no", "PasswordAuthentication no", "KbdInteractiveAuthentication no"} <= set(said)
    # Users' tunnels to a notebook, and hpcforge's own way past a head.
    assert not [line for line in said if line.startswith(("AllowTcpForwarding", "MaxAuthTries", "MaxStartups"))]


def test_sshd_takes_what_the_blueprint_says(dgx: Cluster, compiled: Compiled) -> None:
    said = sshd(compiled(chosen(dgx, "hardening", passwords=True, x11=True)), "gpu001")
    assert {"PasswordAuthentication yes", "KbdInteractiveAuthentication yes", "X11Forwarding yes"} <= set(said)


def test_hpcforge_is_let_in_where_it_comes_as_root(dgx: Cluster, compiled: Compiled) -> None:
    root = replace(dgx, access=replace(dgx.access, user="root"))
    assert "PermitRootLogin prohibit-password" in sshd(compiled(chosen(root, "hardening")), "gpu001")
