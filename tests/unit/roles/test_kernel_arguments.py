"""Words for the kernel: which nodes get which, and what checks say of a kernel that was started with others."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.kernel_arguments import KernelArguments
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Change

BLUEPRINT = Path(__file__).parent / "blueprints" / "kernel_arguments.yaml"
FACTS = {"memory_kib": 1 << 40, "cpus": 1 << 20, "gpus": {"fake": 0, "nvidia": 8}}
RECEIPT = {"run": 1, "who": "ada@desk", "trouble": None, "surplus": {}, "unowned": []}
ROLE, TUNING = "kernel_arguments", "tuning"
STARTED = "BOOT_IMAGE=/boot/vmlinuz-6.8 root=UUID=1 ro quiet"
WORDS = "console=tty0 console=ttyS0,115200n8 processor.max_cstate=1 intel_idle.max_cstate=1"


@pytest.fixture(scope="module")
def started() -> Cluster:
    return load(BLUEPRINT).cluster


@pytest.fixture(scope="module")
def desired(started: Cluster, compiled: Callable[[Cluster], Desired]) -> Desired:
    return compiled(started)


def words(desired: Desired, node: str) -> dict[str, str]:
    """The words of a node, by role."""
    return {one.role: said.words for one in desired.nodes[node] for said in one.of(KernelArguments)}


def test_workers_get_theirs_besides_those_of_all(desired: Desired) -> None:
    assert words(desired, "head") == {ROLE: "console=tty0 console=ttyS0,115200n8"}
    assert words(desired, "g01") == {ROLE: WORDS, TUNING: "iommu=pt"}


def test_nobody_gets_any_unasked(compiled: Callable[[Cluster], Desired], rehearsal: Cluster) -> None:
    desired = compiled(rehearsal)
    assert [words(desired, node) for node in desired.nodes] == [{}] * len(desired.nodes)


def changed(started: Cluster, desired: Desired, difference: Mapping[str, Any]) -> Change:
    """What is to be done on a worker that is in service, where one role differs so."""
    observed = Observation("g01", FACTS, {difference["role"]: dict(difference)}, receipt=RECEIPT)
    (step,) = diff(started, desired, {"g01": observed}).changes.steps
    return step.changes["g01"]


@pytest.mark.parametrize(("role", "name"), [(ROLE, "site"), (TUNING, "tuning")])
def test_words_that_are_missing_restart_the_node(started: Cluster, desired: Desired, role: str, name: str) -> None:
    missing = {"role": role, "kernel_arguments": [{"name": name, "exists": False}]}
    change = changed(started, desired, missing)
    assert (change.disruption, change.reboot) == ("reboot", ("kernel_arguments",))


@pytest.mark.parametrize("role", [ROLE, TUNING])
def test_a_kernel_that_was_started_otherwise_restarts_nothing(started: Cluster, desired: Desired, role: str) -> None:
    """Else a machine that starts by another boot loader would be restarted by every apply."""
    change = changed(started, desired, {"role": role, "checks": [{"name": "it has the words", "detail": "no"}]})
    assert (change.reason, change.disruption, change.reboot) == ("check failed", "none", ())


@pytest.fixture
def check(desired: Desired, tmp_path: Path) -> Callable[[str, str], tuple[int, str]]:
    """Run the check of a role where the kernel was started with this; its exit status, and what it says."""

    def run(role: str, cmdline: str) -> tuple[int, str]:
        (wanted,) = [node for node in desired.nodes["g01"] if node.role == role]
        (one,) = wanted.checks
        (tmp_path / "cmdline").write_text(cmdline)
        places = {"/proc/cmdline": str(tmp_path / "cmdline"), "/sys": str(tmp_path / "sys")}
        command = [places.get(word, word) for word in one.command]
        assert command != list(one.command)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


Check = Callable[[str, str], tuple[int, str]]


@pytest.mark.parametrize("cmdline", [f"{STARTED} {WORDS}\n", f"{WORDS} {STARTED}", f" {WORDS}  {STARTED} \n"])
def test_each_word_that_is_there_is_found(check: Check, cmdline: str) -> None:
    assert check(ROLE, cmdline) == (0, "")


@pytest.mark.parametrize(
    ("has", "missing"),
    [
        ("console=tty0 console=ttyS0,115200n8 processor.max_cstate=1", ["intel_idle.max_cstate=1"]),
        (WORDS.replace("processor.max_cstate=1", "processor.max_cstate=10"), ["processor.max_cstate=1"]),
        (WORDS.replace("processor.max_cstate=1", "processor-max_cstate=1"), ["processor.max_cstate=1"]),  # no pattern
        (WORDS.replace("console=tty0", "xconsole=tty0 console=tty01"), ["console=tty0"]),
        ("", WORDS.split()),
    ],
)
def test_each_word_that_is_not_there_as_a_whole_is_named(check: Check, has: str, missing: list[str]) -> None:
    status, said = check(ROLE, f"{STARTED} {has}\n")
    assert (status, [line.split(":")[0] for line in said.splitlines()]) == (
        1,
        [f"the kernel was started without {word}" for word in missing],
    )


def device(sys: Path, place: str, link: str, translation: str | None) -> None:
    """One that a driver or a class has, in a group of the IOMMU's, if there is one."""
    folder = sys / "devices" / place
    folder.mkdir(parents=True)
    if translation:
        (folder / "iommu_group").mkdir()
        (folder / "iommu_group" / "type").write_text(f"{translation}\n")
    (sys / link).parent.mkdir(parents=True, exist_ok=True)
    (sys / link).symlink_to(folder)


GPU, ADAPTER = "0000:1b:00.0", "0000:18:00.0"
GPU_OF_DRIVER, ADAPTER_OF_CLASS = f"bus/pci/drivers/nvidia/{GPU}", "class/infiniband/ibp24s0/device"


@pytest.mark.parametrize("translation", ["identity", None])
def test_devices_whose_addresses_are_left_alone_are_right(
    check: Check, tmp_path: Path, translation: str | None
) -> None:
    device(tmp_path / "sys", GPU, GPU_OF_DRIVER, translation)
    device(tmp_path / "sys", ADAPTER, ADAPTER_OF_CLASS, translation)
    assert check(TUNING, f"{STARTED} iommu=pt\n") == (0, "")


def test_no_device_is_no_fault_of_the_kernel_s(check: Check) -> None:
    assert check(TUNING, f"{STARTED} iommu=pt\n") == (0, "")


@pytest.mark.parametrize(
    ("place", "link"),
    [(GPU, GPU_OF_DRIVER), (GPU, GPU_OF_DRIVER.replace("nvidia", "amdgpu")), (ADAPTER, ADAPTER_OF_CLASS)],
)
def test_a_device_with_addresses_of_the_iommu_s_is_named(check: Check, tmp_path: Path, place: str, link: str) -> None:
    device(tmp_path / "sys", place, link, "DMA-FQ")
    status, said = check(TUNING, f"{STARTED} iommu=pt\n")
    assert status == 1 and said.startswith(f"{place} has addresses of the IOMMU's (DMA-FQ)")


@pytest.mark.parametrize("word", ["", "iommu=pt,strict", "intel_iommu=pt"])
def test_without_the_word_nothing_else_counts(check: Check, tmp_path: Path, word: str) -> None:
    device(tmp_path / "sys", GPU, GPU_OF_DRIVER, "identity")
    status, said = check(TUNING, f"{STARTED} {word}\n")
    assert status == 1 and said.startswith("the kernel was started without iommu=pt: restart the node")
