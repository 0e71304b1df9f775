"""The programs that collect metrics on nodes: what they print of what Slurm, NVML, the kernel and files say."""

from __future__ import annotations

import base64
import ctypes
import ctypes.util
import hashlib
import hmac
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpcforge.plan.admission import MARK
from tests.support import stand_in_nvml, sxids
from tests.support.metric_programs import LINE, ROLES, command, load, sources, up, values


@pytest.fixture(scope="module")
def slurm() -> ModuleType:
    return load("slurm_metrics/slurm_metrics.py")


@pytest.fixture(scope="module")
def gpus() -> ModuleType:
    return load("gpu_metrics/gpu_metrics.py")


def printed(fields: tuple[tuple[str, int], ...], *rows: tuple[str, ...]) -> str:
    """Lines as Slurm prints them with --Format: each cell as wide as was asked, what is longer is cut."""
    return "".join(
        "".join(cell[:width].ljust(width) for (_, width), cell in zip(fields, row, strict=True)) + "\n" for row in rows
    )


def by_name(samples: Any) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in samples:
        found.setdefault(name, []).append((labels, value))
    return found


def test_jobs_are_counted_by_state_and_partition(slurm: ModuleType) -> None:
    text = printed(
        slurm.JOBS,
        ("RUNNING", "main", "cpu=8,mem=4G,node=1,billing=8,gres/gpu=4,gres/gpu:h100=4"),
        ("RUNNING", "main", "cpu=2,mem=4G,node=1,billing=2"),
        ("PENDING", "large", "cpu=64,node=8,gres/gpu=64"),
    )
    found = by_name(slurm.jobs(text))
    running, pending = {"state": "running", "partition": "main"}, {"state": "pending", "partition": "large"}
    assert found["slurm_jobs"] == [(pending, 1), (running, 2)]
    assert found["slurm_jobs_gpus"] == [(pending, 64), (running, 4)]
    assert found["slurm_jobs_cpus"] == [(pending, 64), (running, 10)]
    assert by_name(slurm.jobs(""))["slurm_jobs"] == [({"state": "pending", "partition": ""}, 0)]


def test_a_node_counts_once_and_has_its_place(slurm: ModuleType) -> None:
    row = ("w01", "MIXED+DRAIN", "6/2/0/8", "gpu:h100:3(IDX:0-2)", "gpu:h100:8(S:0-1)", "fan")
    text = printed(slurm.NODES, row, row, ("w02", "DOWN*+DRAIN", "0/0/8/8", "gpu:0", "(null)", MARK + "run 7"))
    found = by_name(slurm.nodes(text, {"w01": ["r1", "4"]}))
    first, second = {"node": "w01", "rack": "r1", "rack_u": "4"}, {"node": "w02", "rack": "", "rack_u": ""}
    assert found["slurm_node_state"][0] == ({**first, "state": "drain+mixed"}, 1)
    assert found["slurm_node_down"] == [(first, False), (second, True)]
    assert found["slurm_node_drained"] == [
        ({**first, "reason": "fan"}, True),
        ({**second, "reason": MARK + "run 7"}, True),
    ]
    assert found["slurm_node_maintenance"] == [(first, False), (second, True)]
    assert [value for _, value in found["slurm_node_cpus"]] == [8, 8]
    assert [value for _, value in found["slurm_node_cpus_allocated"]] == [6, 0]
    assert [value for _, value in found["slurm_node_gpus"]] == [8, 0]
    assert [value for _, value in found["slurm_node_gpus_allocated"]] == [3, 0]


def test_what_somebody_wrote_stays_within_its_label(slurm: ModuleType) -> None:
    reason = 'a"} 1\\ \x1b[2J \u202e'
    text = printed(slurm.NODES, ("w01", "DRAIN", "0/8/0/8", "gpu:0", "(null)", reason))
    lines = [*slurm.metric_sources.lines(slurm.nodes(text, {}))]
    assert all(LINE.fullmatch(line) and line.isprintable() for line in lines), lines
    assert any(r'reason="a\"} 1\\ ?[2J ?"' in line for line in lines)
    assert [*slurm.nodes("short\n\n", {})] == []


def test_queues_are_those_of_sdiag(slurm: ModuleType) -> None:
    text = "Server thread count:  3\nAgent queue size:     1\nDBD Agent queue size: 12\nAgent count: x\n"
    assert by_name(slurm.queues(text)) == {
        "slurm_threads": [({}, 3)], "slurm_agent_queue": [({}, 1)], "slurm_dbd_queue": [({}, 12)],
    }  # fmt: skip


