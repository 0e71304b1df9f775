"""Plain Ansible and plain pyinfra, by the entry points of inventory/, on a lab's nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from hpcforge.engines.tasks import Target
from hpcforge.lab import lab as labs
from tests.support.shipped import ROOT

_BIN = Path(sys.executable).parent


def blueprint(folder: Path, lab: labs.Lab, machines: Mapping[str, Target], reason: str) -> Path:
    """A blueprint of these machines behind the first, which is the head, and its inventory; `reason` is of all."""
    head, *workers = machines
    nodes = {name: {"functions": ["worker"], "hardware": "rehearsal-node"} for name in workers}
    document = {
        "schema": "1",
        "name": "plain",
        "domain": "plain.example.org",
        "inventory": "machines.yaml",
        "access": {"user": lab.login_user, "via": head},
        "nodes": {head: {"functions": ["head"], "hardware": "rehearsal-node"}, **nodes},
        "networks": {"all": {"cidr": "10.0.0.0/8"}},
        "services": {"dns": {"on": head}, "time": {"on": head}},
        "software": {"os": {"name": "debian", "release": "12"}},
        "slurm": {
            "controller": head,
            "reserve": {"cores": "0", "memory_gib": "1"},
            "partitions": {"main": {"nodes": "all", "default": "true"}},
        },
        "overrides": {name: {"memory_gib": "4", "reason": reason} for name in machines},
    }
    inventory_nodes = {
        name: {"address": machine.address, "host_keys": list(machine.host_keys)} for name, machine in machines.items()
    }
    (folder / "machines.yaml").write_text(
        yaml.safe_dump({"schema": 1, "access": {"key": str(lab.key)}, "nodes": inventory_nodes}, width=1000)
    )
    path = folder / "plain.yaml"
    path.write_text(yaml.safe_dump(document, width=1000))
    return path


def ansible(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Ansible as somebody types it who has a clone."""
    return _run(site, _BIN / "ansible", "-i", ROOT / "inventory" / "for_ansible.py", *words)


def inventory(site: Path, kind: str, name: str) -> Path:
    """A file as `hpcforge inventory` prints it."""
    process = _run(site, sys.executable, "-m", "hpcforge", "inventory", site, kind)
    assert process.returncode == 0, process.stderr
    path = site.parent / name
    path.write_text(process.stdout)
    return path


def over_ssh(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """ssh, clush or ansible, as somebody types it."""
    return _run(site, *words)


def pyinfra(site: Path, deploy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pyinfra as somebody types it who has a clone."""
    return _run(site, _BIN / "pyinfra", "-y", ROOT / "inventory" / "for_pyinfra.py", deploy, *words)


def _run(site: Path, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{_BIN}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HPCFORGE_BLUEPRINT": str(site),
        "XDG_CACHE_HOME": str(site.parent / "cache"),
        "HOME": str(site.parent),
        "ANSIBLE_SSH_ARGS": "-C",  # no connection that outlives the test, with a socket in a folder of a long name
    }
    return subprocess.run(
        [str(word) for word in words],
        env=environment | {"HPCFORGE_LAB": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
