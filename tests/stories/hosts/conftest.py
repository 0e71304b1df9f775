"""A rehearsal of four nodes, saved before its first apply and after it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab.nspawn import machines
from tests.support.said import end_of
from tests.support.site import REPOSITORY, Site

NODES = ("head", "w01", "w02", "w03")
_INSIDE = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8"
_FAILED: list[str] = []

# What must be equal before a fault and after its remedy. Left out: what a node writes by itself.
_STATE = r"""
find /etc /usr/local -xdev \( -type f -o -type l \) ! -name '*-' ! -path '/etc/ssh/*-cert.pub' ! -name .updated \
  ! -path /etc/ld.so.cache -printf '%p %m %u:%g\n' | sort
find /etc /usr/local -xdev -type f ! -name '*-' ! -path '/etc/ssh/*' ! -name .updated ! -path /etc/ld.so.cache \
  -exec sha256sum {} + | sort -k 2
dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n'
dpkg --audit
apt-mark showhold
systemctl list-units --all --plain --no-legend --type=service,socket,mount,timer --state=active,failed |
  awk '{print $1, $3}' |
  grep -v -E '^(user|systemd-tmpfiles-clean|session|hpcforge|run-user|apt-|man-db|e2scrub|dpkg)' | sort
findmnt --list --noheadings --output TARGET,FSTYPE,OPTIONS --types notmpfs,nodevpts | tr -s ' ' |
  grep -v -e /run/user -e '^/ ' | sort
findmnt --list --noheadings --output TARGET,OPTIONS --types tmpfs | tr -s ' ' | grep -v /run/user | sort
getent passwd; getent group
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
        done = self._root(node, script)
        print(f"on {node}: {script}\n{end_of(done.stderr)}{end_of(done.stdout)}exit status {done.returncode}\n")
        assert done.returncode == 0, f"on {node}: {script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _root(self, node: str, script: str) -> subprocess.CompletedProcess[str]:
        lab = labs.load(self.site.lab)
        assert lab is not None
        init = machines._init(lab.machine(node))
        words = ["nsenter", "--target", str(init), "--all", "env", "-i", *shlex.split(_INSIDE), "sh", "-ec", script]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)

    def listing(self, node: str) -> list[str]:
        """Everything about a node that must be equal."""
        return self._root(node, _STATE).stdout.splitlines()

    def restore(self, save: str, *nodes: str) -> None:
        """Have nodes as they were at a save; without names, all."""
        start = time.monotonic()
        labs.restore(self.site.lab, save, print, nodes=nodes or None)
        print(f"restored {save} {' '.join(nodes)} in {time.monotonic() - start:.1f} s")


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The rehearsal, applied once."""
    folder = tmp_path_factory.mktemp("hosts")
    shutil.copytree(REPOSITORY / "blueprints", folder / "blueprints", ignore=shutil.ignore_patterns("*.age"))
    here = Cluster(Site(folder, f"test-hosts-{os.getpid()}"), {})
    try:
        assert here.site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        labs.save(here.site.lab, "bare", print)
        assert here.site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode == 0
        labs.save(here.site.lab, "configured", print)
        assert (
            here.site.cli("plan", "BLUEPRINT", "--verify", "none").returncode == 0
        )  # also waits until all daemons answer
        here.state = {node: here.listing(node) for node in NODES}
        yield here
    finally:
        here.site.cli("rehearse", "down")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and Path(__file__).parent in item.path.parents:
        _FAILED.append(item.nodeid)
    return report


@pytest.fixture
def cluster(applied: Cluster) -> Cluster:
    """The configured nodes, also after a test that failed."""
    if _FAILED:
        _FAILED.clear()
        applied.restore("configured")
    return applied