KEY = b"k" * 64


def signed_by(key: bytes, bearer: str) -> dict[str, Any]:
    """What a token says, whose signature this key made."""
    body, _, signature = bearer.rpartition(".")
    own = base64.urlsafe_b64encode(hmac.new(key, body.encode(), hashlib.sha256).digest()).decode().rstrip("=")
    assert signature == own
    head, said = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in body.split("."))
    assert head == {"alg": "HS256", "typ": "JWT"}
    return {**said}


@contextmanager
def slurmctld(status: int, text: str) -> Iterator[tuple[int, list[str]]]:
    """Answers HTTP as slurmctld does. Yields its port, and who asked for what."""
    asked: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization'].removeprefix('Bearer ')}")
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, asked
        server.shutdown()


def test_slurmctld_is_asked_with_a_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = load("slurmctld_metrics/slurmctld_metrics.py")
    sources(tmp_path, monkeypatch)
    monkeypatch.setattr(program, "KEY", str(tmp_path / "key"))
    program.main()
    assert up(capfd.readouterr().out) == {"slurmctld": 0}  # there is no key
    (tmp_path / "key").write_bytes(KEY)
    text = "# HELP slurm_bf_active Whether\n# TYPE slurm_bf_active gauge\nslurm_bf_active 0\n# EOF\nother 1\n"
    with slurmctld(200, text) as (port, asked):
        monkeypatch.setattr(program, "PORT", port)
        program.main()
    out = capfd.readouterr().out
    assert out.startswith("# TYPE slurm_bf_active gauge\nslurm_bf_active 0\n# HELP hpcforge_source_up")
    assert up(out) == {"slurmctld": 1} and len(values(out)) == 2
    [(path, bearer)] = [tuple(one.split()) for one in asked]
    said = signed_by(KEY, bearer)
    assert path == "/metrics/scheduler" and said["sun"] == "root"
    assert said["exp"] - said["iat"] == 60 and abs(said["iat"] - time.time()) < 60

    with slurmctld(401, "") as (port, asked):
        monkeypatch.setattr(program, "PORT", port)
        program.main()
    refused = capfd.readouterr()
    assert up(refused.out) == {"slurmctld": 0} and "with status 401" in refused.err
    program.main()  # nothing listens there any more
    assert up(capfd.readouterr().out) == {"slurmctld": 0}


def test_a_gpu_is_there_while_its_device_is(gpus: ModuleType) -> None:
    found = by_name(gpus.present(["/dev/null", "/dev/nothing", "/etc/passwd"]))["gpu_present"]
    assert [value for _, value in found] == [True, False, False]
    assert found[1][0] == {"gpu": "1", "device": "/dev/nothing"}


def test_nvml_s_figures_have_the_job(gpus: ModuleType, tmp_path: Path) -> None:
    items = [*gpus.nvml_gpus(str(stand_in_nvml.build("healthy", tmp_path)))]
    samples = [*gpus.driver_samples(gpus.metric_sources.Answer(items, True), {2: "17"})]
    found = by_name(samples)
    count = stand_in_nvml.ANSWERS["gpus"]
    assert found["gpu_driver_up"] == [({}, 1)]
    assert len(found["gpu_answers"]) == count
    assert found["gpu_temperature_celsius"][2] == (
        {"gpu": "2", "job_id": "17"}, stand_in_nvml.ANSWERS["gpu"]["temperature_c"],
    )  # fmt: skip
    assert found["gpu_remap_failed"][0] == ({"gpu": "0"}, 0)
    assert [value for _, value in found["gpu_ecc_uncorrected_total"]] == [0] * count
    assert "gpu_power_watts" not in found  # this library has no such function
    assert [bus for bus, _ in items][:2] == [None, "0000:1b:00"] and len(items) == 1 + count
    assert all(LINE.fullmatch(line) for line in gpus.metric_sources.lines(samples))


def test_a_gpu_that_is_lost_does_not_hide_the_others(gpus: ModuleType, tmp_path: Path) -> None:
    case = next(name for name, case in stand_in_nvml.CASES.items() if case.get("lost", -2) >= 0)
    items = [*gpus.nvml_gpus(str(stand_in_nvml.build(case, tmp_path)))]
    answers = [value for _, samples in items for name, _, value in samples if name == "gpu_answers"]
    assert sorted(answers) == [0] + [1] * (len(answers) - 1)


