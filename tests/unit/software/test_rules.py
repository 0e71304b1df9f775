"""What is said of a blueprint's software: traps that are about versions, at their line; and what is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import Diagnostic, InvalidInput
from hpcforge.catalog import load_catalog
from hpcforge.catalog.compatibility import load_compatibility
from hpcforge.cluster import load
from hpcforge.design.facility.rules import explained
from hpcforge.software.rules import markdown, rules
from tests.unit.design.facility.test_placement import hpcforge

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "blueprints").glob("*.yaml"))
TEXT = """schema: 1
name: small
domain: small.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: generic-1u, addresses: 10.1.0.1}
  w[01-04]: {functions: [worker], hardware: MODEL, addresses: "10.1.0.[11-14]"}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}, depot: {on: head}}
hardware: {volta-4u: {like: dgx-h100, gpus: {model: v100-sxm2, count: 8}, gpu_form_factors: [sxm2], nvswitch: false}}
software:
  os: {name: debian, release: "RELEASE"}
  frameworks: FRAMEWORKS
  preinstalled:
    PRESENT
slurm:
  controller: head
  reserve: {cores: 1, memory_gib: 1}
  partitions: {main: {nodes: all, default: true}}
"""
FIRST = TEXT.splitlines().index("    PRESENT") + 1


def of_software(
    folder: Path, present: str, hardware: str = "dgx-h100", release: str = "12", pytorch: str | None = None
) -> list[Diagnostic]:
    """What rules of software say of a blueprint; `present` has its keys, a line each."""
    text = TEXT.replace("MODEL", hardware).replace("RELEASE", release)
    text = text.replace("FRAMEWORKS", f'{{pytorch: "{pytorch}"}}' if pytorch else "{}")
    path = folder / "blueprint.yaml"
    path.write_text(text.replace("PRESENT", present.replace("\n", "\n    ")))
    loaded = load(path, judged=False)
    return [one for one in (*loaded.diagnostics, *loaded.not_checked) if one.message.startswith("SOFTWARE-")]


DRIVER = 'driver: "535.261.03"\nfabric_manager: matched'

# mistakes that are about versions: what is written, on which machine; the code, the line (from 0) and the hint
TRAPS = {
    "fabric manager of another version": (
        'driver: "530.41.03"\nfabric_manager: "530.30.02"', "dgx-a100", "SOFTWARE-021", 1, "fabric_manager: matched",
    ),
    "no fabric manager on an NVSwitch machine": (
        'driver: "535.261.03"', "dgx-h100", "SOFTWARE-020", 0, "fabric_manager: matched",
    ),
    "the kernel moves under the driver": (
        'driver: "570.153.02"\nfabric_manager: matched\nkernel: "6.15.2-1"', "dgx-h100", "SOFTWARE-031", 0,
        "driver: 570.172.08",
    ),
    "Secure Boot with unsigned modules": (
        f"{DRIVER}\nsecure_boot: true\nsigned_by: none", "dgx-h100", "SOFTWARE-040", 3, "signed_by: owner",
    ),
    "Secure Boot, and nobody said who signs": (
        f"{DRIVER}\nsecure_boot: true", "dgx-h100", "SOFTWARE-040", 0, "signed_by: owner",
    ),
    "a kernel's point release breaks DOCA": (
        f'{DRIVER}\nkernel: "5.14.0-687.12.1.el9_8"\nofed: "3.2.2"', "dgx-h100", "SOFTWARE-033", 3, "ofed: 3.2.3",
    ),
    "peermem without what it is a client of": (
        f"{DRIVER}\ngpudirect: peermem", "dgx-h100", "SOFTWARE-070", 2, "gpudirect: dma-buf",
    ),
    "DMA-BUF with closed modules": (
        f'{DRIVER}\nkernel: "6.1.0-40-amd64"\nmodules: closed\ngpudirect: dma-buf', "dgx-h100", "SOFTWARE-071", 3,
        "modules: open",
    ),
    "DCGM older than the driver": (
        'driver: "580.82.07"\nfabric_manager: matched\ndcgm: "3.3.9"', "dgx-h100", "SOFTWARE-050", 2, "dcgm: 4.5.3",
    ),
    "Blackwell with closed modules": (
        'driver: "580.82.07"\nfabric_manager: matched\nmodules: closed', "dgx-b200", "SOFTWARE-013", 2, "modules: open",
    ),
    "Volta with open modules": (
        'driver: "535.261.03"\nmodules: open', "volta-4u", "SOFTWARE-014", 1, "modules: closed",
    ),
    "a toolkit newer than the driver": (
        f'{DRIVER}\ncuda: ["12.4", "13.0"]', "dgx-h100", "SOFTWARE-003", 2, "cuda: 12.8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_refused_at_its_line_with_the_nearest_set(trap: str, tmp_path: Path) -> None:
    present, hardware, code, line, hint = TRAPS[trap]
    [found] = [one for one in of_software(tmp_path, present, hardware) if one.severity == "error"]
    assert found.message.startswith(f"{code}: ")
    assert found.line == FIRST + line
    assert f"software.preinstalled.{hint}" in (found.hint or "")
    with pytest.raises(InvalidInput, match=code):
        load(tmp_path / "blueprint.yaml", judged=True)  # as a plan and an apply do


def test_a_kernel_that_may_refuse_enrolled_keys_is_a_warning(tmp_path: Path) -> None:
    text = f'{DRIVER}\nsecure_boot: true\nsigned_by: owner\nkernel: "6.18.48-amd64"'
    [found] = of_software(tmp_path, text)
    assert (found.severity, found.message[:12]) == ("warning", "SOFTWARE-041")


def test_the_pinned_pytorch_against_the_drivers_at_hand(tmp_path: Path) -> None:
    for release, driver in (("12", "535.261.03"), ("13", "550.163.01")):
        assert driver in load_compatibility().offered["driver"]
        present = f'driver: "{driver}"\nfabric_manager: matched'
        assert of_software(tmp_path, present, release=release, pytorch="2.10.0") == []
    old = 'driver: "470.256.02"\nfabric_manager: matched'
    [found] = [one for one in of_software(tmp_path, old, "dgx-a100", "12", "2.10.0") if one.severity == "error"]
    assert found.message.startswith(
        "SOFTWARE-004: PyTorch 2.10.0 for CUDA 12.8 and driver 470.256.02 do not go together"
    )
    nearest = "software.preinstalled.driver: 535.261.03 (Debian 12, non-free, instead of 470.256.02)"
    assert found.hint == f"nearest set that works: {nearest}"
    for build in load_catalog().pytorch:
        assert build.cuda is None or build.cuda.startswith("12.")  # 13 needs a driver that no Debian has


def test_a_blueprint_that_says_nothing_of_its_driver_is_not_refused(tmp_path: Path) -> None:
    [found] = of_software(tmp_path, 'kernel: "6.1.0-40-amd64"', pytorch="2.10.0")
    assert found.severity == "not-checked"
    assert found.hint == "`software.nvidia.driver`: hpcforge installs it; `software.preinstalled.driver`: nodes have it"


# what is asked of Debian, and which release; the code, the line (from 0, of `nvidia:`) and the hint
NOT_THERE = {
    "a driver of the next release": (
        '{driver: "550.163.01", modules: closed}', "12", "SOFTWARE-091", "driver: 535.309.01",
    ),
    "a driver of the release before": (
        '{driver: "535.261.03", modules: closed}', "13", "SOFTWARE-094", "driver: 550.163.01",
    ),
    "open modules of a security update": (
        '{driver: "535.309.01", modules: open}', "12", "SOFTWARE-092", "modules: closed",
    ),
    "CUDA of the next release": (
        '{driver: "535.261.03", modules: open, cuda: ["12.4"]}', "12", "SOFTWARE-093", "cuda: 11.8",
    ),
    "CUDA that no driver of Debian runs": (
        '{driver: "550.163.01", modules: open, cuda: ["13.0"]}', "13", "SOFTWARE-095", "cuda: 12.4",
    ),
    "a distribution of which nothing is known": (
        '{driver: "550.163.01", modules: open}', "24.04", "SOFTWARE-090",
        "NVIDIA's repository under `software.sources.nvidia` (docs/software.md): software.nvidia.driver: 580.82.07",
    ),
    "what NVIDIA's repository has as it was asked for": (
        '{driver: "570.172.08", modules: open, cuda: ["12.8"]}', "12", "SOFTWARE-093",
        "NVIDIA's repository has what you ask for: name it under `software.sources.nvidia` (docs/software.md); else",
    ),
}  # fmt: skip


def installing(folder: Path, nvidia: str, release: str, present: str = "{}", hardware: str = "gpu-4u") -> Path:
    """A blueprint that has a driver installed on machines without NVSwitches."""
    text = TEXT.replace("MODEL", hardware).replace("FRAMEWORKS", "{}").replace("volta-4u: {like", "gpu-4u: {like")
    text = (
        text.replace("v100-sxm2", "l40s")
        .replace("sxm2", "pcie")
        .replace("  preinstalled:\n    PRESENT", "  nvidia: NVIDIA")
    )
    text = text.replace("NVIDIA", f"{nvidia}\n  preinstalled: {present}").replace("RELEASE", release)
    path = folder / "blueprint.yaml"
    path.write_text(text.replace("debian", "ubuntu") if release == "24.04" else text)
    return path


@pytest.mark.parametrize("case", NOT_THERE)
def test_what_the_distribution_does_not_have_is_refused_with_the_nearest_that_it_has(case: str, tmp_path: Path) -> None:
    nvidia, release, code, hint = NOT_THERE[case]
    with pytest.raises(InvalidInput) as refused:
        load(installing(tmp_path, nvidia, release), judged=True)
    first = next(one for one in refused.value.diagnostics if code in one.message)
    assert first.line == FIRST - 1
    assert hint in (first.hint or "")


def test_a_kernel_that_the_driver_does_not_build_for_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """The driver is installed, the kernel a site's own: Debian has no other driver, so the kernel goes back."""
    nvidia = '{driver: "550.163.01", modules: open}'
    load(installing(tmp_path, nvidia, "13", '{kernel: "6.12.48+deb13-amd64"}'), judged=True)
    with pytest.raises(InvalidInput) as refused:
        load(installing(tmp_path, nvidia, "13", '{kernel: "6.17.13-2-pve"}'), judged=True)
    [found] = refused.value.diagnostics
    assert found.message.startswith("SOFTWARE-034: driver 550.163.01 and kernel 6.17.13-2-pve do not go together: ")
    nearest = "software.preinstalled.kernel: 6.12.0 (Debian 13, instead of 6.17.13-2-pve)"
    assert found.hint == f"nearest set that works: {nearest}"


