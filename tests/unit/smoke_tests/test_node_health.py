"""The program node_health beside a node that is a folder: each part that differs is named."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[3] / "smoke_tests" / "node_health" / "node_health.py"
H100 = "NVIDIA H100 80GB HBM3"
ADDRESSES = {"10.0.0.11": "bond0", "10.1.0.11": "eth9"}


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("node_health", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    sys.path.append(str(PROGRAM.parents[1]))  # of the modules that programs share
    module = importlib.util.module_from_spec(spec)
    sys.modules["node_health"] = module
    spec.loader.exec_module(module)
    return module


def declared() -> dict[str, Any]:
    link = {"interface": None, "network": None, "rate_gbps": None, "mtu": None}
    return {
        "cpus": 1,
        "memory_mib": 1024,
        "gpus": {"kind": "nvidia", "model": "h100", "devices": ["/dev/nvidia0", "/dev/nvidia1"], "models": [H100]},
        "links": [
            {**link, "of": "cluster", "network": "10.0.0.0/24", "rate_gbps": 25.0, "mtu": 9000},
            {**link, "of": "storage", "network": "10.1.0.0/24"},
            {**link, "of": "compute", "interface": "mlx5_0", "rate_gbps": 400.0},
        ],
        "mounts": [{"path": "/scratch"}],
        "accounts": {},
        "hosts": {},
        "time_servers": [],
    }


FILES = {
    "proc/meminfo": "MemTotal:        1048576 kB\nMemAvailable:     786432 kB\n",
    "proc/self/mountinfo": "36 25 0:30 / / rw,relatime - ext4 /dev/vda1 rw\n"
    "99 36 0:50 / /scratch rw,nosuid shared:7 - nfs4 10.0.0.9:/scratch rw,hard\n",
    "proc/driver/nvidia/gpus/0000:01:00.0/information": f"Model: \t\t {H100}\nIRQ: 11\n",
    "proc/driver/nvidia/gpus/0000:02:00.0/information": f"Model: \t\t {H100}\n",
    "dev/nvidia0": "",
    "dev/nvidia1": "",
    "sys/class/net/bond0/carrier": "1\n",
    "sys/class/net/bond0/mtu": "9000\n",
    "sys/class/net/bond0/lower_eth0/x": "",
    "sys/class/net/bond0/lower_eth1/x": "",
    "sys/class/net/eth0/device/vendor": "0x15b3\n",
    "sys/class/net/eth0/speed": "25000\n",
    "sys/class/net/eth1/device/vendor": "0x15b3\n",
    "sys/class/net/eth1/speed": "25000\n",
    "sys/class/net/eth9/carrier": "1\n",
    "sys/class/net/eth9/mtu": "1500\n",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
    "sys/class/infiniband/mlx5_0/fw_ver": "28.39.1002\n",
    "sys/module/nvidia/version": "570.86.15\n",
    "sys/class/dmi/id/bios_version": "1.2.3\n",
    "opt/hpcforge/pytorch/lib/python3.11/site-packages/torch/version.py": (
        "from typing import Optional\n\n__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n"
        "git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'\nhip: Optional[str] = None\n"
    ),
    "var/lib/dpkg/status": "".join(
        f"Package: {name}\nStatus: {status}\nMaintainer: m\nArchitecture: all\nDescription: d\n{version}\n"
        for name, status, version in (
            ("libc6", "install ok installed", "Version: 2.36-9\n"),
            ("slurmd", "install ok installed", "Version: 22.05.8-4\n"),
            ("libmunge2", "install ok installed", "Version: 0.5.15-2\n"),
            ("libpmix2", "unknown ok not-installed", ""),
            ("vim", "install ok installed", "Version: 9\n"),
        )
    ),
}


def node(folder: Path, **instead: str) -> Path:
    """A node in a folder, with other contents for some files; `None` as text: the file is missing."""
    for name, text in {**FILES, **instead}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text != "None":
            path.write_text(text)
    return folder


def wrong(program: ModuleType, root: Path) -> list[tuple[str, str, str]]:
    found = program.parts(declared(), ADDRESSES, root)
    return [(part.name, str(part.expected), str(part.got)) for part in found if not part.right]


def test_a_node_that_is_as_declared(program: ModuleType, tmp_path: Path) -> None:
    root = node(tmp_path)
    assert wrong(program, root) == []
    assert program.versions(declared(), ADDRESSES, root) == {
        "kernel": os.uname().release,
        "gpu_driver": "570.86.15",
        "firmware": "1 x 28.39.1002",
        "bios": "1.2.3",
        "mtu": "cluster 9000, storage 1500",
        "pytorch": "2.13.0+cu130 cf30153c4c",
        "libc": "libc6 2.36-9",
        "slurm": "libmunge2 0.5.15-2, slurmd 22.05.8-4",
        "mpi": "none",
        "rdma": "none",
        "wheels": "none",
        "limits": program.job_view.limits(),
        "slurm_conf": "none",
        "folders": program.job_view.folders(program.job_view.home_of(os.geteuid()), root),
        "preload": "none",
    }


def test_memory_that_something_holds_is_no_memory_of_jobs(program: ModuleType, tmp_path: Path) -> None:
    meminfo = "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n"
    assert wrong(program, node(tmp_path, **{"proc/meminfo": meminfo})) == [("free memory, MiB", "768", "512")]


def test_a_process_that_keeps_a_core_busy_is_named(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_WINDOW_S", 0.1)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as stray:
        try:
            part = program.left_alone(0.01)
        finally:
            stray.kill()
    assert not part.right, part


def test_processes_with_an_idle_window_are_daemons(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may have any characters."""
    counted = iter([("7 (a) R) b)", 10), ("7 (a) R) b)", 30)])

    def moves_on(_: float) -> None:
        head, ticks = next(counted)
        (tmp_path / "proc/7").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/7/stat").write_text(f"{head} S {'1 ' * 10}{ticks} 0 {'0 ' * 6}4711 0\n")

    moves_on(0)
    monkeypatch.setattr(program.time, "sleep", moves_on)
    clock = iter(range(100))
    monkeypatch.setattr(program.time, "monotonic", lambda: next(clock))
    assert program.left_alone(0.5, tmp_path) == program.Part(
        "cores busy outside of the job", "at most 0.5", "0.2, most by a) R) b", True
    )


