"""The programs that collect metrics on nodes: what they print of what Slurm, NVML, the kernel and files say."""

from __future__ import annotations

import base64
import ctypes
import ctypes.util
import hashlib
import hmac
import http.server
import importlib.util
import json
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

from hpcforge import bundled
from hpcforge.plan.admission import MARK
from tests.support import stand_in_nvml

ROLES = bundled.root() / "roles"
# What a line of Prometheus' text format may be: a comment, or a name with labels and a number.
_LINE = re.compile(r'#.*|[a-z_]+(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? [-0-9.e+]+')


def loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROLES / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def slurm() -> ModuleType:
    return loaded("slurm_metrics/slurm_metrics.py")


@pytest.fixture(scope="module")
def gpus() -> ModuleType:
    return loaded("gpu_metrics/gpu_metrics.py")


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
    lines = [*slurm.lines(slurm.nodes(text, {}))]
    assert all(_LINE.fullmatch(line) and line.isprintable() for line in lines), lines
    assert any(r'reason="a\"} 1\\ ?[2J ?"' in line for line in lines)
    assert [*slurm.nodes("short\n\n", {})] == []


@pytest.mark.parametrize(("script", "answers"), [("exit 0", 1), ("exit 1", 0), ("exec sleep 60", 0)])
def test_accounting_answers_or_not(slurm: ModuleType, tmp_path: Path, script: str, answers: int) -> None:
    program = tmp_path / "sacctmgr"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    asked, slurm.asked = slurm.asked, lambda _, *words, limit_s: asked(str(program), *words, limit_s=limit_s / 10)
    try:
        assert [*slurm.accounting({"node": "db"})] == [("slurm_accounting_answers", {"node": "db"}, answers)]
    finally:
        slurm.asked = asked


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = loaded("slurmctld_metrics/slurmctld_metrics.py")
    (tmp_path / "key").write_bytes(KEY)
    monkeypatch.setattr(program, "KEY", str(tmp_path / "key"))
    text = "# HELP slurm_bf_active Whether\n# TYPE slurm_bf_active gauge\nslurm_bf_active 0\n# EOF\nother 1\n"
    with slurmctld(200, text) as (port, asked):
        monkeypatch.setattr(program, "PORT", port)
        program.main()
    assert capsys.readouterr().out == "# TYPE slurm_bf_active gauge\nslurm_bf_active 0\n"
    [(path, bearer)] = [tuple(one.split()) for one in asked]
    said = signed_by(KEY, bearer)
    assert path == "/metrics/scheduler" and said["sun"] == "root"
    assert said["exp"] - said["iat"] == 60 and abs(said["iat"] - time.time()) < 60

    with slurmctld(401, "") as (port, asked), pytest.raises(SystemExit, match="with status 401"):
        monkeypatch.setattr(program, "PORT", port)
        program.main()
    program.main()  # nothing listens there any more: SlurmctldDown says so
    assert capsys.readouterr().out == ""


def test_a_gpu_is_there_while_its_device_is(gpus: ModuleType) -> None:
    found = by_name(gpus.present(["/dev/null", "/dev/nothing", "/etc/passwd"]))["gpu_present"]
    assert [value for _, value in found] == [True, False, False]
    assert found[1][0] == {"gpu": "1", "device": "/dev/nothing"}


def test_nvml_s_figures_have_the_job(gpus: ModuleType, tmp_path: Path) -> None:
    library = ctypes.CDLL(str(stand_in_nvml.build("healthy", tmp_path)))
    buses: dict[str, int] = {}
    samples = [*gpus.of_driver(library, {2: "17"}, buses)]
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
    assert buses["0000:1b:00"] == 0 and len(buses) == count
    assert all(_LINE.fullmatch(line) for line in gpus.lines(samples))


def test_a_gpu_that_is_lost_does_not_hide_the_others(gpus: ModuleType, tmp_path: Path) -> None:
    case = next(name for name, case in stand_in_nvml.CASES.items() if case.get("lost", -2) >= 0)
    library = ctypes.CDLL(str(stand_in_nvml.build(case, tmp_path)))
    answers = [value for _, value in by_name(gpus.of_driver(library, {}, {}))["gpu_answers"]]
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