def test_what_is_installed_and_what_is_brought_are_judged_together(tmp_path: Path) -> None:
    nvidia = '{driver: "550.163.01", modules: open, cuda: ["12.4"]}'
    load(installing(tmp_path, nvidia, "13", '{cuda: ["11.8", "12.8"], fabric_manager: matched}'), judged=True)
    with pytest.raises(InvalidInput, match="SOFTWARE-021"):
        load(installing(tmp_path, nvidia, "13", '{fabric_manager: "550.144.03"}'), judged=True)
    with pytest.raises(InvalidInput, match="SOFTWARE-003"):
        load(installing(tmp_path, nvidia, "13", '{cuda: ["13.0"]}'), judged=True)
    with pytest.raises(InvalidInput, match="SOFTWARE-040"):
        load(installing(tmp_path, nvidia, "13", "{secure_boot: true, signed_by: none}"), judged=True)


def test_a_machine_with_nvswitches_brings_fabric_manager_which_debian_does_not_have(tmp_path: Path) -> None:
    nvidia = '{driver: "535.261.03", modules: open}'
    with pytest.raises(InvalidInput, match="SOFTWARE-020"):
        load(installing(tmp_path, nvidia, "12", hardware="dgx-h100"), judged=True)
    load(installing(tmp_path, nvidia, "12", "{fabric_manager: matched}", "dgx-h100"), judged=True)