DIFFERENCES = {
    "dev/nvidia1": ("None", ("GPU /dev/nvidia1", "there", "missing")),
    "proc/driver/nvidia/gpus/0000:02:00.0/information": ("None", ("number of GPUs", "2", "1")),
    "proc/driver/nvidia/gpus/0000:01:00.0/information": (
        "Model: NVIDIA H100 PCIe\n", ("model of GPU 0", H100, "NVIDIA H100 PCIe")
    ),
    "proc/meminfo": ("MemTotal: 524288 kB\nMemAvailable: 786432 kB\n", ("memory, MiB", "1024", "512")),
    "sys/class/net/bond0/carrier": ("0\n", ("link of bond0", "up", "down")),
    "sys/class/net/bond0/mtu": ("1500\n", ("MTU of bond0", "9000", "1500")),
    "sys/class/net/eth1/speed": ("10000\n", ("rate of eth1, Gb/s", "25.0", "10.0")),
    "sys/class/infiniband/mlx5_0/ports/1/state": ("1: DOWN\n", ("adapter mlx5_0", "ACTIVE", "DOWN")),
    "sys/class/infiniband/mlx5_0/ports/1/rate": ("200 Gb/sec (4X HDR)\n", ("rate of mlx5_0, Gb/s", "400.0", "200.0")),
    "proc/self/mountinfo": ("36 25 0:30 / / rw - ext4 /dev/vda1 rw\n", ("mount /scratch", "mounted", "not mounted")),
}  # fmt: skip


