"""A source of a metric program that is missing, garbled, huge or hangs costs its own metrics alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support import stand_in_nvml, sxids
from tests.support.metric_programs import ROLES, command, load, missing, sources, up, values

XID = {"__REALTIME_TIMESTAMP": "1795797928233030", "MESSAGE": "NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off"}
HANGS = "exec sleep 300"
HUGE = "exec yes 0123456789"
LIMIT_S = 2.0


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = sources(tmp_path, monkeypatch)
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    read = module.read
    monkeypatch.setattr(module, "read", lambda *words: read(*words[:2], LIMIT_S))
    return module


def test_each_source_that_fails_leaves_the_others(reading: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("garbled")

    def hangs() -> Iterator[int]:
        yield 2
        time.sleep(300)

    def killed() -> Iterator[int]:
        yield 3
        os.kill(os.getpid(), signal.SIGKILL)

    def endless() -> Iterator[int]:
        while True:
            yield 4

    began = time.monotonic()
    answers = reading.read(
        "x", {"good": lambda: [0], "broken": broken, "hangs": hangs, "killed": killed, "endless": endless}
    )
    assert time.monotonic() - began < LIMIT_S + 30  # not 300: a busy machine may be slow
    assert {name: answer.up for name, answer in answers.items()} == {
        "good": True, "broken": False, "hangs": False, "killed": False, "endless": False,
    }  # fmt: skip
    assert [answers[name].items for name in ("good", "broken", "hangs", "killed")] == [[0], [1], [2], [3]]
    errors = capfd.readouterr().err
    assert "<4>x-broken: ValueError: garbled" in errors and "<4>x-hangs: no answer within 2 s" in errors


def test_a_process_that_cannot_be_ended_is_not_started_twice(
    reading: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hangs() -> Iterator[int]:
        with (tmp_path / "started").open("a") as file:
            print(os.getpid(), file=file)
        time.sleep(300)
        yield 1

    monkeypatch.setattr(reading, "_end", lambda pid: None)  # as if it hung in the kernel, where no signal reaches it
    for _ in range(3):
        assert not reading.read("x", {"hangs": hangs, "good": lambda: [0]})["hangs"].up
    pids = (tmp_path / "started").read_text().split()
    os.kill(int(pids[0]), signal.SIGKILL)
    os.waitpid(int(pids[0]), 0)
    assert len(pids) == 1
    assert reading.read("x", {"hangs": lambda: [5]})["hangs"].items == [5]


def test_a_command_that_hangs_keeps_the_lock_of_its_source(
    reading: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def alone(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)  # of the source's processes only the command is left
        os.waitpid(pid, 0)

    command(tmp_path, "slow", f"echo $$ > {tmp_path}/pid; {HANGS}")
    monkeypatch.setattr(reading, "_end", alone)
    for _ in range(2):
        assert not reading.read("x", {"slow": lambda: [reading.output("slow")]})["slow"].up
        pid = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    command(tmp_path, "slow", "echo ends")
    until_s = time.monotonic() + 60
    while not reading.read("x", {"slow": lambda: [reading.output("slow")]})["slow"].up:
        assert time.monotonic() < until_s


def test_output_without_end_is_bounded(reading: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command(tmp_path, "endless", HUGE)
    assert reading.read("x", {"endless": lambda: [reading.output("endless")]})["endless"] == ([], False)
    assert "<4>x-endless: OSError: endless printed more than 1048576 bytes" in capfd.readouterr().err


def test_a_program_leaves_no_process(reading: ModuleType, tmp_path: Path) -> None:
    command(tmp_path, "slow", f"sleep 301 & echo $! > {tmp_path}/pid; {HANGS}")
    assert not reading.read("x", {"slow": lambda: [reading.output("slow")]})["slow"].up
    pid = int((tmp_path / "pid").read_text())
    until_s = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until_s


@pytest.fixture
def gpus(reading: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program for GPUs, with every source of a healthy node."""
    program = load("gpu_metrics/gpu_metrics.py")
    for name, path in {
        "WANTED": "config.json", "JOBS": "jobs", "XIDS": "xids.json", "CURSOR": "cursor",
        "LIBRARY": "healthy/libnvidia-ml.so.1"
    }.items():  # fmt: skip
        monkeypatch.setattr(program, name, str(tmp_path / path))
    stand_in_nvml.build("healthy", tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({"model": "h100-sxm", "vendor": "nvidia", "count": 1, "devices": ["/dev/null"]})
    )
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "1").write_text("17\n")
    (tmp_path / "xids.json").write_text("[]")
    command(
        tmp_path, "journalctl", f"echo '{json.dumps({**XID, '__REALTIME_TIMESTAMP': str(int(time.time()) * 10**6)})}'"
    )
    return program