def test_xids_are_the_kernel_s_and_count_by_gpu(gpus: ModuleType) -> None:
    def entry(time_s: int, message: Any) -> str:
        return json.dumps({"__REALTIME_TIMESTAMP": str(time_s * 1_000_000), "MESSAGE": message})

    messages = "\n".join(
        [
            entry(1000, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."),
            entry(1010, "NVRM: Xid (PCI:0000:3B:00.0): 31, pid=1, MMU fault"),
            entry(1020, [1, 2, 3]),
            entry(1030, "NVRM: Xid (PCI:zz): 13"),
            "{",
        ]
    )
    found = [*gpus.xids(messages)]
    assert found == [[1000, "0000:3b:00", 79], [1010, "0000:3b:00", 31]]
    samples = by_name(gpus.of_xids(found, {"0000:3b:00": 5, "0000:5e:00": 6}, 1100))
    where = {"gpu": "5", "bus": "0000:3b:00"}
    assert samples["gpu_xid_seconds"] == [
        ({**where, "xid": "79", "of": "gpu"}, 1000),
        ({**where, "xid": "31", "of": "program"}, 1010),
    ]
    assert samples["gpu_fatal_xids_day"] == [(where, 1), ({"gpu": "6", "bus": "0000:5e:00"}, 0)]


@pytest.mark.parametrize("form", sxids.FORMS)
def test_the_lines_on_nvswitches_are_read_in_every_form(gpus: ModuleType, form: str) -> None:
    line, kind, number = sxids.FORMS[form]
    expected = [[1000, sxids.PLACE, number, kind]] if kind else []
    assert [*gpus.sxids("\n".join([sxids.entry([1, 2]), "{", sxids.entry(line)]))] == expected
    samples = by_name(gpus.of_sxids(expected))
    labels = {"bus": sxids.PLACE, "sxid": str(number), "kind": kind}
    assert samples == ({"nvswitch_sxid_seconds": [(labels, 1000)]} if kind else {})


def test_of_each_sxid_the_last_is_kept_beside_a_gpu_s(gpus: ModuleType) -> None:
    training = [[1000.0 + at, f"0000:{bus:02x}:00", 22013, "other"] for at in range(300) for bus in range(4)]
    fatal, xid = [1001.0, "0000:01:00", 20034, "fatal"], [1001.0, "0000:3b:00", 74]
    kept = gpus.recent_xids([xid, fatal], [*training, xid, fatal], 1400.0)
    assert kept == [fatal, xid, *([1299.0, f"0000:{bus:02x}:00", 22013, "other"] for bus in range(4))]
    assert gpus.recent_xids(kept, [], 1001.0 + gpus.DAY_S) == kept[2:]


@pytest.mark.parametrize(
    ("case", "registered"), [("healthy", 1), ("waiting", 0), ("short", 0), ("second", 0), ("first", 0),
                             ("no_fabric", None), ("before_fabric", None), ("fabric_fails", None)]
)  # fmt: skip
def test_a_gpu_tells_whether_it_is_registered_with_its_nvswitches(
    gpus: ModuleType, tmp_path: Path, case: str, registered: int | None
) -> None:
    library = str(stand_in_nvml.build(case, tmp_path))
    found = by_name(sample for _, samples in gpus.nvml_gpus(library) for sample in samples)
    by_gpu = {labels["gpu"]: value for labels, value in found.get("gpu_fabric_registered", [])}
    assert by_gpu.get("0" if case == "no_fabric" else "5") == registered


def test_jobs_of_gpus_are_noted_before_and_forgotten_after(
    gpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = load("gpu_metrics/gpu_jobs.py")
    monkeypatch.setattr(noted, "FOLDER", str(tmp_path / "jobs"))

    def run(context: str, job: str, on: str) -> None:
        for name, text in (("SLURM_SCRIPT_CONTEXT", context), ("SLURM_JOB_ID", job), ("SLURM_JOB_GPUS", on)):
            monkeypatch.setenv(name, text)
        noted.main()

    run("prolog_slurmd", "7", "0,2-3")
    run("prolog_slurmd", "8", "2")
    run("prolog_slurmd", "9;rm", "1")
    run("prolog_slurmd", "9", "../x")
    assert dict(gpus.jobs(str(tmp_path / "jobs"))) == {0: "7", 2: "7,8", 3: "7"}
    run("epilog_slurmd", "7", "0,2-3")
    assert dict(gpus.jobs(str(tmp_path / "jobs"))) == {2: "8"}


def test_the_prolog_never_fails(tmp_path: Path) -> None:
    environment = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "\udcff"}
    subprocess.run(
        [sys.executable, "-IS", ROLES / "gpu_metrics" / "gpu_jobs.py"], env=environment, check=True, timeout=60
    )


def test_certificates_say_when_they_end(tmp_path: Path) -> None:
    facts = load("node_facts/node_facts.py")
    pem = tmp_path / "x.pem"
    command = "openssl req -x509 -newkey ed25519 -nodes -subj /CN=x -days 10 -keyout /dev/null -out"
    subprocess.run([*command.split(), pem], check=True, capture_output=True, timeout=60)
    assert abs(facts.ends_s(str(pem)) - time.time() - 10 * 86400) < 60
    (tmp_path / "none").write_text("nothing")
    assert facts.ends_s(str(tmp_path / "none")) is None
    assert facts.ends_s(str(tmp_path / "away")) is None


def test_verdicts_say_how_old_they_are(tmp_path: Path) -> None:
    facts = load("node_facts/node_facts.py")
    kept = tmp_path / "verdicts.json"
    record = {"verdict": {"test": "allreduce", "status": "passed"}, "time_s": 5.0, "part": None, "part_s": 0.0}
    part = {
        "verdict": {"test": "train", "status": "passed"},
        "time_s": 5.0,
        "part": {"test": "train", "status": "failed"},
        "part_s": 9.0,
    }
    kept.write_text(json.dumps({"kept": [record, part]}))
    allreduce, train = {"test": "allreduce"}, {"test": "train"}
    assert [*facts.verdicts(str(kept))] == [
        ("hpcforge_verdict_seconds", allreduce, 5.0), ("hpcforge_verdict_passed", allreduce, True),
        ("hpcforge_verdict_seconds", train, 9.0), ("hpcforge_verdict_passed", train, False),
    ]  # fmt: skip
    kept.unlink()
    assert [*facts.verdicts(str(kept))] == []  # no test has ended yet


def test_nodes_that_a_run_restarts_are_those_of_a_lease_that_lives(tmp_path: Path) -> None:
    facts = load("node_facts/node_facts.py")
    lease = tmp_path / "lease.json"
    assert facts.run_nodes(str(lease)) == []
    lease.write_text(json.dumps({"nodes": ["w01", 'w"2', "login.a"]}))
    assert facts.run_nodes(str(lease)) == ["w01", "login.a"]
    os.utime(lease, (time.time() - 600, time.time() - 600))
    assert facts.run_nodes(str(lease)) == []
    for text in ("{", "[]", '{"nodes": 3}', '{"nodes": [3]}', '{"schema": 1}'):  # the last of an older hpcforge
        lease.write_text(text)
        assert facts.run_nodes(str(lease)) == []


def test_feeds_have_their_limits_and_shares() -> None:
    facts = load("node_facts/node_facts.py")
    assert [*facts.feeds({"A": 800.0}, {"A": {"r1": 0.5}})] == [
        ("hpcforge_feed_limit_watts", {"feed": "A"}, 800.0),
        ("hpcforge_feed_share_ratio", {"feed": "A", "rack": "r1"}, 0.5),
    ]  # fmt: skip


def test_a_program_that_fails_or_hangs_is_told_and_publishes_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    publish = load("node_exporter/publish.py")
    publish.FOLDER, publish.LIMIT_S = str(tmp_path), 1.0

    def run(script: str) -> tuple[int, str]:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return publish.main("x", str(program)), (tmp_path / "x.prom").read_text()

    assert run("echo a 1") == (0, (tmp_path / "x.prom").read_text())
    text = (tmp_path / "x.prom").read_text()
    assert text.startswith("a 1\n") and 'hpcforge_collector_success{collector="x"} 1\n' in text
    assert (tmp_path / "x.prom").stat().st_mode & 0o777 == 0o644
    for script in ("echo a 1; exit 3", "echo a 1; exec sleep 60", "echo a 1; exec >&-; exec sleep 60", "exec yes a 1"):
        code, text = run(script)
        assert code == 1 and "a 1" not in text and 'hpcforge_collector_success{collector="x"} 0\n' in text
    assert publish.main("x", str(tmp_path / "away")) == 1
    errors = capfd.readouterr().err.splitlines()
    assert len(errors) == 5 and all(line.startswith("<4>") for line in errors)  # the timer keeps less than a notice out


def test_metrics_leave_with_the_timer_of_their_program(tmp_path: Path) -> None:
    publish = load("node_exporter/publish.py")
    for name in ("stays", "left"):
        publish.write(str(tmp_path / f"{name}.prom"), publish.published(name, b"a 1\n", True, 0.1))
    (tmp_path / "of_the_site.prom").write_text("b 2\n")
    (tmp_path / "stays.timer").touch()
    publish.remove_orphans(str(tmp_path), str(tmp_path / "{}.timer"))
    assert sorted(path.name for path in tmp_path.glob("*.prom")) == ["of_the_site.prom", "stays.prom"]


def test_a_password_is_written_as_its_hash_alone(tmp_path: Path) -> None:
    web = load("prometheus/web_config.py")
    (tmp_path / "password").write_text("secret")
    web.main(str(tmp_path / "password"), "/c.pem", "/k.pem", str(tmp_path / "web.yml"))
    text = (tmp_path / "web.yml").read_text()
    assert "secret" not in text
    hashed = re.search(r'hpcforge: "(\$2b\$10\$[./A-Za-z0-9]{53})"', text)
    assert hashed
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.argtypes, crypt.restype = (ctypes.c_char_p, ctypes.c_char_p), ctypes.c_char_p
    assert crypt(b"secret", hashed[1].encode()) == hashed[1].encode()
    assert crypt(b"other", hashed[1].encode()) != hashed[1].encode()


DCMI = """\
Current Power                        : 6214 Watts
Minimum Power over sampling duration : 2 watts
Maximum Power over sampling duration : 9468 watts
Average Power over sampling duration : 6184 watts
Time Stamp                           : 11/26/2026 - 07:06:44
Statistics reporting time period     : 1000 milliseconds
Power Measurement                    : Active
"""
SENSORS = """\
1,Inlet Temp,Temperature,23.00,C,'OK'
2,CPU1 Temp,Temperature,-4.50,C,'OK'
3,GPU1 "x" \\ Temp,Temperature,N/A,C,N/A
4,Fan1,Fan,5400.00,RPM,'OK'
5,Odd,Temperature,nan,C,'OK'
x,Odd,Temperature,1.0,C,'OK'
short
"""


@pytest.fixture(scope="module")
def power() -> ModuleType:
    return load("power_metrics/power_metrics.py")


def test_power_is_what_the_controller_measures_now(power: ModuleType) -> None:
    assert power.power_w(DCMI) == 6214
    assert power.power_w(DCMI.replace(": Active", ": Not Available")) is None
    assert power.power_w(DCMI.replace("6214", "6214e9")) is None
    assert power.power_w("") is None


def test_temperatures_are_those_that_sensors_have(power: ModuleType) -> None:
    found = [*power.temperatures(SENSORS)]
    assert found == [("1", "Inlet Temp", 23.0), ("2", "CPU1 Temp", -4.5)]
    many = [(str(place), 'a"\\\x1b', 20.0) for place in range(100)]
    lines = [*power.metric_sources.lines(power.samples([6214.0], many))]
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert "ipmi_dcmi_power_consumption_watts{} 6214.0" in lines
    assert len([line for line in lines if line.startswith("ipmi_temperature_celsius{")]) == power.MOST_TEMPERATURES


@pytest.mark.parametrize("listed", [True, False])
def test_a_controller_without_power_still_tells_temperatures(
    power: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], listed: bool
) -> None:
    sources(tmp_path, monkeypatch)
    (tmp_path / "sensors").mkdir()
    if listed:
        (tmp_path / "sensors" / "sdr-cache").touch()
    command(tmp_path, "ipmi-dcmi", "echo 'command not supported' >&2; exit 1")
    command(tmp_path, "ipmi-sensors", f"cat <<'END'\n{SENSORS}END")
    command(tmp_path, "systemctl", f"echo $* > {tmp_path}/started")
    monkeypatch.setattr(power, "SENSORS", str(tmp_path / "sensors"))
    power.main()
    printed = capfd.readouterr()
    assert 'ipmi_up{collector="dcmi"} 0' in printed.out
    assert up(printed.out) == {"dcmi": 1, "sensors": listed}
    assert ("ipmi_temperature_celsius{" in printed.out) == listed
    assert (tmp_path / "started").exists() != listed
    assert "command not supported" in printed.err
