"""What is set in the kernels of workers with GPUs, and how a blueprint leaves it alone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge import shipped
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.sysctls import Sysctl
from hpcforge.plan.desired import Desired, Wanted

Compiled = Callable[[Cluster], Desired]
UNIT = shipped.root() / "roles/tuning/files/etc/systemd/system/hpcforge-governor.service"


@pytest.fixture(scope="module")
def dgx() -> Cluster:
    return load(shipped.root() / "blueprints" / "dgx-h100-site.yaml").cluster


def tuning(desired: Desired, node: str) -> Wanted | None:
    return next((one for one in desired.nodes[node] if one.role == "tuning"), None)


def sysctls(wanted: Wanted | None) -> dict[str, str]:
    assert wanted
    return {one.name: one.value for one in wanted.of(Sysctl)}


def test_workers_with_gpus_are_tuned(dgx: Cluster, compiled: Compiled) -> None:
    desired = compiled(dgx)
    assert tuning(desired, "head01") is None and tuning(desired, "stor01") is None
    found = tuning(desired, "gpu001")
    assert sysctls(found) == {"kernel.numa_balancing": "0"}
    assert found and [unit.name for unit in found.units] == ["hpcforge-governor.service"]


def test_one_socket_has_nothing_to_balance(dgx: Cluster, compiled: Compiled) -> None:
    small = replace(dgx, nodes=tuple(replace(node, sockets=1) for node in dgx.nodes))
    assert sysctls(tuning(compiled(small), "gpu001")) == {}


def test_each_setting_can_be_left_alone(dgx: Cluster, compiled: Compiled) -> None:
    chosen = dgx.variables["tuning"]
    left = replace(dgx, variables={**dgx.variables, "tuning": {**chosen, "numa_balancing": True}})
    found = tuning(compiled(left), "gpu001")
    assert sysctls(found) == {} and found and found.units
    left = replace(dgx, variables={**dgx.variables, "tuning": {**chosen, "governor": False}})
    found = tuning(compiled(left), "gpu001")
    assert sysctls(found) and found and not found.units


@pytest.mark.parametrize("processors", [0, 3])
def test_every_processor_has_its_governor(tmp_path: Path, processors: int) -> None:
    governors = [tmp_path / f"cpu{number}" / "cpufreq" / "scaling_governor" for number in range(processors)]
    for one in governors:
        one.parent.mkdir(parents=True)
        one.write_text("powersave\n")
    (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
    script = line.partition("-ec '")[2].removesuffix("'").replace("/sys/devices/system/cpu", str(tmp_path))
    assert str(tmp_path) in script
    subprocess.run(["sh", "-ec", script], check=True)
    assert [one.read_text() for one in governors] == ["performance\n"] * processors