def test_jobs_of_gpus_are_noted_before_and_forgotten_after(
    gpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = loaded("gpu_metrics/gpu_jobs.py")
    monkeypatch.setattr(noted, "FOLDER", str(tmp_path / "jobs"))

    def run(context: str, job: str, on: str) -> None:
        for name, text in (("SLURM_SCRIPT_CONTEXT", context), ("SLURM_JOB_ID", job), ("SLURM_JOB_GPUS", on)):
            monkeypatch.setenv(name, text)
        noted.main()

    run("prolog_slurmd", "7", "0,2-3")
    run("prolog_slurmd", "8", "2")
    run("prolog_slurmd", "9;rm", "1")
    run("prolog_slurmd", "9", "../x")
    assert gpus.jobs(str(tmp_path / "jobs")) == {0: "7", 2: "7,8", 3: "7"}
    run("epilog_slurmd", "7", "0,2-3")
    assert gpus.jobs(str(tmp_path / "jobs")) == {2: "8"}


def test_the_prolog_never_fails(tmp_path: Path) -> None:
    environment = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "\udcff"}
    subprocess.run(
        [sys.executable, "-IS", ROLES / "gpu_metrics" / "gpu_jobs.py"], env=environment, check=True, timeout=60
    )


def test_certificates_say_when_they_end(tmp_path: Path) -> None:
    facts = loaded("node_facts/node_facts.py")
    pem = tmp_path / "x.pem"
    command = "openssl req -x509 -newkey ed25519 -nodes -subj /CN=x -days 10 -keyout /dev/null -out"
    subprocess.run([*command.split(), pem], check=True, capture_output=True, timeout=60)
    assert abs(facts.ends_s(str(pem)) - time.time() - 10 * 86400) < 60
    (tmp_path / "none").write_text("nothing")
    assert facts.ends_s(str(tmp_path / "none")) is None
    assert facts.ends_s(str(tmp_path / "away")) is None


def test_verdicts_say_how_old_they_are_and_damage_says_nothing(tmp_path: Path) -> None:
    facts = loaded("node_facts/node_facts.py")
    kept = tmp_path / "verdicts.json"
    record = {"verdict": {"test": "allreduce", "status": "passed"}, "time_s": 5.0, "part": None, "part_s": 0.0}
    part = {
        "verdict": {"test": "train", "status": "passed"},
        "time_s": 5.0,
        "part": {"test": "train", "status": "failed"},
        "part_s": 9.0,
    }
    kept.write_text(json.dumps({"kept": [record, part]}))
    assert [*facts.verdicts(str(kept))] == [
        'hpcforge_verdict_seconds{test="allreduce"} 5.0', 'hpcforge_verdict_passed{test="allreduce"} 1',
        'hpcforge_verdict_seconds{test="train"} 9.0', 'hpcforge_verdict_passed{test="train"} 0',
    ]  # fmt: skip
    kept.write_text('{"kept": [{}]}')
    assert [*facts.verdicts(str(kept))] == []


def test_feeds_have_their_limits_and_shares() -> None:
    facts = loaded("node_facts/node_facts.py")
    assert [*facts.feeds({"A": 800.0}, {"A": {"r1": 0.5}})] == [
        'hpcforge_feed_limit_watts{feed="A"} 800.0', 'hpcforge_feed_share_ratio{feed="A",rack="r1"} 0.5',
    ]  # fmt: skip


def test_a_program_that_fails_or_hangs_is_told_and_publishes_nothing_else(tmp_path: Path) -> None:
    publish = loaded("node_exporter/publish.py")
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
    for script in ("echo a 1; exit 3", "echo a 1; exec sleep 60"):
        code, text = run(script)
        assert code == 1 and "a 1" not in text and 'hpcforge_collector_success{collector="x"} 0\n' in text
    assert publish.main("x", str(tmp_path / "away")) == 1


def test_metrics_leave_with_the_timer_of_their_program(tmp_path: Path) -> None:
    publish = loaded("node_exporter/publish.py")
    for name in ("stays", "left"):
        publish.write(str(tmp_path / f"{name}.prom"), publish.published(name, b"a 1\n", True, 0.1))
    (tmp_path / "of_the_site.prom").write_text("b 2\n")
    (tmp_path / "stays.timer").touch()
    publish.remove_orphans(str(tmp_path), str(tmp_path / "{}.timer"))
    assert sorted(path.name for path in tmp_path.glob("*.prom")) == ["of_the_site.prom", "stays.prom"]


