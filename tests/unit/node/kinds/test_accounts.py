"""Homes of accounts that are there already: useradd and usermod, with an /etc and a /home apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes accounts")

UID = 43001  # of no other test: usermod looks for processes of the user's on the whole machine
APART = """
mkdir "$0/etc" "$0/home" "$0/homes" "$0/bare"
cp -a /etc/. "$0/etc"
mount --bind "$0/etc" /etc
mount --bind "$0/home" /home
exec "$@"
"""
RUN = """
import json, subprocess, sys
from hpcforge.kinds import KINDS
from hpcforge.node import converge
from hpcforge.node.events import EventReporter
from hpcforge.node.kinds import accounts, resource

heard = []
for step in json.loads(sys.argv[1]):
    if "sh" in step:
        said = subprocess.run(["sh", "-ec", step["sh"]], capture_output=True, text=True, check=True).stdout
        heard.append({"event": "said", "detail": said})
        continue
    busy = step.pop("busy", False) and subprocess.Popen(
        ["setpriv", f"--reuid={step['uid']}", "--clear-groups", "sh", "-c", "echo here; exec sleep 600"],
        stdout=subprocess.PIPE,
    )
    if busy:
        busy.stdout.readline()  # it is hers from now on, and not only when setpriv has begun
    wanted = resource("accounts", step)
    heard.append({"event": "differs", "found": accounts.compare(wanted)})
    report = EventReporter(heard.append)
    list(converge._put_items({"role": "users"}, KINDS["accounts"], [wanted], report))
    if busy:
        busy.kill()
        busy.wait()
