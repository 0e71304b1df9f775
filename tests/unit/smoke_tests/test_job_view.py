"""What a job sees of its node: each difference that a node may have from its neighbours is named."""

from __future__ import annotations

import errno
import importlib
import os
import pwd
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.shipped import ROOT


@pytest.fixture(scope="module")
def view() -> Iterator[ModuleType]:
    sys.path.append(str(ROOT / "smoke_tests"))
    yield importlib.import_module("job_view")
    sys.path.remove(str(ROOT / "smoke_tests"))


def installed(root: Path, *wheels: str) -> Path:
    """Return a root with these wheels, as pip records them."""
    for wheel in wheels:
        folder = root / "opt/hpcforge/pytorch/lib/python3.11/site-packages" / f"{wheel}.dist-info"
        folder.mkdir(parents=True)
        name = wheel.partition("-")[0]
        (folder / "RECORD").write_text(
            f"{name}/__init__.py,sha256=abc,10\n{name}/__pycache__/__init__.cpython-311.pyc,,\n"
            f"../../../bin/{name},sha256=ghi,200\n{wheel}.dist-info/INSTALLER,sha256=def,4\n{wheel}.dist-info/RECORD,,\n"
        )
    return root


def test_another_numpy_in_the_environment_is_another_text(view: ModuleType, tmp_path: Path) -> None:
    same = [view.wheels(installed(tmp_path / name, "numpy-2.1.0", "torch-2.13.0+cpu")) for name in ("w1", "w2")]
    assert same[0] == same[1]
    assert same[0].startswith("torch 2.13.0+cpu, numpy 2.1.0, 2 wheels ")
    other = view.wheels(installed(tmp_path / "w3", "numpy-1.26.4", "torch-2.13.0+cpu"))
    assert other.startswith("torch 2.13.0+cpu, numpy 1.26.4, 2 wheels ")
    assert view.wheels(tmp_path / "w4") == "none"


@pytest.mark.parametrize(
    ("old", "new", "alike"),
    [
        ("sha256=abc", "sha256=xyz", False),  # a file of the wheel
        ("__pycache__/__init__.cpython-311", "__pycache__/__init__.cpython-313", True),
        ("bin/numpy,sha256=ghi", "bin/numpy,sha256=rst", True),  # its first line has the path of a build
        ("INSTALLER,sha256=def", "INSTALLER,sha256=uvw", True),  # pip or another
    ],
)
def test_a_record_counts_by_its_files(view: ModuleType, tmp_path: Path, old: str, new: str, alike: bool) -> None:
    one, other = (installed(tmp_path / name, "numpy-2.1.0") for name in ("w1", "w2"))
    record = next(other.glob("opt/*/*/lib/*/site-packages/*/RECORD"))
    assert old in record.read_text()
    record.write_text(record.read_text().replace(old, new))
    assert (view.wheels(one) == view.wheels(other)) == alike


def test_a_stale_configuration_of_slurm_is_another_text(view: ModuleType, tmp_path: Path) -> None:
    assert view.slurm_conf(tmp_path) == "none"
    texts = []
    for number, folder in enumerate(("etc/slurm", "var/spool/slurmd/conf-cache", "run/slurm/conf")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "slurm.conf").write_text(f"SlurmdTimeout={number}\n")
        texts.append(view.slurm_conf(tmp_path))
    assert len({*texts}) == 3  # slurmd's own copy counts before /etc


def test_limits_are_soft_and_hard(view: ModuleType) -> None:
    words = [each.split() for each in view.limits().split(", ")]
    assert [name for name, _ in words] == ["nofile", "memlock"]
    assert all(len(value.split("/")) == 2 for _, value in words)


def test_a_device_that_does_not_open(view: ModuleType, tmp_path: Path) -> None:
    """A socket is a file that no account can open, root included. One that is missing is another part's."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia1").touch()
    with socket.socket(socket.AF_UNIX) as nothing:
        nothing.bind(str(tmp_path / "dev" / "nvidia0"))
        parts = [*view.devices(["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"], tmp_path)]
        (stand_in,) = view.devices(["/dev/nvidia0"], tmp_path, stand_ins=True)
    assert [(part.name, part.got, part.right) for part in parts] == [
        ("GPU /dev/nvidia0 for users", "No such device or address", False),
        ("GPU /dev/nvidia1 for users", "opens", True),
    ]
    assert stand_in.right


def dev(root: Path, **instead: str) -> Path:
    """A root with this machine's device files, some of them those of another name; "": a plain file."""
    (root / "dev").mkdir()
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        source = instead.get(name, name)
        if source:
            (root / "dev" / name).symlink_to(f"/dev/{source}")
        else:
            (root / "dev" / name).touch()
    return root


