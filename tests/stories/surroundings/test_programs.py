"""What the controller, the name server and the depot are told, taken by the real programs of both releases."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.kinds.files import File
from hpcforge.lab.names import machine_name, tag_for
from hpcforge.lab.state import others
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from tests.stories.fabric.conftest import Nodes, start  # noqa: F401  a fixture

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: closed
domain: closed.example.org
access: {user: ops}
nodes:
  head: {functions: [head, login], hardware: rehearsal-node}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, addresses: "LOW.[41-42]"}
networks:
  mgmt: {cidr: LOW.0/23, nodes: all}
services: {dns: {on: head, forward: [192.0.2.53]}, time: {on: head}, depot: {on: head}}
software: {os: {name: debian, release: "RELEASE"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: [memory]
  partitions: {main: {nodes: all, default: true}}
users: {ada: {uid: 2001}}
"""
STRANGER = "198.51.100.7"  # an address of the head's own that is not of the cluster's network

# A question for head.closed.example.org, asked from one address of another; the number of answers, or the error.
ASK_NAME = """
import socket, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.bind((sys.argv[1], 0)); asking.settimeout(float(sys.argv[3]))
name = b"".join(bytes([len(word)]) + word for word in (b"head", b"closed", b"example", b"org")) + b"\\0"
asking.sendto(b"\\1\\2\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + b"\\0\\1\\0\\1", (sys.argv[2], 53))
try: print(asking.recv(512)[7])
except OSError as error: print(type(error).__name__)
"""
ASK_FILE = """
import http.client, sys, time
until = time.monotonic() + 60
while True:
    asking = http.client.HTTPConnection(sys.argv[2], 80, timeout=30, source_address=(sys.argv[1], 0))
    try: asking.request("GET", "/wheels/a.whl"); break
    except ConnectionRefusedError:  # systemd takes lighttpd for started before it listens
        if time.monotonic() > until: raise
        time.sleep(0.1)
print(asking.getresponse().status)
"""


@pytest.fixture(scope="module", params=["12", "13"])
def head(request: pytest.FixtureRequest, start: Callable[..., Nodes]) -> Nodes:  # noqa: F811
    """A node whose systemd may load filters into the kernel, as on a machine; those of a rehearsal may not."""
    what = f"closed{'abc'[int(request.param) - 12]}"
    lab = f"test-{what}-{os.getpid()}"
    # By the tags that are taken: names that end in the same four hexadecimal digits share the first.
    machine = machine_name(tag_for(lab, [other.tag for other in others(lab)]), "head")
    settings = Path("/run/systemd/nspawn") / f"{machine}.nspawn"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text("[Exec]\nSystemCallFilter=bpf\n")
    try:
        nodes = start(what, "head", release=request.param)
    finally:
        settings.unlink()
    nodes.install("head", "slurmctld", "slurm-client", "munge", "dnsmasq", "lighttpd", "python3")
    return nodes


def written(head: Nodes, folder: Path, *roles: str) -> str:
    """Write the files that roles want on the head; its address."""
    path = folder / "closed.yaml"
    low = head.lab.cidr.rpartition(".")[0]
    path.write_text(BLUEPRINT.replace("RELEASE", head.lab.release).replace("LOW", low))
    cluster = load(path, head.lab.inventory).cluster
    desired = compile_desired(cluster, load_roles(bundled.root() / "roles"), {"munge_key": None})
    for file in (file for node in desired.nodes["head"] if node.role in roles for file in node.of(File)):
        head.write("head", file.path, desired.texts[str(file.digest)])
    head.run("head", f"systemctl daemon-reload; ip address replace {STRANGER}/32 dev lo")
    return cluster.by_name["head"].address


def test_slurm_takes_what_it_is_told(head: Nodes, tmp_path: Path) -> None:
    written(head, tmp_path, "slurm_controller")
    said = head.run(
        "head",
        "install -d -o slurm -g slurm /var/lib/slurm/slurmctld /var/log/slurm && systemctl restart munge slurmctld && "
        "for i in $(seq 400); do scontrol ping | grep -q 'is UP' && break; sleep 0.2; done; scontrol show config",
    )
    config = dict(re.findall(r"^(\w+) += *(.*?) *$", said, re.MULTILINE))
    assert config["SrunPortRange"] == "61000-64999"
    assert config["DisableRootJobs"].lower() == "yes"
    assert config["ConstrainSwapSpace"].lower() == config["ConstrainRAMSpace"].lower() == "yes"
    log = head.run("head", "cat /var/log/slurm/slurmctld.log; journalctl -u slurmctld -o cat")
    assert not re.findall(r".*(?:[Pp]arsing error|[Uu]nrecognized|deprecated|fatal).*", log)
    head.run("head", "id ada 2>/dev/null || useradd -m ada")
    root, ada = (head.run("head", f"{become} srun -N1 --immediate=1 true 2>&1", check=False)
                 for become in ("", "runuser -u ada --"))  # fmt: skip
    assert "Invalid user id" in root
    assert "srun: error" in ada and "Invalid user id" not in ada  # no worker is there to run it


def test_names_are_for_the_cluster(head: Nodes, tmp_path: Path) -> None:
    address = written(head, tmp_path, "dns_server")
    head.run("head", "systemctl restart dnsmasq")
    assert head.run("head", f"python3 - {address} {address} 30", ASK_NAME) == "1\n"
    told = head.run("head", "systemctl show -p IPAddressDeny -p IPAddressAllow dnsmasq")
    assert "IPAddressDeny=0.0.0.0/0 ::/0\n" in told or "IPAddressDeny=::/0 0.0.0.0/0\n" in told
    assert head.lab.cidr in told
    assert head.run("head", f"python3 - {STRANGER} {address} 2", ASK_NAME) == "TimeoutError\n"
    assert head.run("head", "python3 - 127.0.0.1 127.0.0.1 30", ASK_NAME) == "1\n"


def test_wheels_are_for_the_cluster(head: Nodes, tmp_path: Path) -> None:
    address = written(head, tmp_path, "depot")
    head.run("head", "mkdir -p /srv/hpcforge/depot/wheels && echo x > /srv/hpcforge/depot/wheels/a.whl")
    head.run("head", "systemctl restart lighttpd")
    assert head.run("head", f"python3 - {address} {address}", ASK_FILE) == "200\n"
    assert head.run("head", f"python3 - {STRANGER} {address}", ASK_FILE) == "403\n"
