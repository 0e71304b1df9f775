"""What the program of the role `networks` does with files of systemd-networkd, beside programs that say their calls."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge import bundled

PROGRAM = bundled.root() / "roles" / "networks" / "files" / "usr" / "sbin" / "hpcforge-networks"
BOND = """\
# Written by hpcforge.

== eth1.network
[Match]
Name=eth1

[Network]
Bond=bond1

== bond1.netdev
[NetDev]
Name=bond1
Kind=bond

[Bond]
Mode=active-backup

== bond1.network
[Match]
Name=bond1
"""


@dataclass(frozen=True)
class Node:
    """A folder that stands for a node's root."""

    root: Path

    def run(self, verb: str) -> subprocess.CompletedProcess[str]:
        """The program, with all its paths below the folder."""
        text = PROGRAM.read_text().replace('Path("/', f'Path("{self.root}/')
        env = {"PATH": f"{self.root}/bin:/usr/bin:/bin"}
        return subprocess.run([sys.executable, "-c", text, verb], env=env, capture_output=True, text=True, check=False)

    def apply(self, wanted: str) -> str:
        self.file("etc/hpcforge/networks", wanted)
        done = self.run("apply")
        assert done.returncode == 0, done.stderr
        return self.said()

    def file(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def program(self, name: str, answer: str) -> None:
        self.file(f"bin/{name}", f'#!/bin/sh\necho "{name} $*" >> {self.root}/said\n{answer}\n')
        (self.root / "bin" / name).chmod(0o755)

    def said(self) -> str:
        """What was called since this was last asked."""
        path = self.root / "said"
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text

    @property
    def files(self) -> dict[str, str]:
        folder = self.root / "etc" / "systemd" / "network"
        return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = Node(tmp_path)
    found.program("ip", "exit 0")
    found.program("networkctl", "exit 0")
    found.program("systemctl", '[ "$1" = is-active ] && exit 3; [ "$1" = is-system-running ] && echo running; exit 0')
    found.file("etc/systemd/network/10-lab.network", "[Match]\nName=eth0\n")
    return found


def test_what_is_wanted_lies_before_what_is_there(node: Node) -> None:
    said = node.apply(BOND)
    assert list(node.files) == [
        "05-hpcforge-bond1.netdev",
        "05-hpcforge-bond1.network",
        "05-hpcforge-eth1.network",
        "10-lab.network",
    ]
    assert node.files["05-hpcforge-eth1.network"] == "[Match]\nName=eth1\n\n[Network]\nBond=bond1\n"
    assert said.splitlines()[-2:] == [
        "systemctl enable --now --quiet systemd-networkd.service",
        "networkctl reload",
    ]


@pytest.mark.parametrize(
    ("wanted", "removed"),
    [
        (BOND, False),
        (BOND.replace("== bond1.network\n[Match]", "== bond1.network\n[Match]\n# other"), False),
        (BOND.replace("active-backup", "802.3ad"), True),
        ("== eth1.network\n[Match]\nName=eth1\n", True),
    ],
)
def test_a_bond_goes_where_its_file_is_another(node: Node, wanted: str, removed: bool) -> None:
    node.apply(BOND)
    node.file("sys/class/net/bond1/ifindex", "7\n")
    assert ("ip link delete bond1\n" in node.apply(wanted)) == removed
    assert ("05-hpcforge-bond1.netdev" in node.files) == ("bond1.netdev" in wanted)


def test_ports_go_into_a_bond_that_is_made_anew(node: Node) -> None:
    """networkd looks at an interface again where its file is another one, be it with the same text."""
    node.apply(BOND)
    node.file("sys/class/net/bond1/ifindex", "7\n")
    port, bond = (node.root / "etc/systemd/network" / f"05-hpcforge-{name}.network" for name in ("eth1", "bond1"))
    before = port.stat().st_ino, bond.stat().st_ino
    node.apply(BOND.replace("active-backup", "802.3ad"))
    assert port.stat().st_ino != before[0]
    assert bond.stat().st_ino == before[1]


def test_a_bond_is_made_anew_when_networkd_has_seen_the_old_one_go(node: Node) -> None:
    node.apply(BOND)
    node.file("sys/class/net/bond1/ifindex", "7\n")
    node.file("run/systemd/netif/links/7", "")
    node.program("ip", f"(sleep 0.5; rm {node.root}/run/systemd/netif/links/7) >/dev/null 2>&1 &")
    node.program("networkctl", f"[ ! -e {node.root}/run/systemd/netif/links/7 ]")
    node.apply(BOND.replace("active-backup", "802.3ad"))


def test_packets_grow_from_below_and_shrink_by_networkd(node: Node) -> None:
    wanted = BOND + "\n== bond1.20.network\n[Match]\nName=bond1.20\n\n[Link]\nMTUBytes={}\nRequiredForOnline=yes\n"
    for below, link in (("bond1", "bond1.20"), ("eth1", "bond1"), ("", "eth1")):
        node.file(f"sys/class/net/{link}/mtu", "8000\n")
        if below:
            (node.root / f"sys/class/net/{link}/lower_{below}").mkdir()
    assert "ip link" not in node.apply(wanted.format(8000))
    assert "ip link" not in node.apply(wanted.format(1500))
    assert node.apply(wanted.format(9000)).splitlines()[-4:] == [
        *(f"ip link set {link} mtu 9000" for link in ("eth1", "bond1", "bond1.20")),
        "networkctl reload",
    ]


def test_packets_that_a_card_does_not_take_change_nothing(node: Node) -> None:
    node.apply(BOND)
    before = node.files
    node.file("sys/class/net/eth1/mtu", "1500\n")
    node.program("ip", "echo Invalid argument; exit 2")
    node.file("etc/hpcforge/networks", BOND.replace("Name=eth1\n", "Name=eth1\n\n[Link]\nMTUBytes=9000\n"))
    done = node.run("apply")
    assert (done.returncode, node.files) == (1, before)
    assert done.stderr == "hpcforge-networks: `ip link set eth1 mtu 9000`: Invalid argument\n"


def test_a_stop_leaves_what_was_there_before(node: Node) -> None:
    node.apply(BOND)
    node.file("sys/class/net/bond1/ifindex", "7\n")
    node.said()
    assert node.run("remove").returncode == 0
    assert list(node.files) == ["10-lab.network"]
    assert node.said().splitlines()[-2:] == ["ip link delete bond1", "networkctl reload"]


def test_a_node_that_is_switched_off_keeps_its_networks(node: Node) -> None:
    node.apply(BOND)
    before = node.files
    node.program("systemctl", "echo stopping; exit 1")
    assert node.run("remove").returncode == 0
    assert node.files == before


def test_what_networkd_does_not_take_is_put_back(node: Node) -> None:
    node.apply(BOND)
    before = node.files
    node.program("networkctl", f"[ -e {node.root}/once ] || {{ touch {node.root}/once; echo no bus >&2; exit 1; }}")
    node.file("etc/hpcforge/networks", BOND.replace("eth1", "eth2"))
    done = node.run("apply")
    assert (done.returncode, done.stderr) == (1, "hpcforge-networks: `networkctl reload`: no bus\n")
    assert node.files == before


def test_interfaces_of_ifupdown_are_left_alone(node: Node) -> None:
    node.file("run/network/ifstate", "lo=lo\neth1=eth1\n")
    node.file("etc/hpcforge/networks", BOND)
    done = node.run("apply")
    assert (done.returncode, list(node.files)) == (1, ["10-lab.network"])
    assert "ifupdown has eth1" in done.stderr


def test_beside_networkmanager_nothing_is_changed(node: Node) -> None:
    node.program("systemctl", "exit 0")
    node.file("etc/hpcforge/networks", BOND)
    done = node.run("apply")
    assert (done.returncode, list(node.files)) == (1, ["10-lab.network"])
    assert "NetworkManager runs" in done.stderr