def test_a_password_is_written_as_its_hash_alone(tmp_path: Path) -> None:
    web = loaded("prometheus/web_config.py")
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
    return loaded("power_metrics/power_metrics.py")


def test_power_is_what_the_controller_measures_now(power: ModuleType) -> None:
    assert power.power_w(DCMI) == 6214
    assert power.power_w(DCMI.replace(": Active", ": Not Available")) is None
    assert power.power_w(DCMI.replace("6214", "6214e9")) is None
    assert power.power_w("") is None


def test_temperatures_are_those_that_sensors_have(power: ModuleType) -> None:
    found = [*power.temperatures(SENSORS)]
    assert found == [("1", "Inlet Temp", 23.0), ("2", "CPU1 Temp", -4.5)]
    many = [(str(place), 'a"\\\x1b', 20.0) for place in range(100)]
    lines = [*power.lines(6214.0, many)]
    assert all(_LINE.fullmatch(line) for line in lines), lines
    assert "ipmi_dcmi_power_consumption_watts 6214.0" in lines
    assert len([line for line in lines if line.startswith("ipmi_temperature_celsius{")]) == power.MOST_TEMPERATURES


@pytest.mark.parametrize("listed", [True, False])
def test_a_controller_without_power_still_tells_temperatures(
    power: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], listed: bool
) -> None:
    programs, sensors = tmp_path / "bin", tmp_path / "sensors"
    programs.mkdir()
    sensors.mkdir()
    if listed:
        (sensors / "sdr-cache").touch()
    for name, script in {
        "ipmi-dcmi": "echo 'command not supported' >&2; exit 1",
        "ipmi-sensors": f"cat <<'END'\n{SENSORS}END",
        "systemctl": f"echo $* > {tmp_path}/started",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(power, "SENSORS", str(sensors))
    monkeypatch.setattr(power, "ENVIRONMENT", {"PATH": f"{programs}:/usr/bin:/bin"})
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    assert power.main() == (0 if listed else 1)
    said = capsys.readouterr()
    assert 'ipmi_up{collector="dcmi"} 0' in said.out
    assert ("ipmi_temperature_celsius{" in said.out) == listed
    assert (tmp_path / "started").exists() != listed
    assert "command not supported" in said.err


def _programs(folder: Path, **scripts: str) -> dict[str, str]:
    """An environment in which these programs are shell scripts."""
    folder.mkdir()
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_a_command_that_does_not_end_costs_its_own_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = loaded("node_facts/node_facts.py")
    silent = _programs(tmp_path / "bin", openssl="exec sleep 30", **{"ssh-keygen": "exec sleep 30"})
    monkeypatch.setattr(facts, "ENVIRONMENT", silent)
    monkeypatch.setattr(facts, "LIMIT_S", 0.2)
    (tmp_path / "one.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "wanted.json").write_text(
        json.dumps({"certificates": [f"{tmp_path}/one.pem"], "feed_limits_w": {}, "feed_shares": {}, "verdicts": ""})
    )
    monkeypatch.setattr(facts, "WANTED", str(tmp_path / "wanted.json"))
    facts.main()
    said = capsys.readouterr()
    assert f'hpcforge_certificate_readable{{path="{tmp_path}/one.pem"}} 0' in said.out
    assert "hpcforge_restart_due" in said.out
    assert "openssl: no end within 0 s" in said.err


def test_slurm_that_does_not_answer_is_said_in_a_line(slurm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "LIMIT_S", 0.2)
    with pytest.raises(SystemExit, match=r"^sleep: no end within 0\.2 s$"):
        slurm.said("sleep", "30")


def test_what_users_submit_does_not_fill_the_memory(tmp_path: Path) -> None:
    """squeue prints a line for each of the jobs of an array, without end here."""
    script = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('it', sys.argv[1]);"
        "it = importlib.util.module_from_spec(spec); spec.loader.exec_module(it);"
        "it.WANTED = '/dev/null'; it.MOST_BYTES = 100 << 20; it.json.load = lambda _: {};"
        "own = it.asked; it.asked = lambda *_, limit_s: own('yes', 'x' * 340, limit_s=limit_s); it.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, ROLES / "slurm_metrics" / "slurm_metrics.py"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "squeue: more than 100 MiB\n")
