"""What is set in the kernels of workers with GPUs, and how a blueprint leaves it alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.kinds.sysctls import Sysctl
from hpcforge.plan.desired import Desired, DesiredRole

Compiled = Callable[[Cluster], Desired]
UNIT = bundled.root() / "roles/tuning/files/etc/systemd/system/hpcforge-governor.service"
PCIE = "/usr/sbin/hpcforge-pcie"
GPU, SWITCH, ROOT, OLD = "0000:1b:00.0", "0000:19:00.0", "0000:16:01.0", "0000:00:1c.0"


@pytest.fixture(scope="module")
def dgx() -> Cluster:
    return load(bundled.root() / "blueprints" / "dgx-h100-site.yaml").cluster


def tuning(desired: Desired, node: str) -> DesiredRole | None:
    return next((one for one in desired.nodes[node] if one.role == "tuning"), None)


def sysctls(wanted: DesiredRole | None) -> dict[str, str]:
    assert wanted
    return {one.name: one.value for one in wanted.of(Sysctl)}


def test_workers_with_gpus_are_tuned(dgx: Cluster, compiled: Compiled) -> None:
    desired = compiled(dgx)
    assert tuning(desired, "head01") is None and tuning(desired, "stor01") is None
    found = tuning(desired, "gpu001")
    assert sysctls(found) == {"kernel.numa_balancing": "0"}
    assert found and [unit.name for unit in found.units] == ["hpcforge-governor.service"]
    assert found.packages == ()


def test_one_socket_has_nothing_to_balance(dgx: Cluster, compiled: Compiled) -> None:
    small = replace(dgx, nodes=tuple(replace(node, sockets=1) for node in dgx.nodes))
    assert sysctls(tuning(compiled(small), "gpu001")) == {}


def test_each_setting_can_be_left_alone(dgx: Cluster, compiled: Compiled) -> None:
    chosen = dgx.variables["tuning"]
    left = replace(dgx, variables={**dgx.variables, "tuning": {**chosen, "numa_balancing": True}})
    found = tuning(compiled(left), "gpu001")
    assert sysctls(found) == {} and found and found.units
    nothing = {**chosen, "governor": False, "numa_balancing": True}
    found = tuning(compiled(replace(dgx, variables={**dgx.variables, "tuning": nothing})), "gpu001")
    assert found is None or not (found.units or found.packages or found.resources)


@pytest.mark.parametrize("processors", [0, 3])
def test_every_processor_has_its_governor(tmp_path: Path, processors: int) -> None:
    governors = [tmp_path / f"cpu{number}" / "cpufreq" / "scaling_governor" for number in range(processors)]
    for governor in governors:
        governor.parent.mkdir(parents=True)
        governor.write_text("powersave\n")
    (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
    script = line.partition("-ec '")[2].removesuffix("'").replace("/sys/devices/system/cpu", str(tmp_path))
    assert str(tmp_path) in script
    subprocess.run(["sh", "-ec", script], check=True)
    assert [governor.read_text() for governor in governors] == ["performance\n"] * processors


def test_huge_pages_are_set_aside_where_somebody_asks(dgx: Cluster, compiled: Compiled) -> None:
    chosen = {**dgx.variables["tuning"], "huge_pages": 4096, "transparent_huge_pages": "madvise"}
    desired = compiled(replace(dgx, variables={**dgx.variables, "tuning": chosen}))
    found = tuning(desired, "gpu001")
    assert sysctls(found)["vm.nr_hugepages"] == "4096"
    assert "'echo madvise > /sys/kernel/mm/transparent_hugepage/enabled'" in text(
        desired, "hpcforge-huge-pages.service"
    )


def text(desired: Desired, name: str) -> str:
    wanted = tuning(desired, "gpu001")
    assert wanted
    (file,) = [one for one in wanted.of(File) if one.path.endswith(name)]
    return desired.texts[str(file.digest)]


@pytest.fixture
def pcie(tmp_path: Path) -> Callable[[str, dict[str, str]], tuple[int, list[str], str]]:
    """Run the program where bridges have these ACS controls; its exit status, what it wrote, and what it said."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "lspci").write_text(f'#!/bin/sh\ntest "$*" = "-D -d ::0604" && cat {tmp_path}/bridges\n')
    # setpci -s PLACE REGISTER[=VALUE]: what is written to a register stays there, unless the bridge is locked.
    (tools / "setpci").write_text(
        f"""#!/bin/sh
cd {tmp_path}/control
case $3 in
    *=*) echo "$2 $3" >> ../written; test ! -e "$2" || test -e "$2.locked" || echo "${{3#*=}}" > "$2" ;;
    *) cat "$2" ;;
esac
"""
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    (tmp_path / "control").mkdir()

    def run(program: str, bridges: dict[str, str]) -> tuple[int, list[str], str]:
        (tmp_path / "bridges").write_text("".join(f"{place} PCI bridge: PEX (rev b0)\n" for place in bridges))
        for place, control in bridges.items():
            if control:
                (tmp_path / "control" / place).write_text(f"{control.removesuffix('!')}\n")
            if control.endswith("!"):
                (tmp_path / "control" / f"{place}.locked").touch()
        done = subprocess.run(
            ["sh", "-c", program.replace("/sys/class/", f"{tmp_path}/class/")],
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        written = tmp_path / "written"
        return done.returncode, written.read_text().splitlines() if written.exists() else [], done.stderr

    return run


Pcie = Callable[[str, dict[str, str]], tuple[int, list[str], str]]


def turning_acs_off(dgx: Cluster, compiled: Compiled) -> str:
    """The program of a site that asks for it."""
    chosen = {**dgx.variables["tuning"], "acs": False}
    desired = compiled(replace(dgx, variables={**dgx.variables, "tuning": chosen}))
    found = tuning(desired, "gpu001")
    assert found and found.packages == ("pciutils",) and "hpcforge-pcie.service" in {unit.name for unit in found.units}
    return text(desired, PCIE)


def test_acs_is_turned_off_where_it_is_on(dgx: Cluster, compiled: Compiled, pcie: Pcie) -> None:
    """One bridge has it on, one off, and one knows nothing of it."""
    assert pcie(turning_acs_off(dgx, compiled), {SWITCH: "001d", ROOT: "0000", OLD: ""}) == (
        0,
        [f"{SWITCH} ECAP_ACS+6.w=0000"],
        "",
    )


def test_a_bridge_that_keeps_acs_on_is_named(dgx: Cluster, compiled: Compiled, pcie: Pcie) -> None:
    status, _, said = pcie(turning_acs_off(dgx, compiled), {SWITCH: "001d!"})
    assert (status, said) == (1, f"{SWITCH} keeps ACS on (001d): turn it off in the firmware\n")


def test_adapters_ask_for_larger_reads(dgx: Cluster, compiled: Compiled, pcie: Pcie, tmp_path: Path) -> None:
    (tmp_path / "devices" / GPU).mkdir(parents=True)
    (tmp_path / "class" / "infiniband" / "ibp27s0").mkdir(parents=True)
    (tmp_path / "class" / "infiniband" / "ibp27s0" / "device").symlink_to(tmp_path / "devices" / GPU)
    chosen = {**dgx.variables["tuning"], "max_read_request": "4096"}
    program = text(compiled(replace(dgx, variables={**dgx.variables, "tuning": chosen})), PCIE)
    assert "ECAP_ACS" not in program
    assert pcie(program, {}) == (0, [f"{GPU} CAP_EXP+8.w=5000:7000"], "")