@pytest.mark.parametrize(
    ("nvidia", "codes", "hint"),
    [
        ('cuda: ["12.8"]', "020 091 093", "NVIDIA's repository has what you ask for: name it under "),
        ("dcgm: 4.5.3", "020 091 100", "NVIDIA's repository has what you ask for: name it under "),
        ('cuda: ["11.8"], dcgm: 4.5.3', "020 091 100", "nearest set that works, with NVIDIA's repository under "),
    ],
)
def test_what_nvidia_s_repository_has_is_proposed_from_there(
    nvidia: str, codes: str, hint: str, tmp_path: Path
) -> None:
    """No change of versions alone gets DCGM from Debian: it was said that nothing works."""
    with pytest.raises(InvalidInput) as refused:
        load(
            installing(tmp_path, f'{{driver: "570.172.08", modules: open, {nvidia}}}', "12", hardware="dgx-h100"),
            judged=True,
        )
    found = [one for one in refused.value.diagnostics if one.severity == "error"]
    assert " ".join(sorted(one.message[9:12] for one in found)) == codes
    assert {(one.hint or "").startswith(f"{hint}`software.sources.nvidia` (docs/software.md)") for one in found} == {
        True
    }


@pytest.mark.parametrize("twice", ['driver: "550.163.01"', "modules: open"])
def test_a_driver_is_installed_or_brought(twice: str, tmp_path: Path) -> None:
    nvidia = '{driver: "550.163.01", modules: open}'
    with pytest.raises(InvalidInput, match=r"`software.nvidia` already installs the (driver|modules)"):
        load(installing(tmp_path, nvidia, "13", f"{{{twice}}}"))


def test_a_driver_without_a_gpu_is_refused(tmp_path: Path) -> None:
    path = installing(tmp_path, '{driver: "550.163.01", modules: open}', "13")
    path.write_text(path.read_text().replace("hardware: gpu-4u,", "hardware: rehearsal-node,"))
    with pytest.raises(InvalidInput, match="no node has an NVIDIA GPU"):
        load(path)