def printed(program: ModuleType, capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    program.main()
    return capfd.readouterr().out


GPU_SOURCES = {"config", "jobs", "journal", "xids", "nvml"}


def test_a_healthy_node_has_every_source_of_gpus(gpus: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    text = printed(gpus, capfd)
    assert up(text) == dict.fromkeys(GPU_SOURCES, 1)
    found = values(text)
    assert found['gpu_temperature_celsius{gpu="1",job_id="17"}'] == 31
    assert found['gpu_fatal_xids_day{gpu="1",bus="0000:2b:00"}'] == 1
    assert found['gpu_job{gpu="1",job_id="17"}'] == 1
    assert up(printed(gpus, capfd)) == dict.fromkeys(GPU_SOURCES, 1)
    assert (
        values(printed(gpus, capfd))['gpu_fatal_xids_day{gpu="1",bus="0000:2b:00"}'] == 1
    )  # read thrice, counted once


@pytest.mark.parametrize(
    ("script", "answer", "runs"),
    [
        ("echo active", 1, 1), ("echo failed; exit 3", 1, 0), ("echo inactive; exit 3", 1, 0),
        ("echo activating; exit 3", 1, 1), ("exit 4", 0, None),
        (HANGS, 0, None), ("echo 'Failed to connect to bus' >&2; exit 1", 0, None),
    ],
)  # fmt: skip
def test_fabric_manager_is_told_where_its_role_is(
    gpus: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, answer: int, runs: int | None
) -> None:
    command(tmp_path, "systemctl", f'test "$*" = "is-active -- nvidia-fabricmanager.service" || exit 9\n{script}')
    assert "nvidia_fabric_manager_up" not in values(printed(gpus, capfd))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "fabric_manager": "nvidia-fabricmanager.service"}))
    text = printed(gpus, capfd)
    assert up(text) == {**dict.fromkeys(GPU_SOURCES, 1), "systemd": answer}
    assert values(text).get("nvidia_fabric_manager_up") == runs


