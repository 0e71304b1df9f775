"""GPUs of AMD as the kernel tells of them, in a planted /sys, and against what is declared.

DERIVED from documents, not recorded: no real card has said this. Which files there are and what is in them: Linux,
Documentation/gpu/amdgpu/driver-misc.rst and thermal.rst, Documentation/ABI/testing/sysfs-bus-pci, and kfd_topology.c.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cluster.model import GpuModel
from hpcforge.node import answer_types
from hpcforge.node.gpus import amdgpu
from hpcforge.plan.admission import DeclaredWorker, shortfalls
from hpcforge.plan.gpus import remarks
from hpcforge.report.status import gpus_table
from hpcforge.typed_json import fits

MI300X = load_catalog().gpus["mi300x"]
assert MI300X.driver_names
KNOWN = GpuModel(MI300X.driver_names, MI300X.memory_gb, None, MI300X.pcie_lanes, MI300X.pcie_generation)
WORKER = DeclaredWorker("g01", 1 << 20, 1 << 20, 8, 8, "mi300x", "amd", gpu_known=KNOWN)
GB = 192 << 30  # bytes: a card marketed with 192 GB has as many GiB
ADDRESSES = [f"0000:{0x05 + 0x10 * index:02x}:00.0" for index in range(8)]
IN = {
    "vendor": "0x1002", "class": "0x120000", "mem_info_vram_total": str(GB), "serial_number": "PCB00000000{}",
    "unique_id": "5ac0ffee{:08x}", "vbios_version": "113-M3000100-102", "max_link_width": "16",
    "current_link_width": "16", "max_link_speed": "32.0 GT/s PCIe", "current_link_speed": "32.0 GT/s PCIe",
}  # fmt: skip


def plant(sys: Path, bridges: tuple[str, ...] = ("0x1022", "0x1002")) -> Path:
    """A /sys of eight MI300X, each below these bridges: that of a slot (AMD), and one on its card (ATI)."""
    write(sys / "module/amdgpu/refcnt", "1")
    write(sys / "bus/pci/drivers/amdgpu/bind", "")
    node(sys, 0, "cpu_cores_count 96\nsimd_count 0\nlocation_id 0\n")
    for index, address in enumerate(ADDRESSES):
        at = sys / f"devices/pci0000:{index:02x}"
        for depth, vendor in enumerate(bridges):
            at /= f"0000:{index:02x}:0{depth + 1}.1"
            write(at / "vendor", vendor)
            write(at / "class", "0x060400")
            for file in ("max_link_width", "current_link_width", "max_link_speed", "current_link_speed"):
                write(at / file, IN[file])
        for file, text in IN.items():
            write(at / address / file, text.format(index))
        (at / address / "driver").symlink_to(sys / "bus/pci/drivers/amdgpu")
        (sys / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
        (sys / "bus/pci/devices" / address).symlink_to(at / address)
        bus = 0x05 + 0x10 * index
        node(sys, index + 1, said(location_id=bus << 8, drm_render_minor=128 + index))
    return sys


def said(**changed: int) -> str:
    """What the KFD says of a GPU."""
    values = {"simd_count": 1216, "vendor_id": 4098, "gfx_target_version": 90402, "domain": 0, **changed}
    return "".join(f"{name} {value}\n" for name, value in values.items())


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def node(sys: Path, number: int, text: str) -> None:
    write(sys / f"class/kfd/kfd/topology/nodes/{number}/properties", text)


def gpu(sys: Path, index: int) -> Path:
    return (sys / "bus/pci/devices" / ADDRESSES[index]).resolve()


def told(sys: Path) -> Mapping[str, Any]:
    found = amdgpu.told(sys)
    assert found is not None
    fits(answer_types.Nvml)(found)
    return found


def short(sys: Path, worker: DeclaredWorker = WORKER) -> dict[str, tuple[str, str]]:
    """What falls short: by what, as declared and as found."""
    facts = {"memory_kib": 1 << 30, "cpus": 8, "gpus": {"amd": len(amdgpu.on_bus(sys / "bus/pci/devices"))}}
    found = shortfalls(worker, {**facts, "nvml": None, "amdgpu": amdgpu.told(sys)}, gpus_ready=True)
    return {one.what: (one.declared, one.observed) for one in found}


def test_eight_that_are_well_are_told_of_and_admitted(tmp_path: Path) -> None:
    found = told(plant(tmp_path))
    assert (found["driver"], found["error"], found["on_bus"]) == (None, None, ADDRESSES)
    first = found["gpus"][0]
    assert (first["model"], first["memory_mib"], first["serial"]) == ("gfx942", 192 << 10, "PCB000000000")
    assert (first["pcie_width"], first["pcie_generation_max"], first["error"]) == (16, 5, None)
    assert [one["index"] for one in found["gpus"]] == list(range(8))
    assert short(tmp_path) == {}
    assert list(remarks(found)) == []
    assert "8 gfx942" in gpus_table({"g01": found})


def test_a_node_without_has_nothing_to_tell(tmp_path: Path) -> None:
    assert amdgpu.told(tmp_path) is None
    write(tmp_path / "bus/pci/devices/0000:01:00.0/vendor", "0x10de")
    write(tmp_path / "bus/pci/devices/0000:02:00.0/vendor", "0x1002")
    write(tmp_path / "bus/pci/devices/0000:02:00.0/class", "0x030000")  # that of a processor or a screen
    assert amdgpu.told(tmp_path) is None


def no_module(sys: Path) -> None:
    (sys / "module/amdgpu/refcnt").unlink()
    (sys / "module/amdgpu").rmdir()


def not_taken(sys: Path) -> None:
    (gpu(sys, 3) / "driver").unlink()


def not_in_kfd(sys: Path) -> None:
    (sys / "class/kfd/kfd/topology/nodes/4/properties").unlink()


def off_the_bus(sys: Path) -> None:
    (sys / "bus/pci/devices" / ADDRESSES[3]).unlink()


def little(sys: Path) -> None:
    write(gpu(sys, 3) / "mem_info_vram_total", str(128 << 30))


def other(sys: Path) -> None:
    node(sys, 4, said(gfx_target_version=90010, location_id=0x35 << 8, drm_render_minor=131))


def narrow(sys: Path) -> None:
    write(gpu(sys, 3).parent / "current_link_width", "8")  # of the bridge on the card: the link inside it stays whole


def slot(sys: Path) -> None:
    write(gpu(sys, 3).parent.parent / "max_link_speed", "16.0 GT/s PCIe")


NAMED = f"GPU 3 (serial PCB000000003, PCI {ADDRESSES[3]})"
FAULTS: dict[str, tuple[Callable[[Path], None], str, tuple[str, str]]] = {
    "no driver": (no_module, "GPU driver", ("GPUs that answer", f"unusable ({amdgpu.NO_DRIVER})")),
    "off the bus": (off_the_bus, "GPUs", ("8", "7")),
    "little memory": (little, f"memory of {NAMED}", ("192 GB", "137.4 GB")),
    "another model": (other, f"model of {NAMED}", ("gfx942", "gfx90a")),
    "narrow": (narrow, f"PCIe width of {NAMED}", ("x16", "x8")),
    "old slot": (slot, f"PCIe generation of {NAMED}", ("5", "4 at most in its slot")),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_they_lack_is_named_with_number_and_gpu(case: str, tmp_path: Path) -> None:
    harm, what, which = FAULTS[case]
    harm(plant(tmp_path))
    assert short(tmp_path) == {what: which}


@pytest.mark.parametrize(("harm", "why"), [(not_taken, "amdgpu rejected it"), (not_in_kfd, "ROCm does not see it")])
def test_one_that_cannot_be_used_counts_as_none(harm: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    harm(plant(tmp_path))
    ((declared, observed),) = short(tmp_path).values()
    assert (declared, observed.partition(" ")[0]) == ("8", "7")
    assert f"PCI {ADDRESSES[3]}): {why}" in observed


def test_the_link_is_that_of_the_slot_where_a_card_has_no_bridge(tmp_path: Path) -> None:
    plant(tmp_path, bridges=("0x1022",))
    write(gpu(tmp_path, 3) / "current_link_width", "4")
    assert short(tmp_path) == {f"PCIe width of {NAMED}": ("x16", "x4")}


def test_one_that_is_partitioned_is_no_model_and_that_is_said(tmp_path: Path) -> None:
    plant(tmp_path)
    for partition in range(1, 8):
        place = partition << 28 | 0x35 << 8
        node(tmp_path, 20 + partition, said(location_id=place, drm_render_minor=140 + partition))
    found = told(tmp_path)
    assert (found["gpus"][3]["model"], found["gpus"][3]["index"]) == (None, 3)
    (remark,) = remarks(found)
    assert "ROCm sees it as 8 devices: it is partitioned" in remark


def test_a_driver_of_nvidia_is_not_asked_for_amds(tmp_path: Path) -> None:
    plant(tmp_path)
    assert short(tmp_path, replace(WORKER, gpu_kind="nvidia"))["GPUs"] == ("8", "0")


def test_whatever_the_files_have_is_a_fact_or_not_known(tmp_path: Path) -> None:
    """Bytes of all kinds in every file: what is told always has its types, and can be shown."""
    plant(tmp_path)
    files = [*gpu(tmp_path, 3).iterdir(), tmp_path / "class/kfd/kfd/topology/nodes/4/properties"]
    files = [one for one in files if one.is_file() and one.name not in ("vendor", "class")]
    dice = random.Random(3)
    bad = [
        b"",
        b"\x1b[31mred",
        b"\xff" * 200,
        b"9" * 5000,
        b"-1",
        "\u0663".encode(),
        b"1 2 3\n4",
        b"gfx_target_version x",
    ]
    for text in (*bad, *(dice.randbytes(300) for _ in range(40))):
        for file in files:
            file.write_bytes(text)
        found = told(tmp_path)
        assert found["gpus"][3]["serial"] is None or found["gpus"][3]["serial"].isprintable()
        assert all(one["error"] is None for one in found["gpus"] if one["bus_id"] != ADDRESSES[3])
        short(tmp_path)


def test_lines_of_the_kfd_that_are_no_name_and_number_are_left_out() -> None:
    assert amdgpu.properties("simd_count 12\nx\ny z\nlocation_id 5 6\ndomain -1\nname 7") == {
        "simd_count": 12,
        "name": 7,
    }