def test_device_files_of_every_linux_are_right_here(view: ModuleType, tmp_path: Path) -> None:
    assert [*view.device_files(dev(tmp_path))] == []


def test_a_plain_file_in_place_of_dev_null_is_named(view: ModuleType, tmp_path: Path) -> None:
    """So is one that is away, another device's, a folder, and one that does not open."""
    root = dev(tmp_path, null="", zero="null", full="no-such-device", random="shm")
    assert [(part.name, part.expected, part.got, part.right) for part in view.device_files(root)] == [
        ("/dev/null for users", "character device 1:3", "a plain file", False),
        ("/dev/zero for users", "character device 1:5", "character device 1:3", False),
        ("/dev/full for users", "character device 1:7", "No such file or directory", False),
        ("/dev/random for users", "character device 1:8", "no character device", False),
    ]


@pytest.mark.parametrize(
    ("name", "error", "wrong"),
    [("null", errno.EACCES, True), ("tty", errno.EACCES, True), ("tty", errno.ENXIO, False)],
)
def test_a_device_file_must_open(
    view: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: int, wrong: bool
) -> None:
    """Without a terminal the kernel gives none, and that is right."""
    root, real = dev(tmp_path), os.open

    def refuse(path: Path, flags: int, **more: Any) -> int:
        if path == root / "dev" / name:
            raise OSError(error, "refused")
        return real(path, flags, **more)

    monkeypatch.setattr(view.os, "open", refuse)
    got = [(part.name, part.got) for part in view.device_files(root)]
    assert got == ([(f"/dev/{name} for users", "Permission denied")] if wrong else [])


def test_room_that_jobs_need(view: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    full = {"/shm": (256, 8), "/home": (0, 10**6), "/tmp": (10**6, 0)}

    def seen(path: Path) -> os.statvfs_result:
        blocks, inodes = full[str(path)]
        fields = [*real]
        fields[0:2], fields[4], fields[5], fields[7] = (4096, 4096), blocks, 10**7, inodes
        return os.statvfs_result(fields)

    monkeypatch.setattr(view.os, "statvfs", seen)
    parts = [*view.room([Path("/shm"), Path("/home"), Path("/tmp")])]
    assert not any(part.right for part in parts)
    assert [part.name for part in parts] == [
        "free room of /shm, MiB",
        "free inodes of /shm",
        "free room of /home, MiB",
        "free inodes of /tmp",
    ]
    monkeypatch.undo()
    assert [*view.room([tmp_path / "not there"])] == []


def test_an_account_with_another_number(view: ModuleType) -> None:
    own = pwd.getpwuid(os.getuid())
    assert [*view.accounts({own.pw_name: own.pw_uid})] == []
    other, missing = view.accounts({own.pw_name: own.pw_uid + 1, "no-such-account": 7})
    assert (other.name, other.got, other.right) == (f"number of account {own.pw_name}", str(own.pw_uid), False)
    assert missing.got == "missing"


def test_a_name_with_another_address(view: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"w1": "10.0.0.1", "w2": "10.0.0.9"}

    def resolve(name: str, *_: object) -> list[tuple[object, ...]]:
        if name not in addresses:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(0, 0, 0, "", (addresses[name], 0))]

    monkeypatch.setattr(view.socket, "getaddrinfo", resolve)
    wrong = [*view.hosts({"w1": "10.0.0.1", "w2": "10.0.0.2", "w3": "10.0.0.3"})]
    assert [(part.name, part.expected, part.got) for part in wrong] == [
        ("address of w2", "10.0.0.2", "10.0.0.9"),
        ("address of w3", "10.0.0.3", "Temporary failure in name resolution"),
    ]
    monkeypatch.setattr(view, "_HOSTS_S", -1.0)
    (late,) = view.hosts({"w1": "10.0.0.1"})
    assert (late.name, late.right) == ("names of other nodes", False)


FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/24 2 0 2
        |-- 10.0.0.0
           /24 link UNICAST
        |-- 10.0.0.14
           /32 host LOCAL
        |-- 10.0.0.15
           /32 host LOCAL
        |-- 10.0.0.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