def test_fatal_sxids_stay_over_runs_and_bad_files(
    gpus: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    series = f'nvswitch_sxid_seconds{{bus="{sxids.PLACE}",sxid="20034",kind="fatal"}}'
    now_s = int(time.time())
    line = sxids.entry(sxids.FORMS["red hat: a link went down"].line, now_s)
    command(tmp_path, "journalctl", f"echo '{line}'")
    assert values(printed(gpus, capfd))[series] == now_s
    command(tmp_path, "journalctl", "exit 1")
    assert values(printed(gpus, capfd))[series] == now_s
    (tmp_path / "xids.json").write_text('[[1, "x"]]')
    assert up(printed(gpus, capfd))["xids"] == 0


@pytest.mark.parametrize("script", [None, HANGS, HUGE, "echo wrong >&2; exit 1", "exit 3", "kill -SEGV $$"])
def test_gpus_without_the_journal(
    gpus: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    script: str | None,
) -> None:
    (tmp_path / "xids.json").write_text(json.dumps([[time.time() - 60, "0000:2b:00", 79]]))
    if script is None:
        missing(tmp_path, "journalctl", monkeypatch)
    else:
        command(tmp_path, "journalctl", script)
    text = printed(gpus, capfd)
    assert up(text) == {**dict.fromkeys(GPU_SOURCES, 1), "journal": 0}
    found = values(text)
    assert found["gpu_driver_up"] == 1 and found['gpu_present{gpu="0",device="/dev/null"}'] == 1
    assert found['gpu_fatal_xids_day{gpu="1",bus="0000:2b:00"}'] == 1  # of an earlier run


def test_a_journal_without_a_new_xid_answers(
    gpus: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cursor").touch()
    for errors in (":", "echo 'Journal file /var/log/journal/a/system.journal is truncated, ignoring file.' >&2"):
        command(tmp_path, "journalctl", f"{errors}; exit 1")  # as --grep does
        assert up(printed(gpus, capfd))["journal"] == 1 and (tmp_path / "cursor").exists()


def test_a_journal_that_rejects_its_cursor_begins_again(
    gpus: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cursor").write_text("garbled")
    cursor = f"if test -e {tmp_path}/cursor; then echo 'Failed to seek to cursor: Invalid argument' >&2; exit 1; fi"
    command(tmp_path, "journalctl", f"{cursor}; exit 1")
    assert [up(printed(gpus, capfd))["journal"] for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("case", ["hangs", "hangs_at_once", "crashes", "missing", "mismatch"])
def test_gpus_without_nvml(
    gpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], case: str
) -> None:
    library = tmp_path / "missing" if case == "missing" else stand_in_nvml.build(case, tmp_path)
    monkeypatch.setattr(gpus, "LIBRARY", str(library))
    text = printed(gpus, capfd)
    answers = case == "mismatch"  # with an error of its own
    assert up(text) == {**dict.fromkeys(GPU_SOURCES, 1), "nvml": answers}
    found = values(text)
    stuck = {"hangs": 4, "crashes": 2}.get(case)
    if stuck is None:
        assert found["gpu_driver_up"] == 0
    else:  # the GPUs before it answered
        assert [found[f'gpu_answers{{gpu="{index}"}}'] for index in range(stuck + 1)] == [1] * stuck + [0]
        assert found['gpu_temperature_celsius{gpu="1",job_id="17"}'] == 31
    assert found['gpu_present{gpu="0",device="/dev/null"}'] == 1
    assert max(value for series, value in found.items() if series.startswith("gpu_fatal_xids_day")) == 1


@pytest.mark.parametrize("text", ["", "[1]", "{}x", "null", '[["a"]]', '{"a": 1}', "0" * (2 << 20), "\udcff"])
def test_gpus_with_damaged_files(
    gpus: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "cursor").touch()
    raw = text.encode(errors="surrogateescape")
    for name in ("config.json", "xids.json"):
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "jobs" / "0").write_bytes(raw or b"x")
    out = printed(gpus, capfd)
    assert up(out) == {"config": 0, "jobs": 0 if text != "0" * (2 << 20) else 1, "journal": 1, "xids": 0, "nvml": 1}
    found = values(out)
    assert found["gpu_driver_up"] == 1 and found['gpu_temperature_celsius{gpu="1",job_id="17"}'] == 31
    assert found['gpu_fatal_xids_day{gpu="1",bus="0000:2b:00"}'] == 1
    assert not (tmp_path / "cursor").exists()  # the day's Xids are read again
    assert up(printed(gpus, capfd))["xids"] == 1  # the file is a good one again


def test_gpus_whose_files_are_missing_or_hang(
    gpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").unlink()
    (tmp_path / "xids.json").unlink()
    os.mkfifo(tmp_path / "jobs" / "0")  # opening it waits for a writer that never comes
    text = printed(gpus, capfd)
    assert up(text) == {"config": 0, "jobs": 0, "journal": 1, "xids": 1, "nvml": 1}
    assert values(text)["gpu_driver_up"] == 1
    (tmp_path / "xids.json").unlink()
    (tmp_path / "xids.json.new").mkdir()  # the disk takes no more
    assert values(printed(gpus, capfd))['gpu_fatal_xids_day{gpu="1",bus="0000:2b:00"}'] == 1


@pytest.fixture
def slurm(reading: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    program = load("slurm_metrics/slurm_metrics.py")
    monkeypatch.setattr(program, "WANTED", str(tmp_path / "config.json"))
    (tmp_path / "config.json").write_text('{"racks": {"w01": ["r1", "4"]}, "accounting": {"node": "db"}}')
    cells = zip(program.NODES, ("w01", "IDLE", "0/2/0/2", "gpu:0", "gpu:2", "none"), strict=True)
    command(tmp_path, "sinfo", f"echo '{''.join(cell.ljust(width) for (_, width), cell in cells)}'")
    command(tmp_path, "squeue", "true")
    command(tmp_path, "sdiag", "echo 'Server thread count: 3'")
    command(tmp_path, "sacctmgr", "true")
    return program


SLURM = {
    "squeue": 'slurm_jobs{state="pending",partition=""}',
    "sinfo": 'slurm_node_cpus{node="w01",rack="r1",rack_u="4"}',
    "sdiag": "slurm_threads",
}


@pytest.mark.parametrize("script", [HANGS, HUGE, "echo down >&2; exit 1", None])
@pytest.mark.parametrize("name", [*SLURM, "sacctmgr"])
def test_each_command_of_slurm_costs_its_own_metrics(
    slurm: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, script: str | None
) -> None:
    text = printed(slurm, capfd)
    assert up(text) == dict.fromkeys(["config", *SLURM], 1) and {*SLURM.values()} <= {*values(text)}
    if script is None:
        (tmp_path / "bin" / name).unlink()
    else:
        command(tmp_path, name, script)
    text = printed(slurm, capfd)
    assert up(text) == {**dict.fromkeys(["config", *SLURM], 1), **({name: 0} if name in SLURM else {})}
    assert {series for series in SLURM.values() if series in values(text)} == {*SLURM.values()} - {SLURM.get(name)}
    assert values(text)['slurm_accounting_answers{node="db"}'] == (name != "sacctmgr")


@pytest.mark.parametrize("text", ["", "[]", '{"racks": {"w01": 4}, "accounting": null}'])
def test_slurm_s_metrics_outlast_their_configuration(
    slurm: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "config.json").write_text(text)
    out = printed(slurm, capfd)
    assert up(out) == {"config": 0, "squeue": 1, "sinfo": 1, "sdiag": 1}
    assert values(out)['slurm_node_cpus{node="w01",rack="",rack_u=""}'] == 2


@pytest.fixture
def facts(reading: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    program = load("node_facts/node_facts.py")
    monkeypatch.setattr(program, "WANTED", str(tmp_path / "config.json"))
    config = {
        "certificates": [str(tmp_path / "a.pem"), str(tmp_path / "b.pem")],
        "verdicts": str(tmp_path / "verdicts"),
    }
    feeds: dict[str, Any] = {"feed_limits_w": {"A": 800}, "feed_shares": {"A": {"r1": 0.5}}}
    (tmp_path / "config.json").write_text(json.dumps({**config, **feeds}))
    for name in ("a.pem", "b.pem"):
        (tmp_path / name).write_text("-----BEGIN CERTIFICATE-----\n")
    command(tmp_path, "openssl", "echo notAfter=Nov 27 00:00:00 2036 GMT")
    command(tmp_path, "chronyc", "echo A,B,3,1.0,-0.001,0,0,0,0,0,0,0,0,Normal")
    record = {"verdict": {"test": "allreduce", "status": "passed"}, "time_s": 5.0}
    (tmp_path / "verdicts").write_text(json.dumps({"kept": [record]}))
    return program


FACTS = {
    "config": 'hpcforge_feed_limit_watts{feed="A"}',
    "chrony": "hpcforge_clock_offset_seconds",
    "verdicts": 'hpcforge_verdict_passed{test="allreduce"}',
    "certificates": "hpcforge_certificate_ends_seconds",
}


@pytest.mark.parametrize(
    ("name", "script"),
    [
        *(("chrony", script) for script in (HANGS, HUGE, "exit 1", "echo garbled", "")),
        *(("certificates", script) for script in (HANGS, HUGE, "")),
        *(("verdicts", script) for script in ("{", '{"kept": [{}]}', "x" * (2 << 20), "fifo")),
        *(("config", script) for script in ("{", "[]", "fifo")),
    ],
)
def test_each_source_of_facts_costs_its_own_metrics(
    facts: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str,
    script: str,
) -> None:  # fmt: skip
    text = printed(facts, capfd)
    assert up(text) == dict.fromkeys(FACTS, 1)
    place = tmp_path / {"verdicts": "verdicts", "config": "config.json", "chrony": "bin/chronyc"}.get(
        name, "bin/openssl"
    )
    place.unlink()
    if script == "fifo":
        os.mkfifo(place)
    elif not script:
        missing(tmp_path, place.name, monkeypatch)
    elif place.parent.name == "bin":
        command(tmp_path, place.name, script)
    else:
        place.write_text(script)
    text = printed(facts, capfd)
    listed = [*FACTS] if name != "config" else ["config", "chrony"]  # it names certificates and verdicts
    assert up(text) == {one: one != name for one in listed}
    found = {one for one, metric in FACTS.items() if any(series.startswith(metric) for series in values(text))}
    assert found == {one for one in listed if one != name}
    assert "hpcforge_restart_due" in values(text)


@pytest.mark.parametrize(("name", "source"), [("ipmi-dcmi", "dcmi"), ("ipmi-sensors", "sensors")])
def test_each_command_of_ipmi_costs_its_own_metrics(
    reading: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str,
    source: str,
) -> None:  # fmt: skip
    program = load("power_metrics/power_metrics.py")
    monkeypatch.setattr(program, "SENSORS", str(tmp_path / "bin"))
    command(tmp_path, "ipmi-dcmi", "echo 'Current Power : 6214 Watts'; echo 'Power Measurement : Active'")
    command(tmp_path, "ipmi-sensors", "echo \"1,Inlet Temp,Temperature,23.00,C,'OK'\"")
    assert up(printed(program, capfd)) == {"dcmi": 1, "sensors": 1}
    for script in (HANGS, HUGE):
        command(tmp_path, name, script)
        text = printed(program, capfd)
        assert up(text) == {"dcmi": source != "dcmi", "sensors": source != "sensors"}
        assert ("ipmi_dcmi_power_consumption_watts" in values(text)) == (source != "dcmi")
        assert ('ipmi_temperature_celsius{id="1",name="Inlet Temp"}' in values(text)) == (source != "sensors")


def test_a_slurmctld_that_answers_for_ever_is_ended(
    reading: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = load("slurmctld_metrics/slurmctld_metrics.py")
    (tmp_path / "key").write_bytes(b"k" * 64)
    monkeypatch.setattr(program, "KEY", str(tmp_path / "key"))
    monkeypatch.setattr(program, "answer", lambda bearer: time.sleep(300))
    assert up(printed(program, capfd)) == {"slurmctld": 0}


PROGRAMS = ("gpu_metrics/gpu_metrics", "slurm_metrics/slurm_metrics", "slurmctld_metrics/slurmctld_metrics",
            "power_metrics/power_metrics", "node_facts/node_facts")  # fmt: skip


@pytest.mark.parametrize("path", PROGRAMS)
def test_a_program_on_a_machine_without_its_sources_ends_well(tmp_path: Path, path: str) -> None:
    paths = {"/usr/lib/hpcforge": tmp_path, '"/run"': f'"{tmp_path}"', "/etc/": f"{tmp_path}/", "/var/": f"{tmp_path}/"}
    paths["/usr/sbin:/usr/bin:/sbin:/bin"] = tmp_path / "bin"
    for source in ("node_exporter/metric_sources", path):
        text = (ROLES / f"{source}.py").read_text()
        for old, new in paths.items():
            text = text.replace(old, str(new))
        (tmp_path / f"{Path(source).name}.py").write_text(text)
    assert text.startswith("#!/usr/bin/python3 -BIS\n")
    done = subprocess.run(
        [sys.executable, "-BIS", tmp_path / f"{Path(path).name}.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    answered = up(done.stdout)
    assert answered and not any(answered[name] for name in answered if name not in ("jobs", "xids"))  # none is none
    assert set(answered) == {re.fullmatch(r"<4>\w+-(\w+): .*", line)[1] for line in done.stderr.splitlines()} | (
        {*answered} & {"jobs", "xids"}
    )


def test_programs_end_before_they_are_ended() -> None:
    sources_s = [load("node_exporter/metric_sources.py").LIMIT_S, load("node_exporter/metric_sources.py").CONFIG_S]
    reaped_s = 5 * load("node_exporter/metric_sources.py").REAP_S  # the most sources of a program
    assert sum(sources_s) + reaped_s < load("node_exporter/publish.py").LIMIT_S
    assert load("node_exporter/publish.py").LIMIT_S < 30  # roles/node_exporter, collect_s
