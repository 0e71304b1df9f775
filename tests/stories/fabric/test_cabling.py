"""Cables seen by the real programs: ibnetdiscover on a simulated fabric (ibsim), lldpd between nodes and a switch."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.design.fabric.cable_index import CableEnds, Drawn, PortName
from hpcforge.kinds.files import File
from hpcforge.lab.nspawn import machines as lab_machines
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from tests.stories.fabric.conftest import Nodes
from tests.support.as_plugged import exchanged, swapped
from tests.support.as_told import ibsim
from tests.unit.design.fabric.test_verify_cabling import BLUEPRINT, verify

pytestmark = pytest.mark.lab
MACHINES = ("n1", "n2", "n3", "s1", "s2")

WIRED = """
schema: 1
name: wired
domain: wired.example.org
access: {user: ops}
nodes:
  n1: {functions: [head], hardware: wired-node}
  n[2-3]: {functions: [worker], hardware: wired-node}
hardware:
  wired-node: {like: rehearsal-node, ports: [{count: 2, rate_gbps: 10, kind: ethernet}]}
fabrics:
  inband: {kind: ethernet, rate_gbps: 1, topology: leaf-pair, switch: sn2201, peer_links: 2}
networks:
  mgmt: {cidr: 10.78.0.0/23, fabric: inband}
