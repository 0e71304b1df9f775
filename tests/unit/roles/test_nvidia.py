"""NVIDIA's driver: what its checks say of nodes that are not well, each check run by a shell as a node runs it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from ClusterShell.NodeSet import NodeSet

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired
from tests.support.shipped import ROOT, anywhere

Compiled = Callable[[Cluster], Desired]
ROCE = ROOT / "blueprints" / "roce-pair-16.yaml"
SITE = load(ROCE).cluster
SET = ("libcuda1", "libnvidia-ml1", "nvidia-smi")
PLACES = (
    "/boot/",
    "/lib/modules/",
    "/sys/firmware/",
    "/proc/driver/nvidia-nvswitch/",
)  # those of this machine are not read


@pytest.fixture(name="desired", scope="module")
def _desired(compiled: Compiled) -> Desired:
    return compiled(SITE)


class Ended(NamedTuple):
    """How a check ended."""

    rc: int
    said: str


def check(desired: Desired, role: str, name: str, folder: Path, tools: dict[str, str], **paths: str) -> Ended:
    """Run a check with `tools` in place of a node's own, and other files in place of these `paths`."""
    (found,) = (node for node in desired.nodes["g01"] if node.role == role)
    (command,) = (check.command for check in found.checks if name in check.name)
    for tool, text in tools.items():
        (folder / tool).write_text(f"#!/bin/sh\n{text}\n")
        (folder / tool).chmod(0o755)
    argv = list(command)
    for place in PLACES:
        argv[-1] = argv[-1].replace(place, f"{folder}{place}")
    for path, text in paths.items():
        (folder / path).write_text(text)
        argv[-1] = argv[-1].replace(f"/proc/{path.replace('_', '/')}", str(folder / path))
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=600)
    return Ended(done.returncode, done.stdout)


def installed(**versions: str) -> dict[str, str]:
    """What dpkg says of packages of the driver's source."""
    lines = [f"ii  nvidia-graphics-drivers {version} {name.replace('_', '-')}" for name, version in versions.items()]
    lines += ["ii  nvidia-persistenced 535.171.04 nvidia-persistenced", "rc  nvidia-graphics-drivers 470.1 libold"]
    return {"dpkg-query": "cat <<'END'\n" + "\n".join(lines) + "\nEND"}


ONE_SET = "all of the driver is of the version"
LOADED = "the module that is loaded"
BUILT = "has modules of that version"
FABRIC = "Fabric Manager is of that version"
SWITCHES = "Fabric Manager runs where there are NVSwitches"
FIRMWARE = "Secure Boot is as the blueprint says"
SIGNED = "with Secure Boot, modules are signed"
NOUVEAU = "nouveau is not loaded"
WELL = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Thu Jul  3 21:53:26 UTC 2025\n"


def test_libraries_that_moved_are_named(desired: Desired, tmp_path: Path) -> None:
    right = installed(libcuda1="535.261.03", libnvidia_ml1="535.261.03")
    assert check(desired, "nvidia_driver", ONE_SET, tmp_path, right) == (0, "")
    moved = installed(libcuda1="535.309.01", libnvidia_ml1="535.261.03")
    said = check(desired, "nvidia_driver", ONE_SET, tmp_path, moved)
    assert said == (1, "libcuda1 is 535.309.01, not 535.261.03\n")


def test_an_old_module_under_new_libraries_asks_for_a_restart(desired: Desired, tmp_path: Path) -> None:
    said = check(desired, "nvidia_modules", LOADED, tmp_path, {}, driver_nvidia_version=WELL)
    assert said == (0, "")
    old = WELL.replace("535.261.03", "535.216.01")
    rc, text = check(desired, "nvidia_modules", LOADED, tmp_path, {}, driver_nvidia_version=old)
    assert rc == 1
    assert "535.216.01" in text
    assert text.endswith("not 535.261.03: restart the node\n")


