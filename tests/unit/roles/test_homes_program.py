"""What makes homes on their server, run as root in folders of a test, with accounts of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcforge import bundled

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to users")

PROGRAM = bundled.root() / "roles" / "shared_homes" / "homes.py"
PASSWD = """\
root:x:0:0::/root:/bin/sh
ops:x:1000:1000::/home/ops:/bin/sh
ada:x:2001:2001::/homes/ada:/bin/sh
bob:x:2002:2002::/homes/bob:/bin/sh
grace:x:5001:6001::/homes/grace:/bin/sh
henry:x:5002:6002::/homes/henry:/bin/sh
daemon:x:900:900::/homes/daemon:/bin/sh
"""
GROUP = "root:x:0:\nada:x:2001:\nbob:x:2002:\nstaff-a:x:6001:\nstaff-b:x:6002:\nlab:x:6003:henry\n"
RUN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("homes", sys.argv[1]); it = importlib.util.module_from_spec(spec)
spec.loader.exec_module(it)
it.SAID, it.SKELETON, it.DIRECTORY = sys.argv[2], sys.argv[3], sys.argv[5:]
try: sys.exit("\\n".join(it.main(sys.argv[4])) or 0)
except it.HomeError as error: sys.exit(str(error))
"""
BOUND = 'mount --bind "$0/passwd" /etc/passwd; mount --bind "$0/group" /etc/group; exec "$@"'


