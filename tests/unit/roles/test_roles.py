"""Every shipped role, on its own and on shipped blueprints."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections import Counter
from collections.abc import Callable

import pytest
from ClusterShell.NodeSet import NodeSet

from hpcforge.blueprint.hostlist import expand
from hpcforge.catalog import load_catalog
from hpcforge.cluster.model import Cluster, Names, OperatingSystem, Platform, PyTorch, Service
from hpcforge.kinds.directories import Directory
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired, DesiredRole
from hpcforge.plan.roles.role import Role, RoleError
from hpcforge.plan.secrets import is_public

Compiled = Callable[[Cluster], Desired]


def wanted(desired: Desired, node: str, role: str) -> DesiredRole:
    return next(one for one in desired.nodes[node] if one.role == role)


def text(desired: Desired, node: str, path: str) -> str:
    files = [file for one in desired.nodes[node] for file in one.of(File) if file.path == path]
    assert len(files) == 1, f"{path} is wanted {len(files)} times on {node}"
    return desired.texts[str(files[0].digest)]


def settings(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split())


def slurm_conf(desired: Desired, cluster: Cluster) -> str:
    return text(desired, cluster.slurm.controller, "/etc/slurm/slurm.conf")


def node_lines(desired: Desired, cluster: Cluster) -> list[dict[str, str]]:
    lines = slurm_conf(desired, cluster).splitlines()
    return [settings(line) for line in lines if line.startswith("NodeName=")]


def test_every_role_says_what_it_is_for(roles: tuple[Role, ...]) -> None:
    assert roles
    for role in roles:
        assert role.spec.description.endswith("."), role.name


def test_the_rehearsal_runs_every_role_but_those_of_login_nodes_and_fabrics(
    roles: tuple[Role, ...], rehearsal: Cluster, compiled: Compiled
) -> None:
    there = {wanted.role for wanteds in compiled(rehearsal).nodes.values() for wanted in wanteds}
    for_what_it_lacks = {"slurm_client"}
    of_cluster = (
        "services|storage|homes|file_systems|collectives|nvidia|amd|interfaces|container_runtimes|frameworks"
        "|slurm[.](?:ssh|private_tmp|reservations)"
    )
    lacked = f"cluster[.](?:{of_cluster})|vars[.]|[.]fabrics|gpus[.](?:model|mig)"
    for_what_it_lacks |= {role.name for role in roles if re.search(lacked, role.spec.on)}
    assert {role.name for role in roles} - there <= for_what_it_lacks
    assert {"slurm_client", "lldp"}.isdisjoint(there)


def test_no_path_is_wanted_twice_on_a_node(cluster: Cluster, compiled: Compiled) -> None:
    for node, wanteds in compiled(cluster).nodes.items():
        paths = Counter(file.path for wanted in wanteds for file in wanted.of(File))
        assert not [path for path, count in paths.items() if count > 1], node
        assert all(path.startswith("/") for path in paths)


def test_shell_in_checks_is_well_formed(cluster: Cluster, compiled: Compiled) -> None:
    scripts = {
        check.command[2]
        for wanteds in compiled(cluster).nodes.values()
        for wanted in wanteds
        for check in wanted.checks
        if check.command[:2] == ("sh", "-c")
    }
    assert scripts
    for script in scripts:
        subprocess.run(["sh", "-n", "-c", script], check=True)


def test_only_secrets_and_private_folders_are_closed(cluster: Cluster, compiled: Compiled) -> None:
    for wanteds in compiled(cluster).nodes.values():
        for wanted in wanteds:
            for file in wanted.of(File):
                assert int(file.mode, 8) & 0o022 == 0, f"{file.path}: others may write"
                # what is derived from the host authority is for everybody to read
                closed = file.secret is not None and not is_public(file.secret)
                assert (file.mode == "0400") == closed, file.path


def test_every_name_in_slurm_conf_is_one_of_that_release(cluster: Cluster, compiled: Compiled) -> None:
    text = slurm_conf(compiled(cluster), cluster)
    [slurm] = re.findall(r"^# Written by hpcforge .*, for Slurm (\S+)[.]$", text, flags=re.MULTILINE)
    written = set(re.findall(r"^(\w+)=", text, flags=re.MULTILINE))
    assert len(written) > 20
    assert {name for name in written if not load_catalog().slurm[slurm].knows(name)} == set()


def test_slurm_is_not_asked_to_find_gpus_by_itself(cluster: Cluster, compiled: Compiled) -> None:
    """A Slurm that was built without NVML would find none, and call the node invalid."""
    assert "\nAutoDetect=off\n" in text(compiled(cluster), cluster.slurm.controller, "/etc/slurm/gres.conf")


def test_slurm_counts_what_is_declared_less_the_reserve(cluster: Cluster, compiled: Compiled) -> None:
    lines = node_lines(compiled(cluster), cluster)
    seen = {}
    for line in lines:
        for name, address in zip(expand(line["NodeName"]), expand(line["NodeAddr"]), strict=True):
            seen[name] = line
            node = cluster.by_name[name]
            assert address == node.address
            assert int(line["RealMemory"]) == node.memory_mib - node.reserve_memory_mib
            cpus = int(line["Sockets"]) * int(line["CoresPerSocket"]) * int(line["ThreadsPerCore"])
            assert cpus == node.cpus
            assert int(line.get("CoreSpecCount", "0")) == node.reserve_cores
            gpus = node.gpus
            types = gpus.types if gpus and gpus.mig else [(gpus.model, gpus.count)] if gpus else []
            told = [f"gpu:{type_}:{count}" for type_, count in types]
            told += [f"shard:{sum(gpus.shards)}"] if gpus and gpus.shards else []
            assert line.get("Gres", "") == ",".join(told)
    assert set(seen) == {node.name for node in cluster.workers}


def test_jobs_that_can_never_run_are_refused(rehearsal: Cluster, compiled: Compiled) -> None:
    def said(*settings: tuple[str, str]) -> list[str]:
        cluster = dataclasses.replace(rehearsal, slurm=dataclasses.replace(rehearsal.slurm, settings=settings))
        lines = slurm_conf(compiled(cluster), cluster).splitlines()
        return [line for line in lines if line.lower().startswith("enforcepartlimits")]

    assert said() == ["EnforcePartLimits=ALL"]
    assert said(("EnforcePartLimits", "ANY")) == ["EnforcePartLimits=ANY"]  # the site's word
    assert said(("Enforcepartlimits", "NO")) == ["Enforcepartlimits=NO"]


def test_gres_names_as_many_devices_as_slurm_conf_counts(cluster: Cluster, compiled: Compiled) -> None:
    conf = text(compiled(cluster), cluster.slurm.controller, "/etc/slurm/gres.conf")
    lines = [settings(line) for line in conf.splitlines() if line.startswith("NodeName=")]
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        for name in expand(line["NodeName"]):
            is_one = "MultipleFiles" in line
            what = line.get("Type", line["Name"])  # what jobs share has its type from its file
            each = int(line.get("Count", 1 if is_one else len(NodeSet(line["File"]))))
            counts.setdefault(name, Counter())[what] += each
    told = {line["NodeName"]: line["Gres"] for line in node_lines(compiled(cluster), cluster) if "Gres" in line}
    for names, gres in told.items():
        pairs = [word.rpartition(":") for word in gres.split(",")]
        said = Counter({kind.removeprefix("gpu:"): int(count) for kind, _, count in pairs})
        assert all(counts[name] == said for name in expand(names))
    whole = [line for line in lines if line["Name"] == "gpu" and "File" in line]
    devices = {name: line["File"] for line in whole for name in expand(line["NodeName"])}
    assert {name for names in told for name in expand(names)} == {node.name for node in cluster.workers if node.gpus}
    for node in cluster.workers:
        if node.gpus is None or node.gpus.mig:
            continue
        assert tuple(NodeSet(devices[node.name])) == node.gpus.devices


def test_one_gpu_needs_no_range(rehearsal: Cluster, compiled: Compiled) -> None:
    nodes = tuple(
        dataclasses.replace(node, gpus=node.gpus and dataclasses.replace(node.gpus, count=1))
        for node in rehearsal.nodes
    )
    conf = text(compiled(dataclasses.replace(rehearsal, nodes=nodes)), "head", "/etc/slurm/gres.conf")
    assert "File=/dev/fakegpu0\n" in conf


def test_nodes_that_differ_get_lines_of_their_own(rehearsal: Cluster, compiled: Compiled) -> None:
    nodes = tuple(
        dataclasses.replace(node, memory_mib=node.memory_mib * 2) if node.name == "w02" else node
        for node in rehearsal.nodes
    )
    changed = dataclasses.replace(rehearsal, nodes=nodes)
    lines = node_lines(compiled(changed), changed)
    assert [(line["NodeName"], line["NodeAddr"].rpartition(".")[2]) for line in lines] == [
        ("w01", "11"),
        ("w03", "13"),
        ("w02", "12"),
    ]


def test_slurms_dialect_follows_its_version(rehearsal: Cluster, compiled: Compiled) -> None:
    newer = dataclasses.replace(rehearsal, os=OperatingSystem("debian", "13", "3.13", "24.11", "2.41", "10.0"))
    old, new = slurm_conf(compiled(rehearsal), rehearsal), slurm_conf(compiled(newer), newer)
    assert "CryptoType=crypto/munge" in old
    assert "CredType" not in old
    assert "CredType=cred/munge" in new
    assert "CryptoType" not in new
    assert "CgroupPlugin=disabled" in text(compiled(newer), "head", "/etc/slurm/cgroup.conf")
    assert "CgroupPlugin" not in text(compiled(rehearsal), "head", "/etc/slurm/cgroup.conf")


def test_all_nodes_are_handed_what_suits_the_oldest_slurm(rehearsal: Cluster, compiled: Compiled) -> None:
    """A slurmd of 24.11 refuses a slurm.conf with NamespaceType, and one of 26.05 takes both."""
    new = OperatingSystem("debian", "14", "3.14", "26.05", "2.43", "10.6", suite="forky")
    old = dataclasses.replace(new, release="13", python="3.13", slurm="24.11", suite="trixie")
    slurm = dataclasses.replace(rehearsal.slurm, private_tmp="/scratch/tmp")
    upgraded = dataclasses.replace(rehearsal, os=new, slurm=slurm)
    conf = slurm_conf(compiled(upgraded), upgraded)
    assert "NamespaceType=namespace/tmpfs\n" in conf
    assert "HealthCheckTimeout=59\n" in conf
    assert "JobContainerType" not in conf

    platforms = {"w02": Platform(old, rehearsal.pytorch)}
    nodes = [
        dataclasses.replace(n, platform=platforms.get(n.name, Platform(new, rehearsal.pytorch))) for n in upgraded.nodes
    ]
    mixed = dataclasses.replace(upgraded, nodes=tuple(nodes))
    desired = compiled(mixed)
    conf = slurm_conf(desired, mixed)
    assert "JobContainerType=job_container/tmpfs\n" in conf
    assert "for Slurm 26.05" in conf
    assert "NamespaceType" not in conf
    assert "HealthCheckTimeout" not in conf


def test_a_package_that_the_release_lacks_is_named_with_the_reason(rehearsal: Cluster, compiled: Compiled) -> None:
    names = Names(lacks={"chrony": "it left testing"})
    without = dataclasses.replace(rehearsal, os=dataclasses.replace(rehearsal.os, release="14", names=names))
    with pytest.raises(RoleError, match="debian 14 lacks the package chrony: it left testing"):
        compiled(without)


def test_what_is_declared_is_never_taken_on_trust(cluster: Cluster, compiled: Compiled) -> None:
    assert "config_overrides" not in slurm_conf(compiled(cluster), cluster)


def test_partitions_and_nodes_have_what_the_site_sets(rehearsal: Cluster, compiled: Compiled) -> None:
    [main] = rehearsal.slurm.partitions
    high = dataclasses.replace(main, name="High.Prio", settings=(("PriorityTier", "20"), ("DefMemPerCPU", "77")))
    nodes = tuple(
        dataclasses.replace(node, features=("ib", "GEN:2"), weight=7) if node.name == "w02" else node
        for node in rehearsal.nodes
    )
    slurm = dataclasses.replace(rehearsal.slurm, partitions=(main, high))
    site = dataclasses.replace(rehearsal, nodes=nodes, slurm=slurm)
    one, two = [line for line in slurm_conf(compiled(site), site).splitlines() if line.startswith("PartitionName=")]
    assert "PriorityTier" not in one
    assert settings(one)["DefMemPerCPU"] != "77"
    assert two.startswith("PartitionName=High.Prio ")
    assert two.count("DefMemPerCPU=") == 1
    assert {**settings(two), "PriorityTier": "20", "DefMemPerCPU": "77"} == settings(two)
    lines = {line["NodeName"]: (line.get("Feature"), line.get("Weight")) for line in node_lines(compiled(site), site)}
    assert lines.pop("w02") == ("ib,GEN:2", "7")
    assert set(lines.values()) == {(None, None)}


def test_enforcement_is_what_the_blueprint_says(rehearsal: Cluster, compiled: Compiled) -> None:
    assert "proctrack/linuxproc" in slurm_conf(compiled(rehearsal), rehearsal)
    strict = dataclasses.replace(rehearsal, slurm=dataclasses.replace(rehearsal.slurm, enforce=("cores", "gpus")))
    assert "TaskPlugin=task/cgroup,task/affinity" in slurm_conf(compiled(strict), strict)
    cgroup = text(compiled(strict), "head", "/etc/slurm/cgroup.conf").splitlines()
    assert cgroup[1:] == ["ConstrainCores=yes", "ConstrainRAMSpace=no", "ConstrainSwapSpace=no", "ConstrainDevices=yes"]


def test_a_python_without_wheels_gets_the_distributions_torch(rehearsal: Cluster, compiled: Compiled) -> None:
    packaged = dataclasses.replace(rehearsal, pytorch=PyTorch("2.6.0", "distribution", ()))
    role = wanted(compiled(packaged), "w01", "pytorch")
    assert role.packages == ("python3-torch",)
    assert role.of(File) == ()
    assert role.checks[0].command[0] == "/usr/bin/python3"
    assert not wanted(compiled(packaged), "head", "depot").checks


def test_services_that_the_site_has_run_on_no_node(rehearsal: Cluster, compiled: Compiled) -> None:
    outside = {"dns": Service(external=("192.0.2.2",)), "time": Service(external=("ntp.example.org",))}
    services = {**rehearsal.services, **outside}
    desired = compiled(dataclasses.replace(rehearsal, services=services))
    for node, wanteds in desired.nodes.items():
        assert not {"dns_server", "time_server"} & {wanted.role for wanted in wanteds}
        assert "nameserver 192.0.2.2\n" in text(desired, node, "/etc/resolv.conf")
        assert "server ntp.example.org iburst\n" in text(desired, node, "/etc/chrony/chrony.conf")


def test_nothing_that_root_writes_is_a_users(rehearsal: Cluster, compiled: Compiled) -> None:
    """Neither where a user could move it nor as a user's own: keys, too, are root's."""
    users = tuple(dataclasses.replace(user, keys=("ssh-ed25519 AAAA one",)) for user in rehearsal.users)
    names = {user.name for user in users}
    for roles in compiled(dataclasses.replace(rehearsal, users=users)).nodes.values():
        for role in roles:
            for one in (*role.of(File), *role.of(Directory)):
                assert not one.path.startswith(tuple(user.home for user in users)), one.path
                assert one.owner not in names, one.path
    keys = {
        file.path for file in wanted(compiled(dataclasses.replace(rehearsal, users=users)), "head", "users").of(File)
    }
    assert {f"/etc/ssh/authorized_keys.d/{name}" for name in names} <= keys


def test_a_role_that_could_lock_hpcforge_out_is_guarded(roles: tuple[Role, ...]) -> None:
    ways_in = ("/etc/ssh/sshd", "/etc/ssh/authorized_keys", "/etc/sudoers")
    by_role = {
        role.name: role.spec.auto_rollback for role in roles for f in role.spec.files if f.path.startswith(ways_in)
    }
    assert by_role == {"directory_keys": True, "hardening": True, "ssh_limits": True, "ssh_trust": True, "users": True}
