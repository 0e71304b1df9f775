"""What holds volumes of GlusterFS to the blueprint, against a gluster(8) of a test: answers as 10.3 of Debian 12 has
them, and such as nobody should give.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "examples" / "glusterfs" / "roles" / "glusterfs_volumes" / "volumes.py"
RUN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("volumes", sys.argv[1]); it = importlib.util.module_from_spec(spec)
spec.loader.exec_module(it)
it.SAID, it.GLUSTER, it.COMMAND_S = sys.argv[2], [sys.executable, sys.argv[3]], int(sys.argv[5])
it.BECOMES_S, it.MOST_BYTES = 2, 100_000
sys.exit("\\n".join(it.main(sys.argv[4])) or 0)
"""
# As a daemon would: what is there is in a file, and what it was told is written down in another.
GLUSTER = """
import json, os, sys, time
folder, words = os.path.dirname(__file__), sys.argv[1:]
there = json.load(open(f"{folder}/there.json"))
if words[0] != "peer" or words[1] != "status":
    if words[:2] != ["volume", "info"] and words[:2] != ["volume", "status"]:
        open(f"{folder}/told", "a").write(" ".join(words) + "\\n")
if "raw" in there:
    sys.stdout.write(there["raw"]); sys.stdout.flush(); time.sleep(there.get("sleep", 0)); sys.exit()
def done(inside="", ret=0, why=""):
    json.dump(there, open(f"{folder}/there.json", "w"))
    print(f"<?xml version='1.0' encoding='UTF-8' standalone='yes'?><cliOutput><opRet>{ret}</opRet><opErrno>0</opErrno>"
          f"<opErrstr>{why}</opErrstr>{inside}</cliOutput>")
    sys.exit()
volumes, verb = there["volumes"], words[:2]
if there.get("busy"):
    there["busy"] -= 1
    done(ret=-1, why="Another transaction is in progress for projects. Please try again after some time.")
if verb == ["volume", "info"]:
    shown = "".join(
        f"<volume><name>{name}</name><status>{one['status']}</status><bricks>"
        + "".join(f"<brick uuid='x'>{brick}<name>{brick}</name></brick>" for brick in one["bricks"])
        + "</bricks><options>"
        + "".join(f"<option><name>{k}</name><value>{v}</value></option>" for k, v in one["options"].items())
        + "</options></volume>" for name, one in volumes.items())
    done(f"<volInfo><volumes>{shown}<count>{len(volumes)}</count></volumes></volInfo>")
if verb == ["volume", "status"]:
    one = volumes[words[2]]
    shown = "".join("<node><hostname>{}</hostname><path>{}</path><status>{}</status></node>".format(
        *brick.split(":"), 0 if brick in one.get("down", []) else 1) for brick in one["bricks"]
        if brick.split(":")[0] not in there.get("away", []))
    shown += "<node><hostname>Self-heal Daemon</hostname><path>localhost</path><status>0</status></node>"
    done(f"<volStatus><volumes><volume><volName>{words[2]}</volName>{shown}</volume></volumes></volStatus>")
if verb == ["volume", "create"]:
    volumes[words[2]] = {"status": 0, "bricks": [word for word in words if ":" in word], "options": {}}
if verb == ["volume", "set"]:
    volumes[words[2]]["options"].update(zip(words[3::2], words[4::2]))
if verb == ["volume", "start"]:
    volumes[words[2]].update(status=1, down=[])
if verb == ["peer", "probe"]:
    if words[2] in there.get("away", []):
        done(ret=1, why="Probe returned with Transport endpoint is not connected")
    there["peers"].append(words[2])
if verb == ["peer", "status"]:
    away = there.get("away", [])
    done("<peerStatus>" + "".join(
        f"<peer><hostname>{one}</hostname><hostnames><hostname>{one}</hostname></hostnames>"
        f"<connected>{int(one not in away)}</connected><state>3</state></peer>" for one in there["peers"])
        + "</peerStatus>")
done()
"""
BRICKS = ["10.1.0.1:/srv/projects/brick", "10.1.0.2:/srv/projects/brick", "10.1.0.9:/srv/projects/arbiter-1"]
OPTIONS = {"auth.allow": "10.1.0.12,10.1.0.13", "server.root-squash": "on", "user.hpcforge": "test"}
STARTED = {"status": 1, "bricks": BRICKS, "options": OPTIONS | {"nfs.disable": "on"}}


