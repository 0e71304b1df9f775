"""The metrics and alerts of a real H200 (tests/fixtures/h200-2026-11-27): its values, and faults planted in them."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpcforge import bundled
from tests.support import stand_in_nvml
from tests.support.alert_rules import expected_alert, judge, rules_by_name, write_tests
from tests.support.metric_programs import command, load, sources, up, values

RECORDED = Path(__file__).parents[2] / "fixtures" / "h200-2026-11-27"
METRICS = (RECORDED / "gpu_metrics.txt").read_text()
CARD: dict[str, Any] = json.loads((RECORDED / "nvml.json").read_text())["gpus"][0]
NODE = {"node": "w01", "rack": "r1", "rack_u": "4"}


def answers(changes: dict[str, int]) -> dict[str, Any]:
    """Return the recorded values as the stand-in library answers them, with changes."""
    metrics = {series.partition("{")[0]: value for series, value in values(METRICS).items()}
    card = {name: CARD[name] for name in ("vbios", "memory_mib", "ecc_uncorrected", "clock_mhz", "clock_max_mhz")}
    remapped = {name: int(count) for name, count in CARD["remapped"].items()}
    gpu = {
        **card, **remapped, "nvlinks": CARD["nvlinks"]["total"], "active": CARD["nvlinks"]["active"],
        "width": CARD["pcie_width"], "width_max": CARD["pcie_width_max"], "reasons": CARD["clock_reasons"],
        "generation": CARD["pcie_generation"], "generation_max": CARD["pcie_generation_max"],
        "temperature_c": CARD["temperature_c"], "slot": int(CARD["bus_id"].split(":")[2].partition(".")[0], 16),
        "power_mw": round(metrics["gpu_power_watts"] * 1000), "replays": int(metrics["gpu_pcie_replays_total"]),
        "power_limit_mw": round(metrics["gpu_power_limit_watts"] * 1000),
        "energy_mj": round(metrics["gpu_energy_joules_total"] * 1000),
        "utilization": round(metrics["gpu_utilization_ratio"] * 100),
        "used_bytes": int(metrics["gpu_memory_used_bytes"]), "fabric_state": 0,  # N/A in nvidia-smi.xml
    }  # fmt: skip
    return {"gpus": 1, "metrics": 1, "each": {0: {**gpu, **changes}}}


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    sources(tmp_path, monkeypatch)
    program = load("gpu_metrics/gpu_metrics.py")
    for name in ("WANTED", "JOBS", "XIDS", "CURSOR"):
        monkeypatch.setattr(program, name, str(tmp_path / name))
    config = {"model": "h100-sxm", "vendor": "nvidia", "count": 1, "devices": ["/dev/nvidia0"]}
    (tmp_path / "WANTED").write_text(json.dumps(config))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").symlink_to("/dev/null")
    monkeypatch.setattr(program, "present", partial(program.present, root=str(tmp_path)))
    command(tmp_path, "journalctl", "exit 1")  # no Xid
    return program


def printed(gpus: ModuleType, folder: Path, capfd: pytest.CaptureFixture[str], changes: dict[str, int]) -> str:
    gpus.LIBRARY = str(stand_in_nvml.compiled(answers(changes), folder / "h200"))
    gpus.main()
    return capfd.readouterr().out


def test_the_program_prints_what_it_printed_for_the_card(
    gpus: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = printed(gpus, tmp_path, capfd, {})
    later = ("gpu_pcie_width_max", "hpcforge_source_up")  # metrics that the program of the recording did not have
    lines = [line for line in text.splitlines() if not any(name in line for name in later)]
    assert lines == METRICS.splitlines()
    assert up(text) == dict.fromkeys(("config", "jobs", "journal", "xids", "nvml"), 1)
    assert values(text)['gpu_pcie_width_max{gpu="0"}'] == CARD["pcie_width_max"]


XID = "NVRM: Xid (PCI:0000:00:06): 79, pid=1, GPU has fallen off the bus."
BUS = {"gpu": "0", "bus": "0000:00:06"}
# What is planted: changed answers of the library, and a message of the kernel; the alert, its labels, its summary.
FAULTS: dict[str, tuple[dict[str, int], str, str, dict[str, str], str]] = {
    "none": ({}, "", "", {}, ""),
    "xid": ({}, XID, "XidError", {**BUS, "xid": "79", "of": "gpu"}, "Xid 79 on GPU 0 (0000:00:06) of w01"),
    "program": ({}, XID.replace(" 79", " 31"), "", {}, ""),
    "pending": (
        {"pending": 1}, "", "RowRemapPending", {"gpu": "0"}, "GPU 0 of w01 replaces a memory row with its next reset",
    ),
    "narrow": (
        {"width": 8}, "", "PcieNarrow", {"gpu": "0"}, "GPU 0 of w01 uses 8 PCIe lanes, fewer than card and slot have",
    ),
    "power": (
        {"reasons": 0x88}, "", "GpuHardwareSlowdown", {"gpu": "0"},
        "GPU 0 of w01 is slowed down by its hardware: power",
    ),
    "heat": (
        {"reasons": 0x48}, "", "GpuThermalSlowdown", {"gpu": "0"}, "GPU 0 of w01 is slowed down by its temperature",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", [*FAULTS])
def test_the_card_raises_the_alert_of_its_fault_alone(
    gpus: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str], promtool: str, fault: str
) -> None:
    changes, message, alert, labels, summary = FAULTS[fault]
    now_s = time.time()
    if message:
        entry = json.dumps({"__REALTIME_TIMESTAMP": str(int(now_s * 1e6)), "MESSAGE": message})
        command(tmp_path, "journalctl", f"echo '{entry}'")
    place = ",".join(f'{name}="{text}"' for name, text in NODE.items())
    series = [
        {
            "series": f"{name.partition('{')[0]}{{{place}," + (name.partition("{")[2] or "}"),
            "values": f"{value - now_s * ('gpu_xid_seconds' in name):.6f}x400",  # the tests' time begins at 0
        }
        for name, value in values(printed(gpus, tmp_path, capfd, changes)).items()
    ]
    rules = rules_by_name()
    case = {"fires": {"": ""}, "labels": {**NODE, **labels}, "summary": summary}
    expected = {alert: [expected_alert(alert, rules[alert], case)]} if alert else {}
    checks = [
        {"eval_time": at, "alertname": name, "exp_alerts": expected.get(name, [])}
        for at in (["5m"] if "XidError" in expected else ["70m"] if alert else ["5m", "70m", "180m"])
        for name in rules
    ]
    files = [str(path) for path in sorted(bundled.root().glob("roles/*/alerts.yaml"))]
    (tmp_path / "judged").mkdir()
    test = {"name": fault, "interval": "30s", "input_series": series, "alert_rule_test": checks}
    write_tests(tmp_path / "judged" / "card.yaml", "30s", [test], files)
    judge(promtool, tmp_path / "judged")
