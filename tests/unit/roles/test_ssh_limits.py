"""What sshd is told of half-open and failed logins follows its own version: one that is too old would not start."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired

Compiled = Callable[[Cluster], Desired]
FILE = "/etc/ssh/sshd_config.d/00-hpcforge_ssh_limits.conf"
CLUSTER = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster


@pytest.mark.parametrize(
    ("name", "openssh", "keywords", "checks"),
    [
        ("debian", "8.4", {"LoginGraceTime", "MaxStartups"}, 2),
        ("debian", "8.5", {"LoginGraceTime", "MaxStartups", "PerSourceMaxStartups"}, 3),
        ("debian", "9.7", {"LoginGraceTime", "MaxStartups", "PerSourceMaxStartups"}, 3),
        ("debian", "9.8", {"LoginGraceTime", "MaxStartups", "PerSourceMaxStartups", "PerSourcePenaltyExemptList"}, 4),
        ("other", "10.0", {"LoginGraceTime", "MaxStartups", "PerSourceMaxStartups", "PerSourcePenaltyExemptList"}, 4),
    ],
)
def test_sshd_is_told_what_its_version_knows(
    name: str, openssh: str, keywords: set[str], checks: int, compiled: Compiled
) -> None:
    desired = compiled(dataclasses.replace(CLUSTER, os=dataclasses.replace(CLUSTER.os, name=name, openssh=openssh)))
    for node in desired.nodes.values():
        [role] = [wanted for wanted in node if wanted.role == "ssh_limits"]
        [file] = [one for one in role.of(File) if one.path == FILE]
        lines = [line for line in desired.texts[str(file.digest)].splitlines() if not line.startswith("#")]
        assert {line.split()[0] for line in lines if line} == keywords
        assert len(role.checks) == checks
