"""An apply is killed at a moment of one's choice; the next one must end where an undisturbed one does."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
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
  -print0 | sort -z | xargs -0 sh -c 'stat -c "%n %a %U:%G" "$@"; sha256sum "$@"' state
find /etc -xdev -type l -printf '%p -> %l\n' | sort
dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n'
dpkg --audit
for unit in slurmctld slurmd slurmdbd slurmrestd munge chrony dnsmasq mariadb slapd sssd nftables rsyslog; do
  echo "$unit $(systemctl is-enabled $unit 2>&1) $(systemctl is-active $unit)"
done
getent passwd; getent group
find /etc /usr/local /var/lib/hpcforge /opt -xdev -name '.*hpcforge*.tmp' -o -xdev -name '.hpcforge-*' 2>/dev/null
ls /var/lib/hpcforge/guards 2>/dev/null
if systemctl -q is-active slurmctld; then
  sacctmgr -nP show associations format=cluster,account,user,fairshare,qos,grptres,maxjobs 2>/dev/null | sort
  sacctmgr -nP show qos format=name,priority,preempt,maxwall,maxtres 2>/dev/null | sort
fi
echo whole
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
    complete = printed.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in complete.splitlines()]


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

    def go(self, moment: str, due: Due) -> bool:
        """Kill at that moment, apply again, compare. False where the apply had ended before."""
        start = time.monotonic()
        go_back(self.site, self._save)
        try:
            self._settled(self.change.stay)
            events = kill(self.site, due)
            if events is None:
                return False
            moment = f"{self.change.name}, {moment}: {json.dumps(events[-1])[:160] if events else 'no event'}"
            process = self.site.cli("apply", "BLUEPRINT", "--yes")
            assert process.returncode == 0, (
                f"exit status {process.returncode}: {process.stderr[-1500:]}{process.stdout[-1500:]}"
            )
            differs = _differing(self.wanted, self._end())
            assert not differs, differs
        except AssertionError as error:
            self.failed.append(f"{moment}\n{error}")
            print(f"KILLED AND NOT EQUAL: {self.failed[-1]}", flush=True)
        else:
            self.equal += 1
            print(f"killed and equal in {time.monotonic() - start:.0f} s: {moment}", flush=True)
        return True

    def _settled(self, nodes: Sequence[str]) -> None:
        """Slurm can use these nodes. slurmctld asks one that it missed again after 40 s."""
        until = time.monotonic() + BECOMES_S
        while missing := set(nodes) - {one.split()[0] for one in self._slurm() if one.endswith(" idle")}:
            assert time.monotonic() < until, f"not idle: {missing} of {self._slurm()}"
            time.sleep(0.5)

    def _slurm(self) -> list[str]:
        return quietly_on(self.site.lab, "head", "sinfo -h -N -o '%N %t' | sort -u").splitlines()

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
            outputs = pool.map(lambda name: quietly_on(self.site.lab, name, f"sudo sh -c {_quoted(_STATE)}"), names)
            state = dict(zip(names, outputs, strict=True))
        assert all(text.endswith("\nwhole\n") for text in state.values()), state
        return state


def quietly_on(lab: str, node: str, script: str) -> str:
    """What a script on a node prints, empty where it fails. Nothing of it is echoed: it runs hundreds of times."""
    record = labs.load(lab)
    assert record is not None
    argv = labs.ssh_argv(record, node, ["sh", "-c", script])
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout


def _quoted(script: str) -> str:
    return "'" + script.replace("'", "'\\''") + "'"


def _differing(expected: Mapping[str, str], observed: Mapping[str, str]) -> str:
    lines = []
    for node in sorted(expected.keys() | observed.keys()):
        expected_lines, observed_lines = (set(side.get(node, "").splitlines()) for side in (expected, observed))
        lines += [f"{node}: - {line}" for line in sorted(expected_lines - observed_lines)]
        lines += [f"{node}: + {line}" for line in sorted(observed_lines - expected_lines)]
    return "\n".join(lines)


def keep(site: Site, name: str) -> None:
    """Save the nodes, and with them what the operator's machine has."""
    labs.save(site.lab, name, print, replace=True)
    _copy(site.folder, _save_folder(site, name))


def go_back(site: Site, name: str) -> None:
    """Nodes and the operator's machine as they were at a save."""
    labs.restore(site.lab, name, print)
    _copy(_save_folder(site, name), site.folder)


def _save_folder(site: Site, name: str) -> Path:
    return site.folder.with_name(f"{site.folder.name}-{name}")


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
