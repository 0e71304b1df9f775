"""An apply is killed at a moment of one's choice; the next one must end where an undisturbed one does."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcforge.lab import lab as labs
from tests.support.site import BECOMES_S, Site

Events = list[dict[str, Any]]
Due = Callable[[Events], bool]  # whether the apply is to be killed, given its events so far

# What every apply makes equal: files with rights and content, packages, accounts, units, and that nothing is under way.
# Left out is what has a time in it or is this lab's own: certificates, backups of accounts, caches.
_STATE = r"""
find /etc -xdev -type f ! -name '*-cert.pub' ! -name '*-' ! -name '*.cache' ! -name '.updated' \
  ! -path '/etc/ssl/certs/*' ! -path '/etc/ssh/ssh_host_*' ! -path '/etc/shadow' ! -path '/etc/gshadow' \
  -printf '%p %m %u:%g ' -exec sha256sum {} \; | sort
find /etc -xdev -type l -printf '%p -> %l\n' | sort
dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n'
dpkg --audit
for unit in slurmctld slurmd slurmdbd slurmrestd munge chrony dnsmasq mariadb slapd sssd nftables rsyslog; do
  echo "$unit $(systemctl is-enabled $unit 2>&1) $(systemctl is-active $unit)"
done
getent passwd; getent group
find /etc /usr/local /var/lib/hpcforge /opt -xdev -name '.*hpcforge*.tmp' -o -xdev -name '.hpcforge-*' 2>/dev/null
ls /var/lib/hpcforge/guards 2>/dev/null
true
"""


@dataclass(frozen=True)
class Change:
    """Something that an operator does to a running cluster, short of the apply. `stay` and `end` are Slurm's nodes."""

    name: str
    prepare: Callable[[Site], None]
    stay: Sequence[str]  # in service all the time
    end: Sequence[str]  # in service afterwards


def events_of(printed: Path) -> Events:
    """The whole lines of `apply --json` so far."""
    whole = printed.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def kill(site: Site, due: Due) -> Events | None:
    """SIGKILL to an apply as soon as it is `due`; its events, or None where it ended before."""
    with site.begin("apply", "BLUEPRINT", "--yes", "--json") as run:
        while not due(events := events_of(run.results)):
            if run.process.poll() is not None:
                return None
            time.sleep(0.01)
        run.send_alone(signal.SIGKILL)
        run.process.wait()
        return events


@dataclass
class Trial:
    """A change of a cluster, its undisturbed end, and how those fared that were killed."""

    site: Site
    change: Change
    events: Events = field(default_factory=list)
    wall_s: float = 0.0  # of the undisturbed apply
    wanted: Mapping[str, str] = field(default_factory=dict)
    equal: int = 0
    failed: list[str] = field(default_factory=list)

    @property
    def _save(self) -> str:
        return f"before-{self.change.name}"

    def begin(self, base: str) -> None:
        """From the save `base`: make the change, keep that, and apply it undisturbed."""
        go_back(self.site, base)
        self.change.prepare(self.site)
        keep(self.site, self._save)
        self._settled(self.change.stay)
        start = time.monotonic()
        with self.site.begin("apply", "BLUEPRINT", "--yes", "--json") as run:
            code = run.process.wait(BECOMES_S * 4)
            assert code == 0, run.said()
            self.events, self.wall_s = events_of(run.results), time.monotonic() - start
        self.wanted = self._end()
        print(f"{self.change.name}, undisturbed: {len(self.events)} events in {self.wall_s:.0f} s", flush=True)

    def go(self, what: str, due: Due) -> bool:
        """Kill at that moment, apply again, compare. False where the apply had ended before."""
        go_back(self.site, self._save)
        try:
            self._settled(self.change.stay)
            seen = kill(self.site, due)
            if seen is None:
                return False
            what = f"{self.change.name}, {what}: {json.dumps(seen[-1])[:160] if seen else 'no event'}"
            done = self.site.cli("apply", "BLUEPRINT", "--yes")
            assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr[-1500:]}{done.stdout[-1500:]}"
            differs = _differing(self.wanted, self._end())
            assert not differs, differs
        except AssertionError as error:
            self.failed.append(f"{what}\n{error}")
            print(f"KILLED AND NOT EQUAL: {self.failed[-1]}", flush=True)
        else:
            self.equal += 1
            print(f"killed and equal: {what}", flush=True)
        return True

    def _settled(self, nodes: Sequence[str]) -> None:
        """Slurm can use these nodes. slurmctld asks one that it missed again after 40 s."""
        until = time.monotonic() + BECOMES_S
        while missing := set(nodes) - {one.split()[0] for one in self._slurm() if one.endswith(" idle")}:
            assert time.monotonic() < until, f"not idle: {missing} of {self._slurm()}"
            time.sleep(0.5)

    def _slurm(self) -> list[str]:
        shown = self.site.cli("rehearse", "ssh", "BLUEPRINT", "head", "--", "sinfo -h -N -o '%N %t' | sort -u")
        return shown.stdout.splitlines()

    def _end(self) -> dict[str, str]:
        """What the nodes are like when Slurm has exactly those of the end, and nothing is left to do."""
        self._settled(self.change.end)
        plan = self.site.cli("plan", "BLUEPRINT")
        assert plan.returncode == 0, f"there is something left to do:\n{plan.stdout}{plan.stderr}"
        assert self._slurm() == sorted(f"{node} idle" for node in self.change.end)
        lab = labs.load(self.site.lab)
        assert lab is not None
        names = [node.name for node in lab.nodes]
        with ThreadPoolExecutor() as pool:
            said = pool.map(lambda name: self.site.ssh(name, f"sudo sh -c {_quoted(_STATE)}"), names)
            return dict(zip(names, said, strict=True))


def _quoted(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


def _differing(wanted: Mapping[str, str], found: Mapping[str, str]) -> str:
    lines = []
    for node in sorted(wanted.keys() | found.keys()):
        one, other = (set(side.get(node, "").splitlines()) for side in (wanted, found))
        lines += [f"{node}: - {line}" for line in sorted(one - other)]
        lines += [f"{node}: + {line}" for line in sorted(other - one)]
    return "\n".join(lines)


def keep(site: Site, name: str) -> None:
    """Save the nodes, and with them what the operator's machine has."""
    labs.save(site.lab, name, print, replace=True)
    _copy(site.folder, _kept(site, name))


def go_back(site: Site, name: str) -> None:
    """Nodes and the operator's machine as they were at a save."""
    labs.restore(site.lab, name, print)
    _copy(_kept(site, name), site.folder)


def _kept(site: Site, name: str) -> Path:
    return site.folder.with_name(f"{site.folder.name}-{name}")


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
