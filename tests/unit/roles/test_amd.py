"""AMD's GPUs: what Slurm is told of them, and what checks of the roles say, each run by a shell as a node runs it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.admission import declared
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import load_roles
from hpcforge.rehearsal.stand_in_rules import RULES
from hpcforge.rehearsal.stand_ins import left_out

SITE = load(Path(__file__).parent / "blueprints" / "amd.yaml").cluster
VERSION = "the HIP runtime is of the version"
EACH = "the kernel's driver has each GPU"
KFD = "jobs can open /dev/kfd"
ANSWERS = "ROCm answers"
THIRD = 130


@pytest.fixture(name="desired", scope="module")
def _desired(compiled: Callable[[Cluster], Desired]) -> Desired:
    return compiled(SITE)


def check(desired: Desired, role: str, name: str, root: Path, tools: dict[str, str]) -> tuple[int, str]:
    """Run a check of m01 with `tools` in place of a node's own, below another root than this machine's."""
    (found,) = (node for node in desired.nodes["m01"] if node.role == role)
    (command,) = (check.command for check in found.checks if name in check.name)
    for tool, text in tools.items():
        (root / tool).write_text(f"#!/bin/sh\n{text}\n")
        (root / tool).chmod(0o755)
    argv = list(command)
    for place in ("/dev/dri/", "/dev/kfd", "/sys/"):
        argv[-1] = argv[-1].replace(place, f"{root}{place}")
    # this user may make no devices, so that a file stands for each
    argv[-1] = argv[-1].replace("test -c", "test -f")
    env = {"PATH": f"{root}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, done.stdout.replace(str(root), "")


def plant(root: Path, driver: str = "amdgpu", count: int = 8) -> Path:
    for number in range(128, 128 + count):
        (root / "dev/dri").mkdir(parents=True, exist_ok=True)
        (root / f"dev/dri/renderD{number}").touch()
        device = root / f"sys/class/drm/renderD{number}/device"
        device.mkdir(parents=True)
        of = root / "sys/bus/pci/drivers" / (driver if number == THIRD else "amdgpu")
        of.mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(of)
    (root / "dev/kfd").touch(mode=0o600)
    (root / "dev/kfd").chmod(0o666)
    return root


def gres(desired: Desired) -> str:
    """The file of it that Slurm has."""
    files = [file for node in desired.nodes["head"] for file in node.of(File)]
    (text,) = (desired.texts[file.text] for file in files if file.path == "/etc/slurm/gres.conf")
    return text


def test_slurm_is_told_of_nodes_for_rendering_and_sets_amds_variable_alone(desired: Desired) -> None:
    text = gres(desired)
    assert "NodeName=m[01-02] Name=gpu Type=mi300x File=/dev/dri/renderD[128-135] Flags=amd_gpu_env\n" in text
    assert "NodeName=c01 Name=gpu Type=mi210 File=/dev/dri/renderD128 Flags=amd_gpu_env\n" in text


def test_the_catalog_says_what_the_kernel_is_held_to() -> None:
    by_node = {one.node: one for one in declared(SITE)}
    assert (by_node["m01"].gpu_kind, by_node["m01"].gpus, by_node["m01"].driver) == ("amd", 8, None)
    assert by_node["m01"].gpu_known.driver_names == ("gfx942",)
    assert (by_node["c01"].gpu_known.driver_names, by_node["c01"].gpu_known.memory_gb) == (("gfx90a",), 64)


def test_a_hip_runtime_of_another_version_is_named(desired: Desired, tmp_path: Path) -> None:
    assert check(desired, "amd_rocm", VERSION, tmp_path, {"dpkg-query": "printf 5.7.1"}) == (0, "")
    said = check(desired, "amd_rocm", VERSION, tmp_path, {"dpkg-query": "printf 6.1.2"})
    assert said == (1, "libamdhip64-5 is 6.1.2, not 5.7.1\n")
    said = check(desired, "amd_rocm", VERSION, tmp_path, {"dpkg-query": "exit 1"})
    assert said == (1, "libamdhip64-5 is not there, not 5.7.1\n")


def test_a_device_file_that_is_missing_or_anothers_is_named(desired: Desired, tmp_path: Path) -> None:
    well, seven, shifted = (tmp_path / name for name in ("well", "seven", "shifted"))
    for folder in (well, seven, shifted):
        folder.mkdir()
    assert check(desired, "amd_modules", EACH, plant(well), {}) == (0, "")
    rc, said = check(desired, "amd_modules", EACH, plant(seven, count=7), {})
    assert rc == 1
    assert said == "/dev/dri/renderD135 is not there: see the kernel's log for amdgpu, then restart the node\n"
    rc, said = check(desired, "amd_modules", EACH, plant(shifted, driver="ast"), {})
    assert rc == 1
    assert said.startswith("/dev/dri/renderD130 is of ast, not of amdgpu")


def test_a_kfd_that_jobs_cannot_open_is_named(desired: Desired, tmp_path: Path) -> None:
    plant(tmp_path)
    assert check(desired, "amd_modules", KFD, tmp_path, {}) == (0, "")
    (tmp_path / "dev/kfd").chmod(0o660)
    assert check(desired, "amd_modules", KFD, tmp_path, {}) == (1, "/dev/kfd has mode 660: udevadm trigger /dev/kfd\n")
    (tmp_path / "dev/kfd").unlink()
    assert check(desired, "amd_modules", KFD, tmp_path, {})[0] == 1


def test_rocminfo_is_believed_in_its_count(desired: Desired, tmp_path: Path) -> None:
    """Lines as rocminfo prints them (`rocminfo.cc`), of one processor and so many GPUs."""
    answer = "echo '  Device Type:             CPU'; for n in {}; do echo '  Device Type:             GPU'; done"
    assert check(desired, "amd_modules", ANSWERS, tmp_path, {"rocminfo": answer.format("1 2 3 4 5 6 7 8")}) == (0, "")
    rc, said = check(desired, "amd_modules", ANSWERS, tmp_path, {"rocminfo": answer.format("1 2 3 4 5 6 7")})
    assert (rc, said) == (1, "rocminfo finds 7 of 8 GPUs\n")
    rc, said = check(desired, "amd_modules", ANSWERS, tmp_path, {"rocminfo": "echo ROCk module is NOT loaded; exit 1"})
    assert (rc, said) == (1, "rocminfo finds 0 of 8 GPUs\n")


def test_a_rehearsal_has_stand_ins_and_leaves_out_what_needs_a_kernel(compiled: Callable[[Cluster], Desired]) -> None:
    """Slurm is told the same of them, so that what it makes of the flag is seen."""
    (rule,) = (rule for rule in RULES if rule.name == "GPUs")
    small = rule.change(SITE, None)  # type: ignore[arg-type]  # it asks nothing of the lab
    desired = compiled(small)
    text = gres(desired)
    assert "NodeName=m[01-02] Name=gpu Type=mi300x File=/dev/fakegpu[0-7] Flags=amd_gpu_env\n" in text
    roles = {node.role for node in desired.nodes["m01"]}
    assert {"amd_rocm", "gpu_fake"} <= roles
    out = left_out(small, load_roles(bundled.roles()), boots=True)
    assert out is not None
    assert "amd_modules" in out.short
