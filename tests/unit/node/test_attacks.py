"""An unprivileged user against root: each attack is run by a process that is that user, in directories of that user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hpcforge.kinds import KINDS
from hpcforge.node import backups, bundle, disk_space, files, paths, remove
from hpcforge.node.events import NodeError
from hpcforge.node.kinds import accounts, links
from hpcforge.node.kinds import files as kept
from hpcforge.node.receipt import EMPTY
from tests.support.node_program import compare_file, put_file

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to play root and another user")
HER = 65534  # nobody: whoever has no rights
SECRET = b"only root may read this\n"
MIB = 2**20


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of root's that others may enter, with her home in it."""
    folder = Path(tempfile.mkdtemp(prefix="hpcforge-attacks-", dir="/var/tmp"))
    folder.chmod(0o755)
    for name in ("home", "home/.ssh"):
        (folder / name).mkdir()
        os.chown(folder / name, HER, HER)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def as_her(do: Callable[[], None]) -> Iterator[int]:
    """A process of hers that does something, while the test goes on; its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(HER)
            os.setuid(HER)
            do()
            os._exit(0)
        except BaseException as error:  # or the child would go on as a second test run
            print(error, file=sys.stderr)
            os._exit(1)
    try:
        yield pid
    finally:
        assert os.waitpid(pid, 0)[1] == 0, "she could not even try"


def she(do: Callable[[], None]) -> None:
    with as_her(do):
        pass


def keys(place: Path) -> Path:
    return place / "home/.ssh/authorized_keys"


def of_hers(wanted, path: Path) -> dict[str, object]:
    return wanted.root_file(path, "ssh-ed25519 AAAA her\n", mode="0700", owner="nobody", group="nogroup")


def tracks(place: Path) -> Path:
    folder = place / "originals"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def test_a_link_that_root_put_back_is_hers_and_leads_root_nowhere(place: Path, wanted) -> None:
    """What was her link is root's for a moment; she moves it to where root looks for her directory."""
    victim, path = place / "cron.daily", keys(place)
    victim.mkdir()
    she(lambda: path.symlink_to(victim))
    before = backups.keep(str(path), tracks(place))
    assert put_file(of_hers(wanted, path)) == "was a symbolic link"
    assert backups.restore(str(path), before, tracks(place)) == "restored"

    def move() -> None:
        path.parent.rename(place / "home/was_ssh")
        (place / "home/was_ssh/authorized_keys").rename(place / "home/.ssh")

    she(move)
    with pytest.raises(paths.UnsafeError, match=r"\.ssh is a symbolic link"):
        put_file(of_hers(wanted, path))
    assert list(victim.iterdir()) == []
    assert (place / "home/.ssh").lstat().st_uid == HER


@pytest.mark.parametrize("deeper", ["", "roots/"])
def test_roots_own_link_is_not_followed_where_she_may_move_it(place: Path, wanted, deeper: str) -> None:
    """Also one level further down, in a directory that is root's and that she can rename as a whole."""
    victim = place / "cron.daily"
    victim.mkdir()
    home = place / "home"
    (home / "roots").mkdir()
    (home / f"{deeper}link").symlink_to(victim)
    with pytest.raises(paths.UnsafeError, match="in a place that others can write to"):
        put_file(of_hers(wanted, home / f"{deeper}link/script"))
    assert list(victim.iterdir()) == []


def test_a_link_of_an_older_receipt_comes_back_as_hers(place: Path) -> None:
    path = keys(place)
    backups.restore(str(path), {"link": "/etc/cron.daily"}, tracks(place))
    assert (path.lstat().st_uid, str(path.readlink())) == (HER, "/etc/cron.daily")


def test_a_directory_that_is_made_in_her_home_is_hers(place: Path, wanted) -> None:
    path = keys(place)
    path.parent.rmdir()
    put_file(of_hers(wanted, path))
    assert path.parent.stat().st_uid == HER


def test_what_comes_back_to_her_home_has_none_of_roots_powers(place: Path) -> None:
    path = keys(place)
    path.write_bytes(b"#!/bin/sh\n")
    path.chmod(0o4755)
    before = backups.keep(str(path), tracks(place))
    path.unlink()
    backups.restore(str(path), before, tracks(place))
    assert path.stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("size", [15 * MIB, 400 * MIB], ids=["that is kept", "that is too large"])