services: {dns: {on: n1}, time: {on: n1}}
software: {os: {name: debian, release: "12"}}
slurm: {controller: n1, reserve: {cores: 0, memory_gib: 1}, partitions: {main: {nodes: all, default: true}}}
users: {ada: {uid: 2001}}
"""


@pytest.fixture(scope="module")
def fabric_node(start: Callable[..., Nodes]) -> Nodes:
    nodes = start("ibsim", "n1")
    nodes.install("n1", "ibsim-utils", "infiniband-diags")
    return nodes


@pytest.mark.parametrize("fault", ["clean", "swap", "exchanged", "dead"])
def test_ibnetdiscover(fabric_node: Nodes, fault: str, tmp_path: Path) -> None:
    loaded = load(BLUEPRINT)
    compute = loaded.fabrics[0]
    design = Drawn.of([loaded.cables[0].labels])
    rail = PortName("gpu007", "compute rail 2")
    links = {
        "clean": design.links,
        "swap": swapped(design.links, rail, PortName("gpu007", "compute rail 3")),
        "exchanged": exchanged(design.links, "gpu004", "gpu036"),
        "dead": [link for link in design.links if link.a != rail],
    }[fault]
    fabric_node.write("n1", "/tmp/fabric", ibsim(compute, links))
    # -s starts at once; ibsim reads commands from its standard input, so that has to stay open
    text = fabric_node.run(
        "n1",
        "cd /tmp; rm -f commands; mkfifo commands; ibsim -s fabric < commands > ibsim.log 2>&1 & pid=$!; "
        "exec 3> commands; for i in $(seq 50); do grep -q ready ibsim.log && break; sleep 0.2; done; "
        "SIM_HOST='gpu001 mlx5_0' ibsim-run ibnetdiscover 2> discover.log; kill $pid; wait $pid",
        check=False,
    )
    (tmp_path / "compute.ibnetdiscover").write_text(text)
    done = verify(tmp_path, "--json")
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert said["as_drawn"] == len(design.links) - {"clean": 0, "swap": 2, "exchanged": 8, "dead": 1}[fault]
    kinds = {"clean": [], "swap": ["swapped"], "exchanged": ["exchanged"], "dead": ["missing"]}[fault]
    assert [finding["kind"] for finding in said["findings"]] == kinds
    assert said["doubts"] == []
    assert said["unchecked"] == sum(link.a.device != "head" for link in Drawn.of([loaded.cables[1].labels]).links) + 2


class Switches:
    """A lab of nodes, and the two leaves of their fabric: machines of the same kind that run lldpd."""

    def __init__(self, nodes: Nodes, folder: Path) -> None:
        self.nodes, self.blueprint = nodes, folder / "wired.yaml"
        self.blueprint.write_text(WIRED)
        machines = yaml.safe_load(nodes.lab.inventory.read_text())
        machines["nodes"] = {name: machine for name, machine in machines["nodes"].items() if name[0] == "n"}
        self.inventory = folder / "inventory.yaml"  # the leaves are no nodes
        self.inventory.write_text(yaml.safe_dump(machines))
        self.loaded = load(self.blueprint, self.inventory)
        self.design = Drawn.of([self.loaded.cables[0].labels])
        self._numbers = itertools.count()

    def machine(self, device: str) -> str:
        return {"inband-leaf-001": "s1", "inband-leaf-002": "s2"}.get(device, device)

    def netns(self, device: str) -> str:
        pid = lab_machines._init(self.nodes.lab.machine(self.machine(device)))
        assert pid is not None
        return str(pid)

    def plug(self, links: Iterable[CableEnds]) -> None:
        """A pair of virtual interfaces for every cable; all that was plugged in before is taken out."""
        for name in MACHINES:
            self.nodes.run(
                name,
                "for i in $(ls /sys/class/net | grep -E '^(eno|swp)'); do ip link delete $i; done 2>/dev/null; true",
            )
        for link in links:
            pair = [f"t{self.nodes.lab.tag}{next(self._numbers)}" for _ in link]
            subprocess.run(["ip", "link", "add", pair[0], "type", "veth", "peer", "name", pair[1]], check=True)
            for port, interface in zip(link, pair, strict=True):
                number = port.name.rpartition(" ")[2]
                name = f"swp{number}" if "leaf" in port.device else f"eno{number}"
                pid = self.netns(port.device)
                subprocess.run(["ip", "link", "set", interface, "netns", pid, "name", name], check=True)
                subprocess.run(["nsenter", "-t", pid, "-n", "ip", "link", "set", name, "up"], check=True)

    def verify(self) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "hpcforge", "verify", str(self.blueprint), "--cabling"]
        argv += ["--inventory", str(self.inventory)]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)

    def settled(self, says: str, ends: str = "") -> subprocess.CompletedProcess[str]:
        """Ask until it says this, or time is up: neighbours are heard within seconds, and forgotten in time."""
        until = time.monotonic() + 180
        while True:
            done = self.verify()
            if (done.stdout.startswith(says) and done.stdout.endswith(ends)) or time.monotonic() > until:
                return done
            time.sleep(1)


@pytest.fixture(scope="module")
def switches(start: Callable[..., Nodes], tmp_path_factory: pytest.TempPathFactory) -> Switches:
    nodes = start("lldp", *MACHINES)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: nodes.install(name, "lldpd"), MACHINES))
    switches = Switches(nodes, tmp_path_factory.mktemp("wired"))
    desired = compile_desired(switches.loaded.cluster, load_roles(bundled.root() / "roles"), {"munge_key": None})
    for name in MACHINES:
        says = {"s1": "inband-leaf-001", "s2": "inband-leaf-002"}.get(name, "")
        for wanted in desired.nodes.get(name, ()):
            for file in wanted.of(File) if wanted.role == "lldp" else ():
                nodes.write(name, file.path, desired.texts[str(file.digest)])
        # By file: what lldpcli says to an lldpd that has just started, its own reading of these files may undo.
        quick = ["configure lldp tx-interval 1", "configure lldp tx-hold 5"]
        quick += [f"configure system hostname {says}"] if says else []
        nodes.write(name, "/etc/lldpd.d/test.conf", "\n".join(quick) + "\n")
        nodes.run(name, "systemctl start lldpd")
    return switches


def test_live_lldp(switches: Switches) -> None:
    """Asked over hpcforge's own connections, while cables are moved."""
    design = switches.design
    switches.plug(design.links)
    clean = "6 cables are as drawn, 2 not checked: neither end was queried\n"
    done = switches.settled(clean)
    assert (done.returncode, done.stdout) == (0, clean), done
    until = time.monotonic() + 60
    while True:  # what the role has nodes say: the design's names
        told = switches.nodes.run("s1", "lldpcli show neighbors")
        if all(f"{name}\n" in told for name in ("n1", "n2", "n3")) or time.monotonic() > until:
            break
        time.sleep(1)
    for name in ("n1", "n2", "n3"):
        assert re.search(rf"SysName: +{name}\n", told) and re.search(r"PortID: +ifname eno1\n", told), told

    switches.plug(swapped(design.links, PortName("n2", "inband link 1"), PortName("n2", "inband link 2")))
    others = "4 cables are as drawn, 2 not checked: neither end was queried: 2 things to do\n"
    done = switches.settled("swapped: the cables in n2 inband link ", others)
    assert done.returncode == 7, done
    assert done.stdout.endswith(others), done

    switches.plug([link for link in design.links if link.a != PortName("n3", "inband link 2")])
    dead = "missing: n3 inband link 2 -- inband-leaf-002 port 3 is not seen"
    done = switches.settled(dead, ": 1 thing to do\n")
    assert done.stdout.startswith(dead) and done.stdout.endswith(": 1 thing to do\n"), done

    switches.plug(exchanged(design.links, "n1", "n3"))
    both = "exchanged: n1 and n3 are exchanged: all 4 cables of the two"
    done = switches.settled(both, ": 1 thing to do\n")
    assert done.stdout.startswith(both) and done.stdout.endswith(": 1 thing to do\n"), done


def test_a_node_without_lldpd_is_named(switches: Switches) -> None:
    switches.plug(switches.design.links)
    assert switches.settled("6 cables are as drawn").returncode == 0
    switches.nodes.run("n2", "mv /usr/sbin/lldpctl /usr/sbin/lldpctl.away")
    try:
        done = switches.settled("not asked: n2: there is no lldpctl\n4 cables are as drawn, 4 not checked")
    finally:
        switches.nodes.run("n2", "mv /usr/sbin/lldpctl.away /usr/sbin/lldpctl")
    assert done.returncode == 5
    assert "not asked: n2: there is no lldpctl\n4 cables are as drawn, 4 not checked" in done.stdout, done.stdout
