"""What slurmd runs as root on workers: which faults it sees, what it tells Slurm, and whose things it takes away."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hpcforge import bundled
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.admission import MARK, drains
from hpcforge.plan.desired import Desired
from tests.support import sxids

PROGRAM = bundled.root() / "roles" / "slurm_health" / "health.py"
Compiled = Callable[[Cluster], Desired]


@pytest.fixture(scope="module")
def health() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slurm_health", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.AGAIN_S = 0.2
    return module


def wanted(**more: Any) -> dict[str, Any]:
    return {"gpus": [], "space": [], "min_free_mib": 0, "mounts": [], "units": [], **more}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node's files, two GPUs of which are there; a link stands for the device that it leads to."""
    (tmp_path / "dev").mkdir()
    for name in ("gpu0", "gpu1"):
        (tmp_path / "dev" / name).symlink_to("/dev/null")
    (tmp_path / "dev" / "gpu2").write_text("")  # a regular file is no device
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "mountinfo").write_text(
        "22 1 0:20 / / rw,relatime - ext4 /dev/vda rw\n30 22 0:30 / /scratch rw,relatime - nfs4 storage:/scratch rw\n"
    )
    return tmp_path


def faults(health: ModuleType, root: Path, **more: Any) -> list[str]:
    return list(health.faults(wanted(**more), lambda _: None, str(root)))


def test_a_missing_gpu_is_named_with_the_number(health: ModuleType, root: Path) -> None:
    assert faults(health, root, gpus=["/dev/gpu0", "/dev/gpu1"]) == []
    assert faults(health, root, gpus=["/dev/gpu0", "/dev/gpu1", "/dev/gpu2", "/dev/gpu3"]) == [
        "GPUs 2, declared 4: no /dev/gpu2, /dev/gpu3"
    ]


def test_what_is_not_mounted_is_named(health: ModuleType, root: Path) -> None:
    assert faults(health, root, mounts=["/scratch"]) == []
    assert faults(health, root, mounts=["/scratch", "/home"]) == ["nothing is mounted at /home"]


def file_system(free_mib: int = 4096, inodes: int = 1000, free_inodes: int = 10, flags: int = 0) -> os.statvfs_result:
    blocks = free_mib * 256
    return os.statvfs_result((4096, 4096, blocks, blocks, blocks, inodes, free_inodes, free_inodes, flags, 255))


def test_a_full_or_read_only_file_system_is_named(health: ModuleType, root: Path) -> None:
    def seen(**more: Any) -> list[str]:
        return list(health.space_faults("/tmp", file_system(**more), 512))

    assert seen() == []
    assert seen(free_mib=511) == ["/tmp has 511 MiB free, needed 512 MiB"]
    assert seen(free_inodes=0) == ["/tmp has 0 of 1000 inodes free"]
    assert seen(inodes=0, free_inodes=0) == []  # one that counts none
    assert seen(flags=os.ST_RDONLY) == ["/tmp is read-only"]
    # ... and of a real one
    assert faults(health, root, space=["/dev"]) == []
    assert re.fullmatch(
        r"/dev has [0-9]+ MiB free, needed 1099511627776 MiB",
        *faults(health, root, space=["/dev"], min_free_mib=1 << 40),
    )
    assert faults(health, root, space=["/gone"]) == ["/gone: No such file or directory"]