def test_what_is_kept_of_her_file_is_what_was_in_it(place: Path, size: int) -> None:
    """She puts a link to root's file in the place of a sparse one while that is read, again and again."""
    path, secret, over = keys(place), place / "secret", place / "over"
    secret.write_bytes(SECRET)
    secret.chmod(0o400)

    def swap() -> None:
        large, link, number = path.with_name("large"), path.with_name("link"), 0
        while not over.exists():
            number += 1
            large.touch()
            os.truncate(large, size - number)  # another content each time, or what was kept before would do
            link.symlink_to(secret)
            large.rename(path)
            time.sleep(0.002)
            link.rename(path)
            time.sleep(0.05 if size < 16 * MIB else 0.5)

    kept = tracks(place)
    until, tried = time.monotonic() + 3, 0
    with as_her(swap):
        try:
            while time.monotonic() < until or tried < 5:
                tried += 1
                with suppress(NodeError, OSError):
                    backups.keep(str(path), kept)
        finally:
            over.touch()
    assert SECRET not in [path.read_bytes()[: len(SECRET)] for path in kept.iterdir()]


def test_a_second_name_of_roots_file_never_becomes_hers(place: Path, wanted, monkeypatch) -> None:
    """Between the look and the change of its rights something else may have come under the name."""
    path, roots = place / "home/f", place / "roots"
    she(lambda: path.write_text("new\n"))
    roots.write_text("new\n")
    look_at = files.look_at

    def and_then_swapped(folder: int, name: str, *more: object) -> files.PathEntry | None:
        entry = look_at(folder, name, *more)
        if name == "f":
            path.unlink()
            roots.rename(path)
        return entry

    monkeypatch.setattr(files, "look_at", and_then_swapped)
    with pytest.raises(paths.UnsafeError, match="was replaced"):
        put_file({**wanted.root_file(path, mode="0600", owner="nobody", group="nogroup"), "content_base64": None})
    assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (0, 0o644)


def test_a_file_of_two_terabytes_is_other_than_wanted_at_once(place: Path, wanted) -> None:
    path = keys(place)

    def grow() -> None:
        path.touch()
        os.truncate(path, 2 * 2**40)

    she(grow)
    start = time.monotonic()
    difference = compare_file(of_hers(wanted, path))
    assert (difference["kind"], difference["digest"], difference["text"]) == ("file", None, None)
    assert compare_file({**of_hers(wanted, path), "digest": None}) is not None  # a secret that is yet to be made
    disk_space.check([{"role": "users", "files": [of_hers(wanted, path)]}])
    with pytest.raises(backups.TooLargeError, match="move it away"):
        backups.keep(str(path), tracks(place))
    assert put_file(of_hers(wanted, path)) == "content"
    assert time.monotonic() - start < 30  # reading it takes a quarter of an hour
    assert path.read_text() == "ssh-ed25519 AAAA her\n"


def test_a_file_that_never_ends_is_given_up(place: Path) -> None:
    path = keys(place)

    def write() -> None:
        with path.open("wb") as file:
            while file.tell() < 64 * MIB:
                file.write(b"x" * MIB)

    with as_her(write):
        while not path.exists() or path.stat().st_size < MIB:
            time.sleep(0.001)
        entry = files.look(str(path))
    assert entry is not None
    assert entry.data is None


def test_a_link_in_her_folder_does_not_hold_up_a_removal(place: Path, report, heard) -> None:
    path = keys(place)
    path.symlink_to("/etc/motd")

    def obstruct() -> None:
        path.parent.rename(path.parent.with_name("moved"))
        path.parent.symlink_to("/etc/cron.daily")

    she(obstruct)
    assert links.restore(str(path), {"before": None, "made": []}, report) is None
    assert [event["detail"].endswith(": left alone") for event in heard if event["event"] == "warning"] == [True]
    assert not Path("/etc/cron.daily", path.name).exists()


