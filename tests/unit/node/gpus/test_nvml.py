"""What the node program hears of GPUs from NVML: from a library that stands in for it, see tests/support/nvml."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from hpcforge.node import answer_types, facts
from hpcforge.node.gpus import nvml
from hpcforge.typed_json import fits
from tests.support.stand_in_nvml import ANSWERS, build, hung


def asked(library: Path | str) -> Any:
    """What is told of such a library, held to its type as on the border."""
    found = nvml.end(nvml.begin(str(library), 600.0), ["0000:1b:00.0"])
    fits(answer_types.Nvml)(found)
    return found


def test_eight_healthy_gpus_tell_everything(tmp_path: Path) -> None:
    found = asked(build("healthy", tmp_path))
    assert (found["driver"], found["error"], len(found["gpus"])) == (ANSWERS["driver"], None, 8)
    third = found["gpus"][3]
    assert third == {
        "index": 3,
        "model": "NVIDIA H100 80GB HBM3",
        "serial": "1652323000003",
        "uuid": "GPU-00000000-0000-0000-0000-000000000003",
        "vbios": "96.00.99.00.01",
        "bus_id": "0000:4b:00.0",
        "memory_mib": 81559,
        "ecc": True,
        "ecc_uncorrected": 0,
        "ecc_uncorrected_ever": 0,
        "remapped": {"correctable": 0, "uncorrectable": 0, "pending": False, "failed": False},
        "nvlinks": {"active": 18, "total": 18},
        "fabric": {"state": "completed", "status": 0, "health": []},
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "clock_mhz": 345,
        "clock_max_mhz": 1980,
        "clock_reasons": 1,
        "temperature_c": 31,
        "mig": None,
        "power_limit_w": 700,
        "power_limit_default_w": 700,
        "error": None,
        "troubles": {},
    }


@pytest.mark.parametrize(
    ("case", "fabric"),
    [
        ("waiting", {"state": "in progress", "status": 0, "health": []}),
        ("not_begun", {"state": "not started", "status": 0, "health": []}),
        ("short", {"state": "completed", "status": 23, "health": []}),
        ("degraded", {"state": "completed", "status": 0, "health": ["degraded bandwidth"]}),
        ("unhealthy", {"state": "completed", "status": 0, "health": ["unhealthy route", "incorrect configuration"]}),
        ("limited", {"state": "completed", "status": 0, "health": ["limited capacity"]}),
        ("second", {"state": "in progress", "status": 0, "health": ["degraded bandwidth"]}),
        ("first", {"state": "in progress", "status": 0, "health": []}),
    ],
)
def test_the_fabric_is_asked_in_each_version_of_the_answer(case: str, fabric: dict[str, Any], tmp_path: Path) -> None:
    gpus = asked(build(case, tmp_path))["gpus"]
    assert (gpus[5]["fabric"], gpus[5]["troubles"]) == (fabric, {})
    assert gpus[4]["fabric"] == {"state": "completed", "status": 0, "health": []}


@pytest.mark.parametrize(
    ("case", "troubles"),
    [("no_fabric", {}), ("before_fabric", {}), ("fabric_fails", {"fabric": "unknown error (NVML error 999)"})],
)
def test_a_driver_that_knows_no_fabric_reports_none(case: str, troubles: dict[str, str], tmp_path: Path) -> None:
    first = asked(build(case, tmp_path))["gpus"][0]
    assert (first["fabric"], first["troubles"]) == (None, troubles)


def test_a_lost_gpu_is_named_and_the_others_are_told(tmp_path: Path) -> None:
    found = asked(build("seven", tmp_path))
    assert [one["error"] for one in found["gpus"] if one["error"]] == ["the GPU has fallen off the bus (NVML error 15)"]
    assert found["gpus"][5]["error"]
    assert found["gpus"][6]["serial"] == "1652323000006"


def test_mig_is_told_with_its_instances_and_without(tmp_path: Path) -> None:
    first = asked(build("mig", tmp_path))["gpus"][0]
    assert first["mig"] == ["1g.10gb"] * 7
    assert (first["remapped"], first["troubles"]) == (None, {})  # NVML does not tell of rows then
    assert asked(build("mig_lost", tmp_path))["gpus"][0]["mig"] == []


@pytest.mark.parametrize(
    ("case", "said"), [("mismatch", "restart the node, or stop all users of GPUs and reload the module"),
                       ("no_driver", "no driver is loaded")]
)  # fmt: skip
def test_a_library_that_does_not_start_says_why(case: str, said: str, tmp_path: Path) -> None:
    found = asked(build(case, tmp_path))
    assert said in found["error"]
    assert found["gpus"] == []


@pytest.mark.parametrize(("case", "where", "before"), [("hangs", "GPU 4", 4), ("hangs_at_once", "the library", 0)])
def test_a_library_that_hangs_is_left_and_what_it_told_before_is_kept(
    case: str, where: str, before: int, tmp_path: Path
) -> None:
    found = hung(build(case, tmp_path), [])
    fits(answer_types.Nvml)(found)
    assert found["error"].startswith(f"{where} gave no answer within 600 s")
    assert [one["index"] for one in found["gpus"]] == list(range(before))


def test_a_reader_that_nobody_hears_ends_by_itself(tmp_path: Path) -> None:
    reading = nvml.begin(str(build("hangs", tmp_path)), limit_s=0.5)
    assert os.waitpid(reading.pid, 0)[1] != 0  # by its alarm
    os.close(reading.answers)


def test_a_library_that_crashes_costs_what_comes_after(tmp_path: Path) -> None:
    found = asked(build("crashes", tmp_path))
    assert found["error"] == "NVML broke off at GPU 2 (signal 11)"
    assert len(found["gpus"]) == 2


def test_of_garbage_nothing_is_believed(tmp_path: Path) -> None:
    found = asked(build("garbage", tmp_path))
    one = found["gpus"][0]
    assert found["driver"] is None
    assert {fact for fact, value in one.items() if value is not None} == {"index", "troubles"}
    assert one["troubles"]["pcie_width"] == "3735928559 is not valid: the highest value is 32"
    assert one["troubles"]["serial"] == "its answer is not text"


def test_an_empty_file_is_no_library(tmp_path: Path) -> None:
    """As containers leave them that were to have the driver's files."""
    (tmp_path / nvml.LIBRARY).touch()
    assert "cannot be loaded" in asked(tmp_path / nvml.LIBRARY)["error"]
    assert "cannot be loaded" in asked("/no\t\xa0\u2028where")["error"]  # what the linker says of it is foreign, too


def test_without_a_library_nothing_is_asked(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"glibc-ld.so.cache1.1 libc.so.6\0/lib/libc.so.6\0")
    assert facts.ask_driver(tmp_path / "cache") is None
    assert facts.ask_driver(tmp_path / "none") is None
    assert facts.driver_says(None) is None


def test_the_reader_keeps_nothing_of_ours_open(tmp_path: Path) -> None:
    """One that hangs in the driver must not hold the connection to the operator host."""
    ours, theirs = os.pipe()
    reading = nvml.begin(str(build("hangs_at_once", tmp_path)), limit_s=5.0)
    deadline = time.monotonic() + 60
    while sum(1 for _ in Path(f"/proc/{reading.pid}/fd").iterdir()) > 4:  # the pipe and three of /dev/null
        assert time.monotonic() < deadline
    os.close(theirs)
    assert os.read(ours, 1) == b""  # nobody else has the other end
    os.close(ours)
    assert nvml.end(reading, [])["error"]