def test_who_uses_most_of_a_full_file_system_is_named(health: ModuleType, root: Path) -> None:
    (root / "etc").mkdir()
    (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\nada:x:2001:2001::/home/ada:/bin/bash\nodd\n")
    for folder in ("tmp/deep/deeper", "home/ben", "elsewhere"):
        (root / folder).mkdir(parents=True)
    for path, mib, uid in (
        ("tmp/deep/deeper/big", 5, 2001),
        ("tmp/more", 4, 2001),
        ("home/ben/data", 6, 2002),
        ("tmp/roots", 20, 0),
    ):
        (root / path).write_bytes(b"x" * (mib << 20))
        os.chown(root / path, uid, uid)
    (root / "elsewhere" / "huge").write_bytes(b"x" * (30 << 20))
    os.chown(root / "elsewhere" / "huge", 2002, 2002)
    (root / "tmp" / "link").symlink_to(root / "elsewhere")
    [fault] = faults(health, root, space=["/tmp"], min_free_mib=1 << 40)
    assert fault.endswith("; ada (uid 2001) uses 9 MiB of it")
    os.chown(root / "home" / "ben" / "data", 70000, 2002)
    (root / "home" / "ben" / "more").write_bytes(b"x" * (9 << 20))
    os.chown(root / "home" / "ben" / "more", 70000, 2002)
    mounts = health.mount_table(str(root))
    assert health.largest_owner(str(root / "tmp"), mounts, str(root)) == "; uid 70000 uses 15 MiB of it"
    assert health.largest_owner(str(root / "tmp"), mounts, str(root), until_s=0.0) == ""  # no time to look


def _noted(call: Callable[..., Any], touched: list[str]) -> Callable[..., Any]:
    def noted(path: object, *rest: Any, **more: Any) -> Any:
        touched.append(str(path))
        return call(path, *rest, **more)

    return noted


@pytest.mark.parametrize(
    "kind", ["nfs4 storage:/home", "fuse.glusterfs storage:/home", "autofs systemd-1", "fuseblk /dev/sdz"]
)
def test_what_may_hang_is_not_touched(
    health: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (root / "etc").mkdir()
    (root / "etc" / "passwd").write_text("ada:x:2001:2001::/home/ada:/bin/bash\n")
    (root / "proc" / "self" / "mountinfo").write_text(
        "22 1 0:20 / / rw,relatime - ext4 /dev/vda rw\n"
        f"30 22 0:30 / /home rw,relatime - {kind} rw\n31 22 0:31 / /tmp/of\\040ada rw,relatime - {kind} rw\n"
    )
    for folder in ("tmp/of ada", "home/ada/deep"):
        (root / folder).mkdir(parents=True)
    for path, mib in (("tmp/own", 3), ("tmp/of ada/data", 20), ("home/ada/deep/data", 20)):
        (root / path).write_bytes(b"x" * (mib << 20))
        os.chown(root / path, 2001, 2001)
    touched: list[str] = []
    for name in ("open", "stat", "statvfs"):
        monkeypatch.setattr(health.os, name, _noted(getattr(os, name), touched))
    [fault] = faults(health, root, space=["/tmp", "/home", "/home/ada"], min_free_mib=1 << 40, mounts=["/home"])
    assert fault.endswith("; ada (uid 2001) uses 3 MiB of it")
    assert touched
    assert not [path for path in touched if "home" in path or "of ada" in path]


def test_a_folder_on_a_network_is_not_cleaned(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(health, "mount_table", lambda: {"/": True, str(tmp_path): False})
    assert health.clean(str(tmp_path), os.getuid(), time.monotonic() + 10) == 0
    assert (tmp_path / "file").exists()


def test_a_unit_that_is_not_running_is_named(health: ModuleType) -> None:
    states = ["active", "failed", "activating", "inactive"]
    assert list(health.unit_faults(["a.service", "b.service", "c.service", "d.service"], states)) == [
        "b.service is failed",
        "d.service is inactive",
    ]


@pytest.mark.parametrize("form", sxids.FORMS)
def test_a_fatal_error_of_an_nvswitch_is_named_in_every_form(
    health: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    line, kind, number = sxids.FORMS[form]

    def said(program: str, *options: str, fails: bool) -> str:
        if program == "systemctl":
            return "0\n" if options[-1] == "nvidia-fabricmanager.service" else ""
        (pattern,) = (option.partition("=")[2] for option in options if option.startswith("--grep="))
        assert "--dmesg" in options and fails
        return sxids.entry(line) if re.search(pattern, line) else ""

    monkeypatch.setattr(health, "said", said)
    (root / "proc/driver/nvidia-nvswitch/devices").mkdir(parents=True)
    number_as_printed = line.partition("): ")[2].partition(",")[0]
    expected = [f"fatal SXid {number_as_printed} on NVSwitch {sxids.PLACE}"] if kind == "fatal" else []
    assert faults(health, root) == expected
    assert not expected or int(number_as_printed) == number


def test_fatal_errors_count_once_until_fabric_manager_starts_again(health: ModuleType) -> None:
    fatal = [sxids.FORMS[form].line for form in ("red hat: a link went down", "red hat: its severity")]
    lines = "\n".join([*(sxids.entry(line, uptime_s=100) for line in fatal * 3), sxids.entry([1]), "{"])
    named = [f"fatal SXid 20034 on NVSwitch {sxids.PLACE}"]
    for started_us in ("0", "", "99999999", "\u00b2"):
        assert list(health.sxid_faults(lines, started_us)) == named
    assert list(health.sxid_faults(lines, "100000001")) == []
    many = "\n".join(sxids.entry(f"nvidia-nvswitch{n}: SXid (PCI:0000:0{n}:00.0): 23001, Fatal, x") for n in range(7))
    assert list(health.sxid_faults(many, "0"))[3:] == [
        "fatal SXid 23001 on NVSwitch 0000:03:00",
        "3 more fatal SXids",
    ]


def test_a_journal_that_does_not_answer_leaves_the_other_checks(
    health: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (root / "proc/driver/nvidia-nvswitch/devices").mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin" / "journalctl").write_text("#!/bin/sh\nexec /bin/sleep 300\n")
    (root / "bin" / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}/bin")
    monkeypatch.setattr(health, "SLURM_S", 0.2)
    assert faults(health, root, mounts=["/home"]) == ["nothing is mounted at /home"]
    assert "journalctl" in capfd.readouterr().err


def test_without_nvswitches_the_journal_is_not_read(
    health: ModuleType, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "said", None)
    assert faults(health, root) == []


def test_checks_come_back_with_all_that_they_found(health: ModuleType, tmp_path: Path) -> None:
    lock = str(tmp_path / "lock")
    nowhere = str(tmp_path / "gpu")
    for _ in range(2):  # the second finds the lock free again
        assert health.found(wanted(gpus=[nowhere]), lock) == [f"GPUs 0, declared 1: no {nowhere}"]
    assert health.found(wanted(), lock) == []


def test_a_check_that_hangs_is_named_and_joined_by_no_other(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = tmp_path / "hangs"
    os.mkfifo(hangs)

    def opens(path: str) -> os.statvfs_result:
        hangs.read_text()  # until somebody writes, as a dead disk never does
        return file_system()

    monkeypatch.setattr(os, "statvfs", opens)
    lock = str(tmp_path / "lock")
    assert health.found(wanted(space=["/data"]), lock, 1.0) == ["/data does not answer within 1 s"]
    assert health.found(wanted(), lock, 1.0) == ["an earlier check has not come back for 1 s"]
    hangs.write_text("")  # it ends, and the next looks again
    monkeypatch.undo()
    assert health.found(wanted(), lock, 60.0) == []


def test_what_is_there_again_a_moment_later_is_no_fault(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / "gpu"
    monkeypatch.setattr(time, "sleep", lambda _: device.symlink_to("/dev/null"))
    assert health.found(wanted(gpus=[str(device)]), str(tmp_path / "lock")) == []
    assert device.exists()


def test_a_fault_of_the_looking_is_none_of_the_nodes(health: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the health check failed at nothing: KeyError: 'gpus'"):
        health.found({}, str(tmp_path / "lock"))


def node(state: str, reason: str = "") -> str:
    """As scontrol --oneliner has it."""
    said = f" Reason={reason} [root@2026-11-22T10:00:00]" if reason else ""
    return f"NodeName=w01 Arch=x86_64 State={state} ThreadsPerCore=1{said}"


def test_only_what_it_drained_itself_is_resumed(health: ModuleType) -> None:
    ours = "hpcforge-health: GPUs 1, declared 2"
    fault = ["GPUs 1, declared 2"]
    assert health.order(node("IDLE"), []) is None
    assert health.order(node("IDLE"), fault) == ("DRAIN", ours)
    assert health.order(node("MIXED"), fault) == ("DRAIN", ours)
    assert health.order(node("IDLE+DRAIN", ours), fault) is None
    assert health.order(node("IDLE+DRAIN", ours), ["/tmp is read-only"]) == (
        "DRAIN",
        "hpcforge-health: /tmp is read-only",
    )
    assert health.order(node("IDLE+DRAIN", ours), []) == ("RESUME", "")
    for theirs in ("disk", MARK + "being changed", "see hpcforge-health: no", "Low RealMemory", "Prolog error"):
        assert health.order(node("IDLE+DRAIN", theirs), []) is None
        assert health.order(node("IDLE+DRAIN", theirs), fault) is None


def test_hpcforge_does_not_resume_what_health_drained(health: ModuleType) -> None:
    reason = f"{health.PREFIX}GPUs 1, declared 2"
    assert drains([], {"w01": ("IDLE+DRAIN", reason)}) == ()
    assert len(drains([], {"w01": ("IDLE+DRAIN", MARK + "memory")})) == 1


def test_who_is_below_a_step_stays(health: ModuleType) -> None:
    there = {  # pid: parent, name, user
        1: (0, "systemd", 0),
        10: (1, "slurmstepd", 0),
        11: (10, "python", 2001),
        12: (11, "python", 2001),  # of a job that has begun meanwhile
        20: (1, "sleep", 2001),
        21: (1, "slurmstepd", 2001),  # he may call himself anything
        22: (21, "miner", 2001),
        30: (1, "sleep", 2002),
        40: (99, "orphan", 2001),  # whose parent has just gone
    }
    all_ = [health.Process(pid, parent, name, uid, False) for pid, (parent, name, uid) in there.items()]
    all_.append(health.Process(50, 1, "zombie", 2001, True))
    assert [one.pid for one in health.left(all_, 2001)] == [20, 21, 22, 40]


def test_processes_are_read_as_they_are(health: ModuleType) -> None:
    own = health.process(str(os.getpid()))
    assert (own.pid, own.parent, own.uid, own.over) == (os.getpid(), os.getppid(), os.getuid(), False)
    assert own in health.processes()
    assert health.process("4194305") is None  # above the highest number that there can be


class Node:
    """What programs of a node say, and what is then done to a user."""

    def __init__(self, health: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.health, self.says, self.done = health, {"squeue": "7\n", "sudo": ""}, list[object]()
        monkeypatch.setattr(health, "said", lambda program, *_, **__: self.says[program])
        monkeypatch.setattr(health, "end_processes", lambda uid: self.done.append(uid) or 0)
        monkeypatch.setattr(health, "clean", lambda path, uid, _: self.done.append((path, uid)) or 0)

    def after_job_7(self, uid: int, **more: Any) -> list[object]:
        self.done.clear()
        self.health.tidy({"end_processes": True, "clean": ["/dev/shm"], **more}, uid, "7")
        return self.done


def test_a_user_is_tidied_up_after(health: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(health, monkeypatch)
    assert node.after_job_7(54321) == [54321, ("/dev/shm", 54321)]
    assert node.after_job_7(54321, end_processes=False, clean=[]) == []


def test_who_is_to_be_spared_is(health: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(health, monkeypatch)
    for uid in (0, 1, 999, 65534):
        assert node.after_job_7(uid) == []
    monkeypatch.setattr(health, "FIRST_UID", 0)
    assert node.after_job_7(0) == [0, ("/dev/shm", 0)]
    node.says["sudo"] = "/usr/bin/true\n"  # who may use it for anything
    assert node.after_job_7(0) == []


def test_a_user_with_another_job_there_keeps_everything(health: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(health, monkeypatch)
    node.says["squeue"] = "7\n8\n"
    assert node.after_job_7(54321) == []


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="files of several users")
ADA, BOB = 2001, 2002


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder that all may write to, with things of two users, and what is not in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("")
    folder = tmp_path / "shared"
    for path in ("ada/deep/er", "bob/of_ada", "ada/of_bob"):
        (folder / path).mkdir(parents=True)
    for path in ("ada/file", "ada/deep/er/file", "ada/of_bob/file", "bob/of_ada/file", "bob/file", "root", "ada_file"):
        (folder / path).write_text("")
    for path in ("ada/deep/link", "link"):
        (folder / path).symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "fifo")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        owner = 0 if name == "root" else BOB if name in ("bob", "bob/file", "ada/of_bob", "ada/of_bob/file") else ADA
        os.chown(path, owner, owner, follow_symlinks=False)
    os.chown(tmp_path / "outside" / "precious", ADA, ADA)  # his own, and no link of his leads there
    yield folder


@needs_root
def test_what_is_a_users_goes_and_nothing_else(health: ModuleType, shared: Path) -> None:
    assert health.clean(str(shared), ADA, time.monotonic() + 60) == 6
    assert sorted(path.relative_to(shared).as_posix() for path in shared.rglob("*")) == [
        "ada",  # it holds what is bob's
        "ada/of_bob",
        "ada/of_bob/file",
        "bob",
        "bob/file",
        "bob/of_ada",  # what is in another's folder is between those two
        "bob/of_ada/file",
        "root",
    ]
    assert (shared.parent / "outside" / "precious").exists()


@needs_root
def test_a_folder_exchanged_for_a_link_is_not_followed(
    health: ModuleType, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a folder and its opening, which is when who races would do it."""
    opens = os.open

    def exchanged(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "deep":
            (shared / "ada" / "deep").rename(shared / "ada" / "moved")
            (shared / "ada" / "deep").symlink_to(shared.parent / "outside")
        return opens(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", exchanged)
    health.clean(str(shared), ADA, time.monotonic() + 60)
    assert (shared.parent / "outside" / "precious").exists()
    # The folder itself may be no link either.
    (shared.parent / "link").symlink_to(shared.parent / "outside")
    assert health.clean(str(shared.parent / "link"), ADA, time.monotonic() + 60) == 0
    assert (shared.parent / "outside" / "precious").exists()


@needs_root
def test_an_end_comes_to_it(health: ModuleType, shared: Path) -> None:
    assert health.clean(str(shared), ADA, time.monotonic()) == 0  # its time is over
    deep = shared / "/".join(["ada", *["d"] * 200])
    deep.mkdir(parents=True)
    for path in deep.parents:
        if path.is_relative_to(shared / "ada"):
            os.chown(path, ADA, ADA)
    health.clean(str(shared), ADA, time.monotonic() + 60)  # nor do folders without end exhaust it
    assert (shared / "ada" / "d").is_dir()


@needs_root
def test_what_a_user_left_is_ended(health: ModuleType) -> None:
    uid = 54321  # nobody's
    sleeps = subprocess.Popen(["sleep", "600"], user=uid)
    other = subprocess.Popen(["sleep", "600"], user=uid + 1)
    try:
        assert health.end_processes(uid) == 1
        assert sleeps.wait(60) == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_it_runs_as_slurm_runs_it(tmp_path: Path) -> None:
    """With no environment to speak of, on a host that has none of its files: that is nothing to drain a node for."""
    program = tmp_path / "program"
    program.write_bytes(PROGRAM.read_bytes())
    program.chmod(0o755)
    done = subprocess.run(
        [program],
        env={"SLURM_SCRIPT_CONTEXT": "prolog_slurmd"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "FileNotFoundError" in done.stderr
    assert "prolog_slurmd" in done.stderr
    compile(PROGRAM.read_text(), PROGRAM, "exec", dont_inherit=True, _feature_version=9)


def told(desired: Desired, name: str) -> dict[str, Any]:
    (file,) = (f for node in desired.nodes[name] for f in node.of(File) if f.path == "/etc/hpcforge/slurm_health.json")
    return dict(json.loads(desired.texts[str(file.digest)]))


def test_a_node_that_people_log_in_to_is_not_tidied_up(rehearsal: Cluster, compiled: Compiled) -> None:
    cluster = dataclasses.replace(
        rehearsal,
        nodes=tuple(
            dataclasses.replace(node, functions=("login", "worker")) if node.name == "w02" else node
            for node in rehearsal.nodes
        ),
    )
    desired = compiled(cluster)
    assert (told(desired, "w01")["end_processes"], told(desired, "w01")["clean"]) == (True, ["/dev/shm"])
    assert (told(desired, "w02")["end_processes"], told(desired, "w02")["clean"]) == (False, [])


def slurm_conf(cluster: Cluster, compiled: Compiled, *settings: tuple[str, str]) -> list[str]:
    cluster = dataclasses.replace(cluster, slurm=dataclasses.replace(cluster.slurm, settings=settings))
    desired = compiled(cluster)
    (file,) = (f for node in desired.nodes["head"] for f in node.of(File) if f.path == "/etc/slurm/slurm.conf")
    return desired.texts[str(file.digest)].splitlines()


def test_the_sites_own_settings_come_first_and_lists_have_both(rehearsal: Cluster, compiled: Compiled) -> None:
    assert {"HealthCheckInterval=60", "PrologFlags=Alloc", "SchedulerParameters=nohold_on_prolog_fail"} <= set(
        slurm_conf(rehearsal, compiled)
    )
    own = (("healthcheckinterval", "5"), ("schedulerparameters", "bf_window=60"), ("DebugFlags", "Gres"))
    lines = slurm_conf(rehearsal, compiled, *own)
    assert [line for line in lines if line.lower().startswith(("healthcheckint", "scheduler", "debug"))] == [
        "healthcheckinterval=5",
        "schedulerparameters=bf_window=60,nohold_on_prolog_fail",
        "DebugFlags=Gres",
    ]


def test_the_pattern_of_slurm_conf_is_this_program_or_true(rehearsal: Cluster, compiled: Compiled) -> None:
    """On a node that has not got the role yet, a job's prolog is /usr/bin/true, which every node has."""
    (pattern,) = (line.partition("=")[2] for line in slurm_conf(rehearsal, compiled) if line.startswith("Prolog="))
    programs = [f.path for node in compiled(rehearsal).nodes["w01"] for f in node.of(File) if f.mode == "0755"]
    assert [path for path in programs if Path(path).match(pattern)] == ["/usr/bin/hpcforge-health-or-true"]
    assert Path("/usr/bin/true").match(pattern)
