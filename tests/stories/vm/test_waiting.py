"""How waiting for a machine ends, with real QEMUs in which nothing runs: they have no processor."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from hpcforge.host import processes
from hpcforge.lab import target_state
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab, LabNode
from hpcforge.lab.vm import machines, qemu

pytestmark = pytest.mark.vm

PANIC = "[    4.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab of one machine, on an address where nothing listens, that has begun to boot."""
    monkeypatch.setattr("hpcforge.host.paths.STATE", tmp_path / "state")
    monkeypatch.setattr("hpcforge.lab.vm.machines.RUN", tmp_path)
    subnet = IPv4Network("127.77.0.0/24")
    nodes = (LabNode("head", "127.77.0.10"),)
    request = target_state.UpRequest("waiting", nodes, str(subnet), "ops", "12", Path("a.yaml"), "lan", "vm")
    tag = f"t{os.getpid() % 100_000}"
    one = target_state.new_lab(
        request, target_state.trees_of(tmp_path), subnet=subnet, tag=tag, port=1, packages_cache=""
    )
    one.node_directory("head").mkdir(parents=True)
    console(one).write_text("[    0.0] Linux version 6.1.0\n")
    return one


def console(lab: Lab) -> Path:
    return lab.node_directory("head") / "console.log"


def nothing_runs_in(name: str) -> list[str]:
    return [qemu.PROGRAM, "-name", name, "-machine", "none", "-nodefaults", "-display", "none", "-S"]


@pytest.fixture
def process(lab: Lab, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Its QEMU."""
    monitor = tmp_path / f"{lab.machine('head')}.monitor"
    words = nothing_runs_in(lab.machine("head"))
    with subprocess.Popen([*words, "-monitor", f"unix:{monitor},server=on,wait=off"]) as running:
        try:
            assert processes.wait_until(monitor.exists, timeout_s=60)
            yield running
        finally:
            running.kill()


def test_last_words_end_the_wait_and_the_machine(lab: Lab, process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with console(lab).open("a") as file:
        file.write(f"{PANIC}\n")
    with pytest.raises(LabError) as caught:
        machines.start(lab, lab.node("head"))
    said = str(caught.value).splitlines()
    assert said == [f"node head did not boot: {PANIC}", "[    0.0] Linux version 6.1.0", PANIC]
    assert f"its console is in {console(lab)}; `hpcforge rehearse up` tries again" in caught.value.hint
    assert process.wait(timeout=60) != 0
    assert list(tmp_path.glob("*.monitor")) == []
    assert PANIC in console(lab).read_text()


@pytest.fixture
def machine(lab: Lab, tmp_path: Path) -> Iterator[tuple[qemu.VirtualMachine, list[subprocess.Popen[bytes]]]]:
    """One that is off, and its QEMUs that were started."""
    name, began = lab.machine("head"), list[subprocess.Popen[bytes]]()
    cables, monitor = (qemu.VirtualCable(qemu.mac(name), qemu.tap(name), None),), tmp_path / f"{name}.monitor"
    off = qemu.VirtualMachine(name, 256, (1, 1, 1), tmp_path, tmp_path, tmp_path, cables, console(lab), monitor)
    try:
        yield off, began
    finally:
        for process in began:
            process.kill()
            process.wait()


def test_one_that_takes_its_time_to_begin_is_not_taken_for_one_that_has_ended(
    machine: tuple[qemu.VirtualMachine, list[subprocess.Popen[bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be started again beside itself, on the same disks."""
    one, began = machine

    starter = threading.Timer(1, lambda: began.append(subprocess.Popen(nothing_runs_in(one.name))))
    monkeypatch.setattr(machines, "daemon", lambda _argv, _log: starter.start())
    machines._launch(one, "tcg")
    found = machines._pids(one.name)
    starter.join()
    assert found == [process.pid for process in began]


def test_one_whose_kernel_is_stuck_is_started_once_more(
    machine: tuple[qemu.VirtualMachine, list[subprocess.Popen[bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, began = machine

    def launch(_argv: list[str], _log: Path) -> None:
        one.console.write_text("Loading, please wait...\n" if began else "[    0.8] mtrr: inconsistent\n")
        began.append(subprocess.Popen(nothing_runs_in(one.name)))

    monkeypatch.setattr(machines, "daemon", launch)
    monkeypatch.setattr(machines, "_KERNEL_S", 2)
    machines._emulate(one)
    first, second = began
    assert first.wait(timeout=60) != 0
    assert second.poll() is None


def test_a_machine_that_goes_while_it_is_waited_for_is_named(
    lab: Lab, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    killer = threading.Timer(3, process.kill)
    killer.start()
    began = time.monotonic()
    with pytest.raises(LabError, match="node head did not boot: its QEMU has ended"):
        machines.start(lab, lab.node("head"))
    killer.join()
    assert time.monotonic() - began >= 2
    assert list(tmp_path.glob("*.monitor")) == []


def test_what_its_qemu_answers_is_heard(lab: Lab, process: subprocess.Popen[bytes]) -> None:
    assert process.poll() is None
    assert "VM status: paused (prelaunch)" in machines.tell(lab.machine("head"), "info status")