@pytest.mark.parametrize("obstacle", ["link", "directory", "gone"])
def test_what_she_puts_in_the_way_does_not_hold_up_a_removal(place: Path, report, heard, obstacle: str) -> None:
    path = keys(place)
    role = {
        "role": "users",
        **{kind: [] for kind in KINDS},
        "files": [str(path)],
        "trees": [],
        "units": [],
        "packages": [],
    }
    file = {"digest": "0" * 64, "before": {"link": "elsewhere"}, "made": [str(path.parent)]}
    entry = {
        **role,
        **{kind: {} for kind in KINDS},
        "files": {str(path): file},
        "trees": {},
        "units": {},
        "on_remove": "stop",
    }

    def obstruct() -> None:
        path.parent.rmdir()
        if obstacle == "link":
            path.parent.symlink_to("/etc/cron.daily")
        elif obstacle == "directory":
            path.mkdir(parents=True)

    she(obstruct)
    remembered = EMPTY._replace(roles={"users": entry})

    def put_back(entry: dict[str, Any], name: str) -> str | None:
        return kept.restore(name, entry["files"][name], report)

    remove._act([role], "file", "files", put_back, remembered, report)
    remove._directories([role], remembered, EMPTY, report)
    assert report.failures == {}
    warned = [one for one in heard if one["event"] == "warning"]
    assert len(warned) == (0 if obstacle == "gone" else 1)
    assert not Path("/etc/cron.daily/authorized_keys").is_symlink()


_HOLD_UP = """
import sys
from hpcforge.kinds.directories import Directory
from hpcforge.node import files, backups, paths, disk_space
path = sys.argv[1]
disk_space.refuse([disk_space.SpaceNeed(path, 1, 1)])
for do in (lambda: files.look(path), lambda: backups.restore(path, {"link": "elsewhere"})):
    try:
        do()
    except paths.UnsafeError as error:
        print(error)
assert files.compare_directory(Directory(path))["kind"] == "unsafe"
"""


def test_a_directory_that_not_even_root_may_enter_is_hers_alone(place: Path) -> None:
    """As what a user mounts by FUSE over her home; here root goes without the right to enter everything."""
    home = place / "home"
    she(lambda: home.chmod(0o700))
    less = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    program = subprocess.run(
        [*less, sys.executable, "-c", _HOLD_UP, str(keys(place))],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert program.returncode == 0, program.stderr
    assert program.stdout.count("even root cannot read it") == 2


def test_a_request_whose_time_is_up_leaves_nothing_behind() -> None:
    """Root's processes must not pile up behind who asked and went away."""
    mark = f"3{os.getpid():07d}"
    check = {"name": "hangs", "command": ["sleep", mark], "stdout": None, "wait_s": 30}
    request = {"verb": "observe", "wanted": [{"role": "one", "checks": [check]}], "limit_s": 1.0}
    start = time.monotonic()
    program = subprocess.run(
        [sys.executable, "-IS", "-c", bundle.LOADER], input=bundle.payload(request).encode(), check=False, timeout=60
    )
    assert (program.returncode, time.monotonic() - start < 20) == (124, True)  # and not when its check gives up
    until = time.monotonic() + 20  # what is killed is there for another moment
    while subprocess.run(["pgrep", "-f", f"^sleep {mark}$"], capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_request_that_no_signal_reaches_is_ended_by_the_kernel() -> None:
    check = {"name": "spins", "command": ["echo", "a" * 40 + "!"], "stdout": "^(a+)+$", "wait_s": 0}
    request = {"verb": "observe", "wanted": [{"role": "one", "checks": [check]}], "limit_s": 1.0}
    program = subprocess.run(
        [sys.executable, "-IS", "-c", bundle.LOADER], input=bundle.payload(request).encode(), check=False, timeout=60
    )
    assert program.returncode in (-24, 124)  # SIGXCPU


def test_the_account_that_hpcforge_logs_in_to_is_not_locked(report, heard, monkeypatch) -> None:
    monkeypatch.setenv("SUDO_USER", "hpcforge-nosuchuser")
    assert accounts.restore("hpcforge-nosuchuser", True, report) is None
    assert [one["detail"] for one in heard] == [
        "hpcforge logs in as account hpcforge-nosuchuser: it is not locked, and no longer managed"
    ]