class Server:
    """A node that has homes below `srv`, and knows some people."""

    def __init__(self, root: Path) -> None:
        self.root, self.homes, self.skeleton = root, root / "srv" / "homes", root / "skel"
        self.homes.mkdir(parents=True)
        (root / "passwd").write_text(PASSWD)
        (root / "group").write_text(GROUP)
        (self.skeleton / "dot").mkdir(parents=True)
        (self.skeleton / ".profile").write_text("# hers\n")
        (self.skeleton / "dot" / "run").write_text("#!/bin/sh\n")
        (self.skeleton / "dot" / "run").chmod(0o755)
        (self.skeleton / "link").symlink_to("/etc/motd")
        os.mkfifo(self.skeleton / "pipe")
        self.said = {
            "path": str(self.homes),
            "mount": "/homes",
            "users": ["ada", "bob"],
            "directory": False,
            "allowed_groups": [],
        }

    def run(self, what: str = "make", people: tuple[str, ...] = ("false",)) -> str:
        """What it complains of."""
        (self.root / "homes.json").write_text(json.dumps(self.said))
        python = [sys.executable, "-IS", "-c", RUN, PROGRAM, self.root / "homes.json", self.skeleton, what, *people]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-ec", BOUND, self.root, *python], capture_output=True, text=True, check=False
        )
        assert done.stdout == ""
        assert bool(done.returncode) == bool(done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stderr.strip()

    def there(self) -> list[str]:
        return sorted(path.name for path in self.homes.iterdir())


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def of(path: Path) -> tuple[int, int, str]:
    info = path.lstat()
    return info.st_uid, info.st_gid, f"{info.st_mode & 0o7777:o}"


def test_each_user_gets_a_home_of_her_own_with_what_is_in_the_skeleton(server: Server) -> None:
    assert server.run() == ""
    assert server.there() == ["ada", "bob"]
    ada = server.homes / "ada"
    assert of(ada) == (2001, 2001, "700")
    assert sorted(path.name for path in ada.iterdir()) == [".profile", "dot", "link"]
    assert (ada / ".profile").read_text() == "# hers\n"
    assert of(ada / ".profile") == (2001, 2001, "644")
    assert of(ada / "dot") == (2001, 2001, "755")
    assert of(ada / "dot" / "run") == (2001, 2001, "755")
    assert (ada / "link").readlink() == Path("/etc/motd")
    assert of(ada / "link")[:2] == (2001, 2001)


def test_what_is_there_is_hers_to_change(server: Server) -> None:
    server.run()
    (server.homes / "ada" / ".profile").unlink()
    (server.homes / "ada").chmod(0o755)
    before = (server.homes / "ada").stat().st_mtime_ns
    assert server.run() == server.run("check") == ""
    assert of(server.homes / "ada")[2] == "755"
    assert not (server.homes / "ada" / ".profile").exists()
    assert (server.homes / "ada").stat().st_mtime_ns == before


def test_a_check_makes_nothing_and_names_who_has_none(server: Server) -> None:
    assert server.run("check") == f"ada: there is no {server.homes}/ada\nbob: there is no {server.homes}/bob"
    assert server.there() == []


def test_who_left_keeps_hers(server: Server) -> None:
    server.run()
    server.said["users"] = ["bob"]
    assert server.run() == server.run("check") == ""
    assert server.there() == ["ada", "bob"]


@pytest.mark.parametrize("what", ["make", "check"])
def test_what_somebody_planted_is_named_and_not_followed(server: Server, what: str) -> None:
    theirs = server.root / "theirs"
    theirs.mkdir()
    (server.homes / "ada").symlink_to(theirs)
    (server.homes / "bob").mkdir()
    os.chown(server.homes / "bob", 2001, 2001)
    assert server.run(what).splitlines() == [
        f"ada: {server.homes}/ada is no folder; nothing of it was changed",
        f"bob: {server.homes}/bob belongs to user 2001, and she is 2002; nothing of it was changed",
    ]
    assert list(theirs.iterdir()) == []
    assert of(theirs) == (0, 0, "755")


def test_one_that_was_stopped_is_begun_anew(server: Server) -> None:
    unfinished = server.homes / ".new.ada"
    (unfinished / "dot").mkdir(parents=True)
    (unfinished / "half").touch()
    assert server.run() == ""
    assert server.there() == ["ada", "bob"]
    assert not (server.homes / "ada" / "half").exists()


def test_a_folder_that_others_may_write_to_is_refused(server: Server) -> None:
    server.homes.chmod(0o1777)
    assert "others than root may write there" in server.run()
    assert server.there() == []


def test_a_way_that_somebody_can_move_is_refused(server: Server) -> None:
    os.chown(server.homes.parent, 2001, 2001)
    assert "somebody other than root can move srv" in server.run()
    os.chown(server.homes.parent, 0, 0)
    server.homes.parent.chmod(0o777)
    assert "somebody other than root can move homes" in server.run()
    server.homes.parent.chmod(0o755)
    link = server.root / "link"
    link.symlink_to(server.homes.parent)
    server.said["path"] = str(link / "homes")
    assert "no link leads there" in server.run()
    assert server.there() == []


def test_people_of_a_directory_get_theirs_whoever_they_say_they_are(server: Server) -> None:
    server.said["directory"] = True
    people = ("printf", "%s\n", "grace", "henry", "nobody-knows", "../etc", ".hidden", "root", "ops", "daemon")
    said = server.run(people=people)
    assert server.there() == ["ada", "bob", "grace", "henry"]
    assert of(server.homes / "grace") == (5001, 6001, "700")
    assert said.splitlines() == [
        "../etc: '../etc' cannot be the name of a folder",
        ".hidden: '.hidden' cannot be the name of a folder",
        "daemon: user 900, group 900: those of the system have no home here",
    ]


def test_of_a_directory_only_who_may_log_in(server: Server) -> None:
    server.said |= {"directory": True, "allowed_groups": ["lab", "no-such-group"]}
    assert server.run(people=("printf", "%s\n", "grace", "henry")) == ""
    assert server.there() == ["ada", "bob", "henry"]
    server.said["allowed_groups"] = ["staff-a"]  # grace's own
    assert server.run(people=("printf", "%s\n", "grace", "henry")) == ""
    assert server.there() == ["ada", "bob", "grace", "henry"]


def test_a_directory_that_is_away_keeps_nobody_else_from_a_home(server: Server) -> None:
    server.said["directory"] = True
    assert server.run(people=("sh", "-c", "echo 'no answer' >&2; exit 1")) == "the directory: no answer"
    assert server.there() == ["ada", "bob"]
    assert "the directory was not asked: [Errno 2]" in server.run(people=("/no/such/program",))
    assert server.run("check") == ""  # the blueprint's users; of the directory others say that it is away


def test_users_of_the_blueprint_have_theirs_before_the_directory_is_asked(server: Server) -> None:
    server.said["directory"] = True
    lists = ("sh", "-c", 'ls "$0"; echo grace', str(server.homes))
    assert server.run(people=lists) == ""
    assert server.there() == ["ada", "bob", "grace"]
    server.said["users"] = ["ada", "bob", "henry"]
    assert (
        server.run(people=("sh", "-c", 'ls "$0" >&2; exit 1', str(server.homes)))
        == "the directory: ada bob grace henry"
    )


def test_an_account_that_is_still_to_move_finds_a_home(server: Server) -> None:
    server.said["users"] = ["ada", "ops"]
    assert server.run("check").splitlines() == [f"{name}: there is no {server.homes}/{name}" for name in ("ada", "ops")]
    assert server.run() == server.run("check") == ""
    assert of(server.homes / "ops") == (1000, 1000, "700")