def test_a_kernel_whose_headers_were_missing_is_named(desired: Desired, tmp_path: Path) -> None:
    kernels = {"uname": "echo 6.1.0-40-amd64", "linux-version": "echo 6.1.0-56-amd64"}
    both = {"modinfo": 'test "$5" = nvidia-current-open && echo 535.261.03'}
    assert check(desired, "nvidia_modules", BUILT, tmp_path, kernels | both) == (0, "")
    one = {"modinfo": 'test "$2" = 6.1.0-40-amd64 && echo 535.261.03'}
    rc, text = check(desired, "nvidia_modules", BUILT, tmp_path, kernels | one)
    assert rc == 1
    assert text == (
        "6.1.0-56-amd64 has no headers, so that DKMS left its modules out: "
        "apt-get install linux-headers-6.1.0-56-amd64, or apt-get purge linux-image-6.1.0-56-amd64\n"
    )
    (tmp_path / "lib/modules/6.1.0-56-amd64/build/include").mkdir(parents=True)
    rc, text = check(desired, "nvidia_modules", BUILT, tmp_path, kernels | one)
    assert (rc, text.partition(":")[0]) == (1, "6.1.0-56-amd64 has nvidia not at all, not 535.261.03")


def firmware(folder: Path, state: int) -> None:
    """What the firmware says of Secure Boot, after the four bytes of the variable's attributes."""
    variables = folder / "sys/firmware/efi/efivars"
    variables.mkdir(parents=True, exist_ok=True)
    (variables / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(bytes([6, 0, 0, 0, state]))


def test_secure_boot_is_looked_at_before_anything_is_installed(desired: Desired, tmp_path: Path) -> None:
    assert check(desired, "nvidia_modules", FIRMWARE, tmp_path, {}) == (0, "")  # a machine without such firmware
    firmware(tmp_path, 0)
    assert check(desired, "nvidia_modules", FIRMWARE, tmp_path, {}) == (0, "")
    firmware(tmp_path, 1)
    rc, text = check(desired, "nvidia_modules", FIRMWARE, tmp_path, {})
    assert rc == 1
    assert text.startswith("it is on, and refuses the modules that are built here: turn it off in the firmware, or ")
    (modules,) = (node for node in desired.nodes["g01"] if node.role == "nvidia_modules")
    assert [check.name for check in modules.checks if check.first] == ["Secure Boot is as the blueprint says"]


def test_with_secure_boot_modules_that_nobody_signed_are_named(tmp_path: Path, compiled: Compiled) -> None:
    said = "frameworks: {pytorch"
    text = anywhere(ROCE).replace(said, f"preinstalled: {{secure_boot: true, signed_by: owner}}\n  {said}")
    (tmp_path / "blueprint.yaml").write_text(text)
    site = compiled(load(tmp_path / "blueprint.yaml", judged=True).cluster)
    kernels = {"uname": "echo 6.1.0-40-amd64", "linux-version": "echo 6.1.0-56-amd64"}
    one = {"modinfo": 'test "$2 $4" = "6.1.0-40-amd64 signer" && echo somebody'}
    rc, said = check(site, "nvidia_modules", SIGNED, tmp_path, kernels | one)
    assert rc == 1
    assert said.startswith("nvidia of 6.1.0-56-amd64 has no signature, so that the kernel refuses it: name the key ")
    (modules,) = (role for role in site.nodes["g01"] if role.role == "nvidia_modules")
    assert not [check for check in modules.checks if check.first]  # the blueprint knows, and rules ask who signs


def test_fabric_manager_of_another_version_or_at_rest_is_named(desired: Desired, tmp_path: Path) -> None:
    def of_version(version: str) -> Ended:
        tools = {"dpkg-query": f"echo 'ii  nvidia-fabricmanager-535 {version}'"}
        return check(desired, "nvidia_driver", FABRIC, tmp_path, tools)

    assert check(desired, "nvidia_driver", FABRIC, tmp_path, {"dpkg-query": "exit 1"}) == (0, "")  # there is none
    assert of_version("535.261.03") == (0, "")
    rc, text = of_version("535.261.04")
    assert (rc, text.partition(":")[0]) == (1, "nvidia-fabricmanager-535 is 535.261.04, not 535.261.03")

    def runs(active: int) -> Ended:
        return check(desired, "nvidia_modules", SWITCHES, tmp_path, {"systemctl": f"exit {active}"})

    assert runs(3) == (0, "")  # without NVSwitches
    (tmp_path / "proc/driver/nvidia-nvswitch/devices").mkdir(parents=True)
    assert runs(0) == (0, "")
    rc, text = runs(3)
    assert rc == 1
    assert text.startswith("NVSwitches are here, and Fabric Manager does not run, so that CUDA ends with error 802: ")


def test_what_only_a_restart_brings_is_looked_at_after_it(desired: Desired) -> None:
    """Libraries are of another version than the loaded module until then: the role that asks for the restart looks."""
    before, after = (
        {name for node in desired.nodes["g01"] if node.role == role for name in (check.name for check in node.checks)}
        for role in ("nvidia_driver", "nvidia_modules")
    )
    for name in (LOADED, SWITCHES):
        assert not [one for one in before if name in one]
        assert [one for one in after if name in one]
    (modules,) = (node for node in desired.nodes["g01"] if node.role == "nvidia_modules")
    assert (modules.disrupts["pins"], modules.disrupts["units"]) == ("reboot", "drain")


def test_nouveau_is_found_in_the_kernel_and_in_the_initial_ram_disk(desired: Desired, tmp_path: Path) -> None:
    kernels = {"uname": "echo 6.1.0-40-amd64", "linux-version": "echo 6.1.0-56-amd64"}
    (tmp_path / "boot").mkdir()
    next_one = tmp_path / "boot/initrd.img-6.1.0-56-amd64"
    next_one.touch()
    disk = "usr/lib/modules/6.1.0-56-amd64/kernel/drivers/gpu/drm/nouveau/nouveau.ko"
    kept = kernels | {"lsinitramfs": f"echo {disk}; echo etc/modprobe.d/hpcforge-nouveau.conf"}
    assert check(desired, "nvidia_modules", NOUVEAU, tmp_path, kept, modules="nvidia 56811520 2 - Live\n") == (0, "")
    rc, text = check(desired, "nvidia_modules", NOUVEAU, tmp_path, kept, modules="nouveau 3014656 0 - Live\n")
    assert (rc, text) == (1, "nouveau is loaded: restart the node\n")
    unkept = kernels | {"lsinitramfs": f"echo {disk}"}
    rc, text = check(desired, "nvidia_modules", NOUVEAU, tmp_path, unkept, modules="nvidia 56811520 2 - Live\n")
    mend = "update-initramfs -u -k 6.1.0-56-amd64"
    assert (rc, text) == (1, f"{next_one} has nouveau and may load it: {mend}, then restart the node\n")
    odd = kernels | {"lsinitramfs": "exit 1"}
    rc, text = check(desired, "nvidia_modules", NOUVEAU, tmp_path, odd, modules="nvidia 56811520 2 - Live\n")
    assert (rc, text) == (1, f"{next_one} cannot be read: {mend}\n")


def test_what_is_installed_is_pinned_and_held(desired: Desired) -> None:
    """No version but one may be chosen, and every package of the set is held."""
    resources = [
        resource for role in desired.nodes["g01"] if role.role.startswith("nvidia_") for resource in role.resources
    ]
    pins = {resource.name: resource for resource in resources if type(resource).kind == "pins"}
    first, second = ("version 535.261.03-*", 1001), ("version *", -1)
    assert [(one.pin, one.priority) for _, one in sorted(pins.items())] == [first, second, first, second]
    held = {resource.name for resource in resources if type(resource).kind == "holds"}
    wanted = {name for role in desired.nodes["g01"] if role.role.startswith("nvidia_") for name in role.packages}
    assert wanted <= held
    assert {"linux-image-amd64", "linux-headers-amd64", *SET} <= wanted


def cuda_modules(desired: Desired) -> dict[str, str]:
    files = [file for role in desired.nodes["g01"] for file in role.of(File)]
    return {
        file.path: desired.texts[str(file.text)] for file in files if file.path.startswith("/etc/lmod/modules/cuda/")
    }


def test_each_toolkit_of_nvidias_repository_is_a_module(compiled: Compiled) -> None:
    site = ROOT / "tests" / "unit" / "roles" / "blueprints" / "nvidia-ubuntu.yaml"
    cluster = load(site).cluster
    assert cluster.nvidia is not None
    assert [(toolkit.version, toolkit.home) for toolkit in cluster.nvidia.toolkits] == [
        ("12.8", "/usr/local/cuda-12.8"),
        ("13.0", "/usr/local/cuda-13.0"),
    ]
    modules = cuda_modules(
        compiled(replace(cluster, variables={**cluster.variables, "lmod": {"enabled": True, "defaults": []}}))
    )
    assert sorted(modules) == [f"/etc/lmod/modules/cuda/{version}.lua" for version in ("12.8", "13.0")]
    text = modules["/etc/lmod/modules/cuda/12.8.lua"]
    assert 'prepend_path("PATH", "/usr/local/cuda-12.8/bin")\n' in text
    assert 'prepend_path("LD_LIBRARY_PATH", "/usr/local/cuda-12.8/lib64")\n' in text


@pytest.mark.parametrize("release", ["12", "13"])
def test_what_is_installed_is_what_the_table_says_there_is(release: str, tmp_path: Path, compiled: Compiled) -> None:
    driver, cuda = {"12": ("535.309.01", "11.8"), "13": ("550.163.01", "12.4")}[release]
    text = anywhere(ROCE).replace('release: "12"', f'release: "{release}"')
    text = re.sub(r"nvidia: {.*}", f'nvidia: {{driver: "{driver}", modules: closed, cuda: ["{cuda}"]}}', text)
    (tmp_path / "blueprint.yaml").write_text(text.replace("\nroles:\n", "\nroles:\n  lmod: {enabled: true}\n"))
    desired = compiled(load(tmp_path / "blueprint.yaml", judged=True).cluster)
    assert {*SET, "nvidia-cuda-toolkit", "nvidia-kernel-dkms"} <= {
        name for role in desired.nodes["g01"] for name in role.packages
    }
    module = cuda_modules(desired)[f"/etc/lmod/modules/cuda/{cuda}.lua"]
    assert 'setenv("CUDA_HOME", "/usr")\n' in module
    assert 'prepend_path("PATH", "/usr/lib/nvidia-cuda-toolkit/bin")\n' in module  # its gcc, else the node's is used


@pytest.mark.parametrize("path", sorted((ROOT / "blueprints").glob("*.yaml")), ids=lambda path: path.stem)
def test_slurm_is_told_of_every_gpu_whether_or_not_it_was_built_with_nvml(path: Path, compiled: Compiled) -> None:
    """Debian has the plugin in a package of its own; without it AutoDetect=nvml finds none, and nodes are invalid."""
    cluster = load(path).cluster
    desired = compiled(cluster)
    files = [one for role in desired.nodes[cluster.slurm.controller] for one in role.of(File)]
    (text,) = (desired.texts[file.text] for file in files if file.path == "/etc/slurm/gres.conf")
    assert re.findall(".*AutoDetect.*", text) == ["AutoDetect=off"]
    told = {}
    for names, _, devices in re.findall(r"^NodeName=(\S+) Name=gpu Type=(\S+) File=(\S+)$", text, re.MULTILINE):
        told |= dict.fromkeys(NodeSet(names), len(NodeSet(devices)))
    assert told == {node.name: node.gpus.count for node in cluster.workers if node.gpus}
