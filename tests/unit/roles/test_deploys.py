"""What roles' own deploy.py do, run by pyinfra on this machine with stubs in the place of programs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcforge import bundled
from tests.support.shipped import ROOT

STUB = """#!/bin/sh
echo "$(basename "$0") $*" >> {folder}/told
{does}
"""


class Machine:
    """A folder of stubs, which write down how they are called, and another for a role's own paths."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()

    def stub(self, name: str, does: str = "") -> None:
        path = self.folder / "bin" / name
        path.write_text(STUB.format(folder=self.folder, does=does))
        path.chmod(0o755)

    def run(self, role: str, replaced: dict[str, str], **data: Any) -> subprocess.CompletedProcess[str]:
        """A role's deploy.py, with paths of nodes replaced."""
        text = (bundled.roles() / role / "deploy.py").read_text()
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        (self.folder / "deploy.py").write_text(text)
        env = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "TMPDIR": str(self.folder)}
        command = [sys.executable, "-m", "tests.support.local_deploy", str(self.folder / "deploy.py"), json.dumps(data)]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)

    def told(self, *programs: str) -> list[str]:
        """The commands that change something."""
        path = self.folder / "told"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(programs) and " show " not in line]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("there", "unit_state", "slurmd_state", "told"),
    [
        ("exit 0", "exited", "running", []),
        ("exit 1", "exited", "running", ["restart hpcforge-mig.service", "restart slurmd.service"]),
        ("exit 1", "failed", "dead", ["start hpcforge-mig.service"]),
    ],
)
def test_the_mig_layout_is_set_where_it_is_not_there(
    machine: Machine, there: str, unit_state: str, slurmd_state: str, told: list[str]
) -> None:
    machine.stub("mig", there)
    states = {"hpcforge-mig.service": unit_state, "slurmd.service": slurmd_state}
    shows = [f"*show*{unit}*) echo Id={unit}; echo SubState={state};;" for unit, state in states.items()]
    machine.stub("systemctl", f'case "$*" in {" ".join(shows)} esac')
    done = machine.run("nvidia_mig", {"/usr/sbin/hpcforge-mig": f"{machine.folder}/bin/mig"}, slurmd="slurmd.service")
    assert done.returncode == 0, done.stderr
    assert machine.told("systemctl") == [f"systemctl {command}" for command in told]


@pytest.mark.parametrize("other", ["", "libcuda1", "libcuda1 datacenter-gpu-manager"])
def test_another_driver_is_replaced(machine: Machine, other: str) -> None:
    installed = "".join(f"ii x 1 {name}\\n" for name in other.split())
    machine.stub("dpkg-query", f"printf '{installed}'")
    machine.stub("apt-get")
    machine.stub("apt-mark", f'[ "$1" != showhold ] || echo {other}')
    machine.stub("systemctl", 'case "$*" in *show*) echo Id=nvidia-dcgm.service; echo SubState=running;; esac')
    done = machine.run("nvidia_driver", {}, other="1", driver="550.1")
    assert done.returncode == 0, done.stderr
    told = machine.told("apt-", "systemctl")
    if not other:
        assert told == []
        return
    assert told[0] == "apt-get update"
    assert told[2].startswith("apt-get -y -q ")
    assert told[2].endswith(f"--no-remove --no-install-recommends install -- {other}")
    assert [told[1], told[3]] == [f"apt-mark showhold {other}", f"apt-mark hold {other}"]
    assert told[4:] == (["systemctl restart nvidia-dcgm.service"] if "datacenter" in other else [])


def test_the_depot_serves_only_what_is_whole(machine: Machine) -> None:
    kept, depot = machine.folder / "kept", machine.folder / "depot"
    (depot / "wheels").mkdir(parents=True)
    kept.mkdir()
    sha256 = hashlib.sha256(b"whole").hexdigest()
    serves = [{"name": "wheels/a b.whl", "sha256": sha256}]
    where = {"/srv/hpcforge/depot": str(depot)}

    (kept / sha256).write_bytes(b"cut of")
    done = machine.run("depot", where, serves=serves, artifacts=str(kept))
    assert "arrived with SHA-256" in done.stderr
    assert not (depot / "wheels/a b.whl").exists()

    (kept / sha256).write_bytes(b"whole")
    assert machine.run("depot", where, serves=serves, artifacts=str(kept)).returncode == 0
    assert [path.name for path in (depot / "wheels").iterdir()] == ["a b.whl"]
    before = (depot / "wheels/a b.whl").stat()
    assert before.st_mode & 0o777 == 0o644
    assert machine.run("depot", where, serves=serves, artifacts=str(kept)).returncode == 0
    assert (depot / "wheels/a b.whl").stat().st_mtime_ns == before.st_mtime_ns


def test_package_lists_that_are_locked_are_read_again(machine: Machine) -> None:
    machine.stub("dpkg-query", "echo ii x 1 libcuda1")
    machine.stub("apt-get", f'[ "$1" != update ] || [ "$(grep -c update {machine.folder}/told)" -gt 2 ]')
    machine.stub("apt-mark")
    done = machine.run("nvidia_driver", {"_retry_delay=10": "_retry_delay=0"}, other="1", driver="550.1")
    assert done.returncode == 0, done.stderr
    assert machine.told("apt-get update") == ["apt-get update"] * 3
    assert len(machine.told("apt-get -y")) == 1


def test_package_lists_that_stay_locked_end_it(machine: Machine) -> None:
    machine.stub("dpkg-query", "echo ii x 1 libcuda1")
    machine.stub("apt-get", '[ "$1" != update ]')
    machine.stub("apt-mark")
    done = machine.run("nvidia_driver", {"_retry_delay=10": "_retry_delay=0"}, other="1", driver="550.1")
    assert done.returncode != 0
    assert machine.told("apt-get -y") == []
