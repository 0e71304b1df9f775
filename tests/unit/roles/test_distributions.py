"""A distribution is one file: what roles make of it, and that none of Debian's names is left where it has its own."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.catalog.distribution import Distributions
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster, Names, OperatingSystem
from hpcforge.kinds import PACKAGE_MANAGERS
from hpcforge.kinds.directories import Directory
from hpcforge.kinds.files import File
from hpcforge.kinds.holds import Hold
from hpcforge.kinds.links import Link
from hpcforge.kinds.memberships import Membership
from hpcforge.kinds.pins import Pin
from hpcforge.kinds.timers import Timer
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Check, Desired, DesiredRole, KeptPath, Restart, Unit
from hpcforge.plan.roles.localize import localize
from hpcforge.plan.roles.role import Role
from tests.unit.roles.goldens import texts

HERE = Path(__file__).parent / "distributions"
SMALL = """\
schema: 1
name: small
domain: small.example.org
access: {{user: ops}}
nodes:
  head: {{functions: [head, login], hardware: rehearsal-node, addresses: 10.0.0.1}}
  w[1-2]: {{functions: [worker], hardware: rehearsal-node, gpus: {{model: fake, count: 2}}, addresses: "10.0.0.[2-3]"}}
networks: {{lan: {{cidr: 10.0.0.0/24}}}}
services: {{dns: {{on: head}}, time: {{on: head}}, syslog: {{on: head}}, depot: {{on: head}}}}
software: {{os: {{name: {name}, release: "{release}"}}}}
slurm: {{controller: head, partitions: {{main: {{nodes: all, default: true}}}}}}
users: {{ada: {{uid: 2001, admin: true}}}}
"""
MADE_UP = Distributions(HERE)["made-up", "1"]
NAMES = Names(MADE_UP.packages, MADE_UP.units, MADE_UP.paths, MADE_UP.accounts)
OS = OperatingSystem("made-up", "1", MADE_UP.python, MADE_UP.slurm, MADE_UP.libc, MADE_UP.openssh, NAMES)
SHIPPED = load_catalog().distributions
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
Compiled = Callable[[Cluster], Desired]


def on(name: str, release: str) -> Cluster:
    """A small cluster of a distribution."""
    path = HERE / "small.yaml"
    cluster = load(path, instead={path: SMALL.format(name=name, release=release)}).cluster
    nodes = tuple(dataclasses.replace(node, host_keys=(KEY,)) for node in cluster.nodes)
    users = tuple(dataclasses.replace(user, keys=(KEY,)) for user in cluster.users)
    return dataclasses.replace(cluster, nodes=nodes, users=users)


def whole(desired: Desired) -> list[str]:
    return [line for role, name, text in texts(desired) for line in (f"*** {role}: {name}", *text.splitlines())]


@pytest.mark.parametrize("key", [key for key in SHIPPED if key != ("debian", "12")], ids="-".join)
def test_what_differs_from_debian_12_is_as_recorded(
    key: tuple[str, str], compiled: Compiled, golden: Callable[[Path, str], None]
) -> None:
    """A distribution's file is enough; `pytest tests/unit/roles --refresh-golden` writes what to read."""
    if SHIPPED[key].package_manager not in PACKAGE_MANAGERS:
        pytest.skip("refused by `validate`: the node program has no such package manager")
    reference, other = whole(compiled(on("debian", "12"))), whole(compiled(on(*key)))
    different = difflib.unified_diff(reference, other, "debian-12", "-".join(key), lineterm="", n=1)
    lines = ("@@" if line.startswith("@@") else line for line in different)  # which line it is does not matter
    golden(HERE / f"{'-'.join(key)}.diff", "".join(f"{line}\n" for line in lines))


def _for_the_node(wanted: DesiredRole) -> dict[str, Any]:
    plain = wanted.plain()
    return {**plain, "checks": [{**one, "name": ""} for one in plain["checks"]]}  # in words, for people


def left(desired: Desired) -> Iterator[str]:
    """Each of Debian's names for which the distribution has its own, where one is."""
    wanted = {id(one): one for several in desired.nodes.values() for one in several}.values()
    declared = [(one.role, json.dumps(_for_the_node(one))) for one in wanted]
    texts = [("text", text) for text in desired.texts.values()]
    for name in (*NAMES.units, *NAMES.paths):
        found = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])")
        yield from (f"{name} in {where}: {text}" for where, text in (*declared, *texts) if found.search(text))
    for one in wanted:
        yield from (f"{name} in {one.role}" for name in (*one.packages, *one.replaces) if name in NAMES.packages)
        owners = [
            who for each in one.resources if isinstance(each, File | Directory) for who in (each.owner, each.group)
        ]
        yield from (f"{who} in {one.role}" for who in owners if who in NAMES.accounts)
    yield from (f"{name} in {text}" for name in ("www-data", "adm") for _, text in texts if f'"{name}"' in text)


def test_none_of_debians_names_is_left(cluster: Cluster, compiled: Compiled) -> None:
    assert list(left(compiled(cluster)))  # it would be seen
    chosen = {
        role: {**values, "defaults": ()} if role == "lmod" else values for role, values in cluster.variables.items()
    }
    other = dataclasses.replace(cluster, os=OS, variables=chosen)  # modules of other releases have other names
    assert list(left(compiled(other))) == []