class Server:
    """The first of the servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        wanted = {"name": "projects", "replicas": 2, "arbiter": True, "system_disk": True}
        bricks = [brick.split(":") for brick in BRICKS]
        options = {key: value for key, value in OPTIONS.items() if key != "auth.allow"}
        volume = {**wanted, "bricks": bricks, "clients": ["10.1.0.12", "10.1.0.13"], "options": options}
        said = {"volumes": [volume | {"address": "10.1.0.1"}]}
        (folder / "said.json").write_text(json.dumps(said))
        (folder / "gluster.py").write_text(GLUSTER)
        self.has()

    def has(self, volumes: dict[str, object] | None = None, **more: object) -> None:
        there = {"volumes": volumes or {}, "peers": [], **more}
        (self.folder / "there.json").write_text(json.dumps(there))

    def said(self, verb: str, command_s: int = 50) -> str:
        """What the program says is wrong."""
        paths = [str(self.folder / name) for name in ("said.json", "gluster.py")]
        words = [str(PROGRAM), *paths, verb, str(command_s)]
        done = subprocess.run(
            [sys.executable, "-c", RUN, *words], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == (1 if done.stderr else 0), done
        assert "Traceback" not in done.stderr
        return done.stderr

    @property
    def told(self) -> list[str]:
        """The commands that would change something."""
        told = self.folder / "told"
        return told.read_text().splitlines() if told.exists() else []


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_a_volume_is_made_once(server: Server) -> None:
    assert server.said("check") == "projects: there is no such volume\n"
    assert server.said("make") == ""
    assert server.told == [
        "peer probe 10.1.0.2",
        "peer probe 10.1.0.9",
        f"volume create projects replica 3 arbiter 1 {' '.join(BRICKS)} force",
        "volume set projects auth.allow 10.1.0.12,10.1.0.13 server.root-squash on user.hpcforge test",
        "volume start projects",  # nobody is served before it is said who may be
    ]
    assert server.said("check") == server.said("make") == ""
    assert len(server.told) == 5


@pytest.mark.parametrize(
    ("count", "allowed"),
    [
        (2, "10.0.0.0,10.0.0.1"),
        (1_000, "10.0.0.*,10.0.1.*,10.0.2.*,10.0.3.*"),
        (200_000, "10.0.*,10.1.*,10.2.*,10.3.*"),
    ],
)
def test_who_may_mount_is_no_longer_than_glusterd_takes(count: int, allowed: str) -> None:
    clients = [f"10.{one >> 16}.{one >> 8 & 255}.{one & 255}" for one in range(count)]
    assert runpy.run_path(str(PROGRAM))["allowed"](clients) == allowed


def test_one_that_was_begun_is_ended(server: Server) -> None:
    server.has({"projects": {"status": 0, "bricks": BRICKS, "options": {}}})
    assert server.said("make") == ""
    assert [line.split()[1] for line in server.told] == ["set", "start"]


def test_what_was_changed_is_named_and_put_back(server: Server) -> None:
    server.has({"projects": STARTED | {"options": OPTIONS | {"auth.allow": "*"}, "down": [BRICKS[1]]}})
    assert server.said("check") == (
        "projects: auth.allow is *, to be 10.1.0.12,10.1.0.13\n"
        f"projects: nothing serves {BRICKS[1]}; what it logged: /var/log/glusterfs/bricks on that server\n"
    )
    assert server.said("make") == ""
    assert server.told == ["volume set projects auth.allow 10.1.0.12,10.1.0.13", "volume start projects force"]


def test_a_server_that_is_away_is_no_fault_of_a_volume(server: Server) -> None:
    server.has({"projects": STARTED}, peers=["10.1.0.2", "10.1.0.9"], away=["10.1.0.2"])
    assert server.said("check") == server.said("make") == ""
    assert not server.told


def test_a_server_that_is_away_keeps_a_volume_from_being_made(server: Server) -> None:
    server.has(away=["10.1.0.2"])
    assert server.said("make") == (
        "projects: `gluster peer probe 10.1.0.2`: Probe returned with Transport endpoint is not connected\n"
    )
    server.has(away=["10.1.0.2"], peers=["10.1.0.2", "10.1.0.9"])
    assert server.said("make") == "projects: no peer yet, or away: 10.1.0.2; `gluster peer status` says more\n"
    assert not any("create" in line for line in server.told)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (STARTED | {"options": {}}, "not made by hpcforge; to give it to this cluster: gluster volume set projects "),
        (STARTED | {"options": {"user.hpcforge": "other"}}, "it is of other; to give it to this cluster"),
        (STARTED | {"bricks": BRICKS[:1]}, "its bricks are 10.1.0.1:/srv/projects/brick, to be"),
        ({"status": 0, "bricks": ["10.1.0.1:/elsewhere"], "options": {}}, "hpcforge moves no files between servers"),
    ],
)  # fmt: skip
def test_a_volume_that_is_not_ours_is_left_alone(server: Server, there: dict[str, object], why: str) -> None:
    server.has({"projects": there})
    for verb in ("check", "make"):
        assert why in server.said(verb)
    assert not server.told


def test_two_commands_at_a_time_take_turns(server: Server) -> None:
    server.has({"projects": STARTED}, busy=1)
    assert server.said("check") == ""


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("", "said no XML: nothing"),
        ("Connection failed. Please check if gluster daemon is operational.\n", "said no XML: Connection failed."),
        ("<?xml version='1.0'?><cliOutput><opRet>0", "said XML that is broken"),
        ("<?xml version='1.0'?>" + "<a>" * 20_000, "said XML that is broken"),
        ("<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'><!ENTITY d '&b;&b;'>]><a>&d;</a>", "said no XML"),
        ("<?xml version='1.0'?><!DOCTYPE a SYSTEM 'file:///etc/shadow'><a/>", "said no XML"),
        ("<?xml version='1.0'?><a>" + "b" * 200_000, "GlusterFS said more than 100000 bytes"),
        ("<?xml version='1.0'?><a><opErrstr>no\x1b[31m</opErrstr></a>", "said XML that is broken"),
        ("<?xml version='1.0'?><a><opErrstr>no\u202e\x85red</opErrstr></a>", "`gluster volume info`: no red"),
        ("\x1b]0;title\x07 failed", "said no XML: ]0;title failed"),
    ],
)  # fmt: skip
def test_odd_answers_are_errors_of_one_line(server: Server, raw: str, why: str) -> None:
    server.has(raw=raw)
    said = server.said("check")
    assert why in said
    assert said.count("\n") == 1
    assert said.rstrip("\n").isprintable()
    assert len(said) < 700


def test_an_answer_that_does_not_come_is_not_waited_for(server: Server) -> None:
    server.has(raw="<?xml version='1.0'?>", sleep=250)
    begun = time.monotonic()
    assert server.said("check", command_s=2) == "projects: `gluster volume info`: no answer within 2 s\n"
    assert time.monotonic() - begun < 100
