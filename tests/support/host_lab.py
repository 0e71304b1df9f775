"""The nodes of a rehearsal that have faults planted, and hpcforge on them."""

from __future__ import annotations

import shlex
import subprocess
import time
from dataclasses import dataclass

from hpcforge.lab import lab as labs
from hpcforge.lab.nspawn import machines
from tests.support.host_faults import VERBS, HostFault, changes, named_after, printed_remedy, results
from tests.support.said import end_of
from tests.support.site import Site
from tests.support.subject_costs import PROGRAM, inspection, read_costs

MOST_CPU_S = 0.1  # of a subject, on a node
NODES = ("head", "w01", "w02", "w03")
_INSIDE = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8"

# What must be equal before a fault and after its remedy. Left out: what a node writes by itself.
_STATE = r"""
find /etc /usr/local -xdev \( -type f -o -type l \) ! -name '*-' ! -path '/etc/ssh/*-cert.pub' ! -name .updated \
  ! -path /etc/ld.so.cache -printf '%p %m %u:%g\n' | sort
accounts='passwd|shadow|group|gshadow|subuid|subgid'  # whose lines come in the order in which accounts were made
find /etc /usr/local -xdev -type f ! -name '*-' ! -path '/etc/ssh/*' ! -name .updated ! -path /etc/ld.so.cache \
  -exec sha256sum {} + | grep -v -E " /etc/($accounts)$" | sort -k 2
cd /etc; grep -E "" $(echo "$accounts" | tr '|' ' ')
dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n'
dpkg --audit
apt-mark showhold
systemctl list-units --all --plain --no-legend --type=service,socket,mount,timer --state=active,failed |
  awk '{print $1, $3}' |
  grep -v -E '^(user|systemd-hostnamed|systemd-tmpfiles-clean|session|hpcforge)' |
  grep -v -E '^(run-user|apt-|man-db|e2scrub|dpkg)' | sort
findmnt --list --noheadings --output TARGET,FSTYPE,OPTIONS --types notmpfs,nodevpts | tr -s ' ' |
  grep -v -e /run/user -e '^/ ' | sort
findmnt --list --noheadings --output TARGET,OPTIONS --types tmpfs | tr -s ' ' | grep -v /run/user | sort
ss --listening --numeric --no-header --tcp --udp | awk '{print $1, $5}' | grep -v ':[3-6][0-9][0-9][0-9][0-9]$' | sort
nft list ruleset 2>/dev/null | sed 's/counter packets [0-9]* bytes [0-9]*/counter/'
lsattr -R /etc 2>/dev/null | awk '$1 ~ /i/ {print $2}'
true
"""


@dataclass
class Cluster:
    """The nodes, and hpcforge on them."""

    site: Site
    state: dict[str, list[str]]  # of each node, as configured

    def command(self, words: str) -> tuple[int, list[tuple[float, str]]]:
        """Run hpcforge to its end: exit status, and each line with the seconds from the start until it came."""
        verb, *options = words.split()
        lines, start = [], time.monotonic()
        with self.site.started(verb, "BLUEPRINT", *options) as process:
            assert process.stdout is not None
            lines = [(round(time.monotonic() - start, 1), line) for line in process.stdout]
        text = "".join(line for _, line in lines)
        print(f"$ hpcforge {words}\n{end_of(text, 60)}exit status {process.returncode}\n")
        return process.returncode, lines

    def root(self, node: str, script: str) -> str:
        """Run a script on a node as root without its sshd, which a fault may have closed; its output."""
        process = self._root(node, script)
        print(
            f"on {node}: {script}\n{end_of(process.stderr)}{end_of(process.stdout)}exit status {process.returncode}\n"
        )
        assert process.returncode == 0, f"on {node}: {script}\n{process.stdout}{process.stderr}"
        return process.stdout

    def program(self, node: str, program: str, document: str) -> str:
        """Run a Python program on a node as root, with a document on its standard input; all that it printed."""
        process = self._root(node, f"exec python3 -IS -c {shlex.quote(program)}", document)
        assert process.returncode == 0, process.stderr
        return process.stdout + process.stderr

    def _root(self, node: str, script: str, text: str = "") -> subprocess.CompletedProcess[str]:
        lab = labs.load(self.site.lab)
        assert lab is not None
        init = machines._init(lab.machine(node))
        words = ["nsenter", "--target", str(init), "--all", "env", "-i", *shlex.split(_INSIDE), "sh", "-ec", script]
        return subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=300)

    def listing(self, node: str) -> list[str]:
        """Everything about a node that must be equal."""
        return self._root(node, _STATE).stdout.splitlines()

    def restore(self, save: str, *nodes: str) -> None:
        """Have nodes as they were at a save; without names, all."""
        start = time.monotonic()
        labs.restore(self.site.lab, save, print, nodes=nodes or None)
        print(f"restored {save} {' '.join(nodes)} in {time.monotonic() - start:.1f} s")


def check_fault(fault: HostFault, cluster: Cluster) -> float | None:
    """Plant a fault, have it named, and remove it; the seconds until it was named."""
    node = fault.node
    others = [name for name in NODES[1:] if name != node]
    if fault.state == "fresh":
        cluster.restore("bare", node)
    cluster.root(node, fault.plant)
    for name in [*others, *([node] if fault.state == "configured" else [])]:
        cluster.root(name, fault.work)
    code, lines = cluster.command(VERBS.get(fault.verb, fault.verb))
    output = "".join(line for _, line in lines)
    assert code == fault.exit, output
    after_s = named_after(fault, lines)
    assert after_s is not None, f"without {fault.says} of {node}:\n{output}"
    if remedy := printed_remedy(fault, output) if fault.remedy == "printed" else fault.remedy:
        cluster.root(node, remedy)
    code, lines = cluster.command(VERBS["apply"])
    assert code == 0
    if fault.verb == "apply" and node != "head":  # the others need what runs there
        after = results("".join(line for _, line in lines))
        assert {after[name] for name in others} == {"unchanged"}, "the first apply did not do the others"
    if fault.clean:
        cluster.root(node, fault.clean)
    assert cluster.command(VERBS["plan"])[0] == 0
    leftovers = changes(cluster.state[node], cluster.listing(node))
    print(f"left behind on {node}: {leftovers}")
    assert leftovers == []
    return after_s if fault.says else None


def check_subjects(cluster: Cluster) -> None:
    """Have healthy nodes inspected: no subject names an obstacle, and each is cheap."""
    for node in NODES:
        obstacles, costs = read_costs(cluster.program(node, PROGRAM, inspection(cluster.site.blueprint, node)))
        print(f"CPU seconds on {node}: {costs}")
        assert obstacles == []
        assert max(costs.values(), default=0.0) <= MOST_CPU_S