def test_gpus_of_one_node_count_too(tmp_path: Path) -> None:
    of_software(tmp_path, DRIVER)
    path = tmp_path / "blueprint.yaml"
    path.write_text(path.read_text() + 'overrides: {w02: {gpus: {model: b200-sxm, count: 8}, reason: "a loan"}}\n')
    with pytest.raises(InvalidInput, match="SOFTWARE-012") as refused:
        load(path, judged=True)
    said = [one for one in refused.value.diagnostics if one.severity == "error"]
    assert "driver: 570.172.08" in (said[0].hint or "")
    assert "modules: open" in (said[0].hint or "")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_sites_are_accepted(path: Path) -> None:
    loaded = load(path)
    said = [one for one in (*loaded.diagnostics, *loaded.not_checked) if one.message.startswith("SOFTWARE-")]
    assert said == []
    real = {node.gpus.model for node in loaded.cluster.nodes if node.gpus} - {"fake"}
    if real and loaded.cluster.pytorch:
        assert loaded.cluster.driver


def test_slurm_is_a_part_of_the_set(tmp_path: Path) -> None:
    for release, refused in (("12", True), ("13", False)):
        of_software(tmp_path, DRIVER, release=release)
        path = tmp_path / "blueprint.yaml"
        path.write_text(path.read_text() + "  topology: {plugin: block}\n")
        said = [one for one in load(path).diagnostics if one.severity == "error"]
        assert [(one.message[:12], one.line) for one in said] == [("SOFTWARE-080", FIRST + 6)] * refused
        assert [one.hint for one in said] == [
            "nearest set that works: slurm.topology.plugin: tree (instead of block)"
        ] * refused


def test_two_topologies_take_a_slurm_that_has_them_on_all_nodes(tmp_path: Path) -> None:
    path = tmp_path / "blueprint.yaml"
    for release, worker, oldest in (
        ("13", "13", "24.11 of debian 13"),
        ("14", "13", "24.11 of debian 13"),
        ("14", "14", ""),
    ):
        of_software(tmp_path, DRIVER, release=release)
        behind = f'overrides: {{w02: {{release: "{worker}", reason: not upgraded yet}}}}\n'
        path.write_text(path.read_text() + "  topology: {plugin: flat}\n" + behind)
        path.write_text(path.read_text().replace("default: true}", "default: true, topology: flat}"))
        assert not [one for one in load(path).diagnostics if one.severity == "error"]
        path.write_text(path.read_text().replace("plugin: flat", "plugin: tree"))
        errors = [one for one in load(path).judged.diagnostics if one.message.startswith("SOFTWARE-08")]
        assert [one.message for one in errors] == [
            f"SOFTWARE-082: topology/flat for the partition main, beside topology/tree and Slurm {oldest} do not go "
            "together: Slurm has topology.yaml, and partitions with their own topology, from 25.05 on; all nodes read "
            "slurm.conf."
        ] * bool(oldest)
        assert [one.hint for one in errors] == [
            "nearest set that works: slurm.partitions.main.topology: null (that of all, instead of flat)"
        ] * bool(oldest)


def test_values_that_are_none(tmp_path: Path) -> None:
    for wrong in ('driver: "535"', "driver: latest", 'kernel: "six"', "fabric_manager: same", "modules: free"):
        with pytest.raises(InvalidInput):
            of_software(tmp_path, wrong)


def test_every_machine_with_gpus_of_nvidia_has_an_architecture() -> None:
    catalog = load_catalog()
    assert [name for name, gpu in catalog.gpus.items() if gpu.vendor != "none" and gpu.architecture is None] == []
    switched = {name for name, server in catalog.servers.items() if server.nvswitch}
    assert {"dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "dell-xe9680-h100"} <= switched


def test_explain_knows_every_rule() -> None:
    said = json.loads(hpcforge("explain", "--json").stdout)["rules"]
    assert {rule.code for rule in load_compatibility().rules} <= {one["code"] for one in said}
    result = hpcforge("explain", "software-021")
    assert result.stdout == explained(rules()["SOFTWARE-021"])
    assert "github.com/NVIDIA/gpu-operator/issues/544" in result.stdout


def test_the_document_lists_every_rule() -> None:
    text = (ROOT / "docs" / "software.md").read_text(encoding="utf-8")
    start, end = "<!-- rules: from hpcforge/catalog/compatibility.yaml -->\n", "<!-- end of rules -->"
    assert text[text.index(start) + len(start) : text.index(end)] == markdown()
    assert "It does not install OFED." in text