def test_none_is_left_of_sshs_either(compiled: Compiled) -> None:
    small = on("debian", "12")  # whose host keys are known, and whose users have keys
    assert any(one.startswith("ssh.service") for one in left(compiled(small)))
    assert list(left(compiled(dataclasses.replace(small, os=OS)))) == []


@pytest.fixture(scope="module")
def made_up(roles: tuple[Role, ...]) -> Callable[[str, str], DesiredRole]:
    desired = compile_desired(dataclasses.replace(on("debian", "12"), os=OS), roles, {"munge_key": None})
    return lambda node, role: next(one for one in desired.nodes[node] if one.role == role)


def paths(wanted: DesiredRole) -> list[str]:
    return [file.path for file in wanted.of(File)]


def test_all_of_a_role_has_the_other_names(made_up: Callable[[str, str], DesiredRole]) -> None:
    time = made_up("w1", "time")
    conf, drop_in = "/etc/chronyd.conf", "/etc/systemd/system/chronyd.service.d/hpcforge.conf"
    assert (time.packages, time.replaces, paths(time)) == (("time-chrony",), (), [conf, drop_in])
    assert time.units == (Unit("chronyd.service", (conf, drop_in)),)

    syslog = made_up("w1", "syslog")
    assert syslog.packages == ("syslog-core", "syslog-tcp", "rsyslog-openssl", "nftables")
    watched = ("/etc/syslog-core/hpcforge.conf", "/etc/hpcforge/syslog_authority.pem")
    assert syslog.units[1:] == (Unit("syslog-core.service", watched),)
    server = made_up("head", "syslog_server")
    assert server.of(Directory) == (Directory("/var/log/cluster", "0750", "root", "loggers"),)
    assert server.units[1].refresh[0][-1] == "syslog-core.service"

    compute = made_up("w1", "slurm_compute")
    drop_in = "/etc/systemd/system/slurm-node.service.d/hpcforge.conf"
    assert (compute.packages, paths(compute)) == (("slurm",), [drop_in])
    assert compute.units == (Unit("slurm-node.service", (drop_in,)),)
    assert compute.leaves == (
        KeptPath("/var/db/slurmd/slurmd", "what slurmd kept of jobs"), KeptPath("/var/log/batch", "what Slurm logged"),
    )  # fmt: skip
    fake = made_up("w1", "gpu_fake")
    assert fake.restarts == (Restart("slurm-node.service", ("/etc/tmpfiles.d/hpcforge-fakegpu.conf",)),)


def test_commands_and_what_is_reread_have_them_too(made_up: Callable[[str, str], DesiredRole]) -> None:
    controller = made_up("head", "slurm_controller")
    assert [reread.path for reread in controller.units[0].rereads] == [
        "/etc/slurm-conf/slurm.conf", "/etc/slurm-conf/gres.conf", "/etc/slurm-conf/cgroup.conf",
    ]  # fmt: skip
    assert controller.of(Directory) == (Directory("/srv/slurm-state", "0700", "batch", "batch"),)
    users = made_up("head", "users")
    sudo = "sudo accepts the administrators' file"
    assert Check(sudo, ("visudo", "-c", "-f", "/etc/sudo.d/hpcforge_admins"), None, 0) in users.checks
    assert users.units[0].refresh == (("systemctl", "reload", "sshd.service"),)
    assert users.checks[-1].stdout == "(?i)^authorizedkeysfile .*/etc/sshd/authorized_keys[.]d/%u"
    assert next(file for file in users.of(File) if file.verify).verify == ("/sbin/sshd-server", "-t", "-f", "{file}")


def test_a_path_goes_with_the_longest_that_is_declared() -> None:
    assert OS.path("/var/lib/slurm/slurmctld/state") == "/srv/slurm-state/state"
    assert OS.path("/var/lib/slurm/slurmd") == "/var/db/slurmd/slurmd"
    assert OS.path("/var/lib/slurm-other") == "/var/lib/slurm-other"
    assert OS.path("/etc/systemd/system/ssh.service") == "/etc/systemd/system/sshd.service"
    assert OS.path("/etc/motd") == "/etc/motd"


def test_each_kind_says_what_its_fields_name() -> None:
    assert localize(Membership("slurm:adm"), OS) == Membership("batch:loggers")
    assert localize(Hold("munge"), OS) == Hold("munge-daemon")
    assert localize(Pin("all", ("rsyslog", "munge"), "release n=x", 9), OS).packages == (
        "syslog-core", "syslog-tcp", "munge-daemon",
    )  # fmt: skip
    timer = localize(Timer("t", ("/usr/sbin/sshd", "-t", "ssh.service"), "daily", "slurm"), OS)
    assert timer == Timer("t", ("/sbin/sshd-server", "-t", "sshd.service"), "daily", "batch")
    assert localize(Link("/etc/slurm/x", "/etc/ssh"), OS) == Link("/etc/slurm-conf/x", "/etc/sshd")


def test_what_is_for_one_package_takes_no_two() -> None:
    with pytest.raises(ValueError, match="rsyslog must be one package in made-up 1, not syslog-core and syslog-tcp"):
        localize(Hold("rsyslog"), OS)
    with pytest.raises(ValueError, match="systemd-timesyncd must be one package in made-up 1, not none"):
        localize(Hold("systemd-timesyncd"), OS)