@pytest.mark.parametrize("file", DIFFERENCES)
def test_what_differs_is_named(program: ModuleType, tmp_path: Path, file: str) -> None:
    text, difference = DIFFERENCES[file]
    assert wrong(program, node(tmp_path, **{file: text})) == [difference]


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("99 36 0:50 / /scratch ro,nosuid - nfs4 10.0.0.9:/scratch rw\n", "read only"),
        ("99 36 0:50 / /scratch rw - autofs systemd-1 rw\n", "not mounted"),
    ],
)
def test_a_mount_that_is_of_no_use(program: ModuleType, tmp_path: Path, line: str, got: str) -> None:
    root = node(tmp_path, **{"proc/self/mountinfo": FILES["proc/self/mountinfo"].splitlines()[0] + "\n" + line})
    assert wrong(program, root) == [("mount /scratch", "mounted", got)]


def test_a_mount_that_hangs_is_not_waited_for(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "python"
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    stuck.chmod(0o755)
    monkeypatch.setattr(program.sys, "executable", str(stuck))
    monkeypatch.setattr(program, "_MOUNT_S", 0.1)
    root = node(tmp_path / "root")
    (root / "scratch").mkdir()
    assert wrong(program, root) == [("mount /scratch", "mounted", "no answer")]


def test_mounts_are_compared_without_dev_null(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program.os, "devnull", str(tmp_path / "none"))
    assert wrong(program, node(tmp_path)) == []


def test_the_error_of_a_mount_is_reported(program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = f"import errno, os\ndef fail(path): raise OSError(errno.ESTALE, 'x')\nos.statvfs = fail\n{program._ASK}"
    monkeypatch.setattr(program, "_ASK", stale)
    assert wrong(program, node(tmp_path)) == [("mount /scratch", "mounted", "Stale file handle")]


def test_this_process_never_contacts_a_mount(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, own = node(tmp_path), os.stat

    def guarded(path: Any, **more: Any) -> os.stat_result:
        assert not str(path).endswith("/scratch")
        return own(path, **more)

    monkeypatch.setattr(os, "stat", guarded)
    assert wrong(program, root) == []


@pytest.fixture
def switched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with NVSwitches, two GPUs and metrics, and commands of it, in a folder."""
    (tmp_path / "bin").mkdir()
    command(tmp_path, "nvidia-smi", "printf '0, Completed, Success\\n1, Completed, Success\\n'")
    command(tmp_path, "systemctl", 'test "$1" = show && echo InactiveExitTimestampMonotonic=0 || echo active')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    devices = {
        "proc/driver/nvidia-nvswitch/devices/x": "",
        "var/lib/hpcforge_metrics/gpus.prom": "gpu_driver_up{} 1.0\n",
    }
    return node(tmp_path, **devices)


def command(folder: Path, name: str, script: str) -> None:
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / name).chmod(0o755)


def fabric(program: ModuleType, root: Path) -> dict[str, tuple[str, bool]]:
    return {part.name: (part.got, part.right) for part in program.fabric(declared()["gpus"], root)}


FABRIC = {
    "NVLink fabric of GPU 0": ("Completed, Success", True),
    "NVLink fabric of GPU 1": ("Completed, Success", True),
    "Fabric Manager": ("active", True),
    "fatal SXids of NVSwitches": ("none", True),
}


def test_what_nvswitches_need_is_compared(program: ModuleType, switched: Path) -> None:
    assert fabric(program, switched) == FABRIC
    command(switched, "nvidia-smi", "printf '0, In Progress, N/A\\n1, Completed, Insufficient Resources\\n'")
    command(switched, "systemctl", "echo failed; exit 3")
    own = 'nvswitch_sxid_seconds{bus="0000:a3:00",sxid="%d",kind="%s"} %.6f\n'
    rows = ((20034, "fatal", time.time()), (22013, "other", time.time()), (23001, "fatal", 1000.0))
    (switched / "var/lib/hpcforge_metrics/gpus.prom").write_text("".join(own % row for row in rows))
    assert fabric(program, switched) == {
        "NVLink fabric of GPU 0": ("In Progress, N/A", False),
        "NVLink fabric of GPU 1": ("Completed, Insufficient Resources", False),
        "Fabric Manager": ("failed", False),
        "fatal SXids of NVSwitches": ("20034 on 0000:a3:00", False),
    }
    started_us = int(time.monotonic() * 1e6) + 60_000_000
    command(
        switched, "systemctl", f'test "$1" = show && echo InactiveExitTimestampMonotonic={started_us} || echo active'
    )
    assert fabric(program, switched)["fatal SXids of NVSwitches"] == ("none", True)  # Fabric Manager started since


def test_without_nvswitches_or_metrics_less_is_compared(program: ModuleType, switched: Path) -> None:
    (switched / "var/lib/hpcforge_metrics/gpus.prom").unlink()
    command(switched, "nvidia-smi", "printf '0, [N/A], [N/A]\\n1, N/A, N/A\\n'")
    assert fabric(program, switched) == {"Fabric Manager": ("active", True)}
    (switched / "proc/driver/nvidia-nvswitch/devices/x").unlink()
    (switched / "proc/driver/nvidia-nvswitch/devices").rmdir()
    assert fabric(program, switched) == {}
    old = """echo 'Field "fabric.state" is not a valid field to query.'; exit 2"""
    command(switched, "nvidia-smi", old)
    assert fabric(program, switched) == {}
    assert list(program.fabric({"kind": "amd"}, switched)) == []


@pytest.fixture
def time_server() -> Iterator[Callable[[float], int]]:
    """Starts a server whose clock is some seconds ahead; gives its port."""
    opened = []

    def start(ahead_s: float) -> int:
        listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listening.bind(("127.0.0.1", 0))
        opened.append(listening)

        def serve() -> None:
            try:
                _, client = listening.recvfrom(256)
            except OSError:
                return
            now_s = time.time() + ahead_s + 2_208_988_800
            stamp = struct.pack("!II", int(now_s), int(now_s % 1 * 2**32))
            listening.sendto(b"\x24" + 31 * b"\0" + stamp + stamp, client)
            serve()

        threading.Thread(target=serve, daemon=True).start()
        port: int = listening.getsockname()[1]
        return port

    yield start
    for one in opened:
        one.close()


@pytest.mark.parametrize(("ahead_s", "right"), [(0.0, True), (2.5, False), (-2.5, False)])
def test_the_clock_is_that_of_the_server(
    program: ModuleType, time_server: Callable[[float], int], ahead_s: float, right: bool
) -> None:
    part, offset_s = program.clock(["127.0.0.1"], 0.5, time_server(ahead_s))
    assert part.right is right
    assert offset_s == pytest.approx(abs(ahead_s), abs=0.2)


def test_a_server_without_an_answer_is_named(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_ANSWER_S", 0.05)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        part, _ = program.clock(["127.0.0.1"], 0.5, silent.getsockname()[1])
    assert (part.right, part.got) == (False, "127.0.0.1 gives no time")
    assert program.clock([], 0.5)[0].right


def test_as_a_program_it_reports_each_difference(tmp_path: Path) -> None:
    memory = {**declared(), "gpus": None, "links": [], "mounts": [], "memory_mib": 1 << 40}
    file = tmp_path / "declared.json"
    # the name servers of this machine are no part of the test
    (tmp_path / "sitecustomize.py").write_text("import job_view; job_view.name_servers = lambda _text: []\n")
    path = {"PYTHONPATH": f"{tmp_path}:{PROGRAM.parents[1]}"}

    def run() -> tuple[int, list[dict[str, Any]]]:
        command = [sys.executable, str(PROGRAM), "--json", "--busy-cores=1000", "--declared", str(file)]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=os.environ | path,
        )
        assert ran.stderr == ""
        return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]

    file.write_text(json.dumps({**memory, "memory_mib": 1}))
    code, said = run()
    assert (code, [event["event"] for event in said]) == (0, [*["assertion"] * 3, "measurement", "result"])
    assert (said[3]["checks"], said[3]["mtu"]) == (5, "none")
    file.write_text(json.dumps(memory))
    code, said = run()
    assert (code, [event["event"] for event in said]) == (
        3,
        [*["assertion"] * 2, "wrong", "assertion", "wrong", "measurement"],
    )
    assert said[2]["where"] == "memory, MiB"