print(json.dumps(heard))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def done(root: Path, *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """What is told, step by step: an account that is put, or a line of shell."""
    python = [sys.executable, "-c", RUN, json.dumps(steps)]
    words = ["unshare", "--mount", "sh", "-ec", APART, str(root), *python]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    heard: list[dict[str, Any]] = json.loads(ran.stdout)
    return heard


def guest(**more: Any) -> dict[str, Any]:
    return {"name": "hf-guest", "uid": UID, "home": "/home/hf-guest", "shell": "/bin/sh", **more}


def told(heard: list[dict[str, Any]], kind: str, field: str = "detail") -> list[Any]:
    return [one[field] for one in heard if one["event"] == kind]


HOME = {"sh": "getent passwd hf-guest | cut -d: -f6"}


def test_a_home_changes_once_it_is_mounted(root: Path) -> None:
    shared = guest(home=f"{root}/homes/hf-guest", make_home=False, mount=f"{root}/homes")
    heard = done(root, guest(), shared, HOME, {"sh": f"mount -t tmpfs none {root}/homes"}, shared, HOME, shared)
    assert told(heard, "failed", "error") == []
    [warning] = told(heard, "warning")
    assert warning == (
        f"account hf-guest: its home is still /home/hf-guest: mount {root}/homes first; then apply again"
    )
    assert told(heard, "changed") == ["created", f"home /home/hf-guest -> {root}/homes/hf-guest"]
    assert told(heard, "said") == ["/home/hf-guest\n", "", f"{root}/homes/hf-guest\n"]
    assert [one and one["home"] for one in told(heard, "differs", "found")] == [None, *["/home/hf-guest"] * 2, None]


def test_a_user_who_is_at_work_keeps_her_home_and_all_else_is_done(root: Path) -> None:
    moved = guest(home=f"{root}/bare/hf-guest", shell="/bin/bash", make_home=False)
    heard = done(root, guest(), {**moved, "busy": True}, HOME, moved, HOME)
    assert told(heard, "failed", "error") == []
    [warning] = told(heard, "warning")
    assert "its home is still /home/hf-guest: end all processes of the user first (usermod: " in warning
    assert "hf-guest is currently used by process" in warning
    moves = f"home /home/hf-guest -> {root}/bare/hf-guest"
    assert told(heard, "changed") == ["created", "shell /bin/sh -> /bin/bash", moves]
    assert told(heard, "said") == ["/home/hf-guest\n", f"{root}/bare/hf-guest\n"]


def test_a_home_that_is_missing_is_made_and_what_is_there_is_left_alone(root: Path) -> None:
    look = {"sh": "cd /home/hf-guest; stat -c '%U %G %a' . .profile"}
    heard = done(
        root,
        guest(home=f"{root}/bare/hf-guest", make_home=False),
        guest(),
        look,
        guest(),
        {"sh": "rm -r /home/hf-guest"},
        guest(),
        look,
        {"sh": "rm -r /home/hf-guest; ln -s /nowhere /home/hf-guest"},
        guest(),
    )
    assert told(heard, "failed", "error") == told(heard, "warning") == []
    assert told(heard, "changed") == [
        "created",
        f"home {root}/bare/hf-guest -> /home/hf-guest, /home/hf-guest made",
        "/home/hf-guest made",
    ]
    made = "hf-guest hf-guest 750\nhf-guest hf-guest 644\n"
    assert told(heard, "said") == [made, "", made, ""]
    found = told(heard, "differs", "found")
    assert (found[2], found[4]) == (None, None)
    assert (found[3]["exists"], found[3]["home"]) == (True, None)


def test_a_home_has_its_name_once_it_is_whole(root: Path) -> None:
    """As a power cut may leave it: the account, and of its home a part under another name."""
    cut = "useradd -M -d /home/hf-guest -u 43001 hf-guest; cd /home; mkdir -m 0 .new.hf-guest; : >.new.hf-guest/x"
    skel = "chmod 750 /etc/skel; mkdir /etc/skel/d; ln -s /nowhere /etc/skel/d/l; echo a >/etc/skel/d/'a b'"
    look = "cd /home; ls -A; diff -r --no-dereference /etc/skel hf-guest; cd hf-guest; stat -c '%U:%G %a %n' . d d/*"
    heard = done(root, {"sh": f"{cut}; {skel}"}, guest(), {"sh": look}, guest())
    assert told(heard, "failed", "error") == []
    assert told(heard, "changed") == ["/home/hf-guest made"]
    ours = "hf-guest:hf-guest"
    modes = f"{ours} 750 .\n{ours} 755 d\n{ours} 644 d/a b\n{ours} 777 d/l\n"
    assert told(heard, "said") == ["", f"hf-guest\n{modes}"]
    assert told(heard, "differs", "found")[1] is None


IN_THE_WAY = {
    "another number": (
        "useradd -u 43007 -U hf-guest",
        "write 43007 in the blueprint: hf-guest: {uid: 43007}; or renumber",
    ),
    "a group of all": ("useradd -u 43007 -g users hf-guest", "no number fits while its group is not 'hf-guest'"),
    "a number of the system": (
        "useradd -u 843 -U hf-guest",
        "renumber it by hand: a blueprint has 1000 to 59999",
    ),
    "its number is another's": (
        f"useradd -u {UID} -U hf-other; groupadd -g {UID + 1} hf-third",
        f"uid and gid {UID} for 'hf-guest' belong to 'hf-other' on this node; choose another number in the blueprint "
        f"({UID + 2} is free here), or renumber 'hf-other' by hand",
    ),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_what_is_in_the_way_is_named_with_the_number_that_fits(case: str, root: Path) -> None:
    before, remedy = IN_THE_WAY[case]
    [error] = told(done(root, {"sh": before}, guest()), "failed", "error")
    assert remedy in error


def test_all_that_is_in_the_way_of_an_account_is_named_at_once(root: Path) -> None:
    before = f"useradd -u 43007 -U hf-guest; useradd -u {UID} -g users hf-other; groupadd -g {UID} hf-third"
    [error] = told(done(root, {"sh": before}, guest()), "failed", "error")
    assert f"account 'hf-guest' has uid 43007 and gid 43007 on this node, but {UID} in the blueprint" in error
    assert f"uid {UID} for 'hf-guest' belongs to 'hf-other' on this node; " in error
    assert f"; and gid {UID} for 'hf-guest' belongs to 'hf-third'" in error