"""


def test_another_nodes_address_on_this_one_is_named(view: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/fib_trie").write_text(FIB_TRIE)
    held = view.own_addresses(tmp_path)
    assert held == {"10.0.0.14", "10.0.0.15", "127.0.0.1"}
    nodes = {"w03": "10.0.0.13", "w04": "10.0.0.14", "w05": "10.0.0.15"}
    (part,) = view.addresses_of_others(nodes, "w05", held)
    assert part == view.Part("address 10.0.0.14", "on w04 alone", "on w05", False)


@pytest.mark.parametrize(
    ("nodes", "own"),
    [
        ({"w04": "10.0.0.14", "w05": "10.0.0.15"}, ""),  # not in a step: the name is not known
        ({"w04": "10.0.0.15", "w05": "10.0.0.15"}, "w05"),  # two names of one machine
        ({"w04": "127.0.0.1"}, "w05"),
        ({"w04": "10.0.0.24", "w05": "10.0.0.15"}, "w05"),  # 10.0.0.14 is a bridge's, on all nodes
    ],
)
def test_addresses_that_are_no_other_nodes(view: ModuleType, nodes: dict[str, str], own: str) -> None:
    assert [*view.addresses_of_others(nodes, own, {"10.0.0.14", "10.0.0.15", "127.0.0.1"})] == []


def test_this_machines_addresses_are_read_from_the_kernel(view: ModuleType) -> None:
    assert "127.0.0.1" in view.own_addresses(Path("/"))


def test_a_name_server_that_is_dead(view: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses the question answers: whether it knows a name is no matter of this part."""
    monkeypatch.setattr(view, "_ANSWER_S", 0.2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        (silent,) = view.name_servers("search example.org\nnameserver 127.0.0.1\n", port)
        assert (silent.name, silent.got, silent.right) == ("name server 127.0.0.1", "none", False)
        while True:  # what the silent one was asked
            server.settimeout(0.0)
            try:
                server.recv(512)
            except OSError:
                break
        server.settimeout(30)

        def refuse() -> None:
            question, address = server.recvfrom(512)
            server.sendto(question[:2] + b"\x80\x05" + question[4:], address)

        monkeypatch.setattr(view, "_ANSWER_S", 30.0)
        answering = threading.Thread(target=refuse)
        answering.start()
        (part,) = view.name_servers("nameserver 127.0.0.1\n", port)
        answering.join()
    assert part.right
    assert [*view.name_servers("nameserver fe80::1\n# nameserver 10.0.0.1\n")] == []


FOLDERS = ("tmp", "var/tmp", "dev/shm", "home/ada")


def with_folders(root: Path, but: str = "") -> Path:
    for folder in FOLDERS:
        if folder != but:
            (root / folder).mkdir(parents=True)
    return root


def test_a_home_that_is_away_is_another_text(view: ModuleType, tmp_path: Path) -> None:
    usual = view.folders("/home/ada", with_folders(tmp_path / "w1"))
    assert usual == "/tmp rw, /var/tmp rw, /dev/shm rw, /home/ada rw"
    assert view.folders("/home/ada", with_folders(tmp_path / "w2")) == usual
    other = view.folders("/home/ada", with_folders(tmp_path / "w3", but="home/ada"))
    assert other == "/tmp rw, /var/tmp rw, /dev/shm rw, /home/ada missing"


@pytest.mark.parametrize(
    ("flags", "writable", "text"),
    [
        (os.ST_NOEXEC | os.ST_NOSUID, True, "noexec"),
        (os.ST_RDONLY | os.ST_NOEXEC, False, "ro"),
        (os.ST_NOSUID | os.ST_NODEV, True, "rw"),
        (0, False, "not writable"),
    ],
)
def test_a_folder_that_is_mounted_otherwise_is_another_text(
    view: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int, writable: bool, text: str
) -> None:
    root = with_folders(tmp_path)

    def mounted(path: Path) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, *[10**6] * 6, flags if path == root / "tmp" else 0, 255))

    monkeypatch.setattr(view.os, "statvfs", mounted)
    monkeypatch.setattr(view.os, "access", lambda path, _: writable or path != root / "tmp")
    assert view.folders("/home/ada", root).split(", ") == [
        f"/tmp {text}", "/var/tmp rw", "/dev/shm rw", "/home/ada rw"
    ]  # fmt: skip


def test_a_library_that_every_program_loads_is_another_text(view: ModuleType, tmp_path: Path) -> None:
    """A file without a library is as good as none; a folder in its place is not."""
    file = tmp_path / "etc/ld.so.preload"
    assert view.preload(tmp_path) == "none"
    file.parent.mkdir()
    file.write_text("\n")
    assert view.preload(tmp_path) == "none"
    texts = []
    for libraries in ("/usr/lib/liba.so\n", "/usr/lib/liba.so", "/usr/lib/libb.so\n"):
        file.write_text(libraries)
        texts.append(view.preload(tmp_path))
    assert (len({*texts}), texts[0]) == (2, texts[1])
    file.unlink()
    file.mkdir()
    assert view.preload(tmp_path) == "Is a directory"
