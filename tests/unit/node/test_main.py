"""The program as it travels: how it starts, and that `done` always comes."""

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcforge.node import backups, bundle, contact, events, files, main, observe, ownership, receipt
from tests.support.node_program import put_file, taken

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="the node program runs as root")


def answers(request: dict[str, Any]) -> list[dict[str, Any]]:
    end = subprocess.run(
        ["python3", "-IS", "-c", bundle.LOADER],
        input=bundle.payload(request),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (end.returncode, end.stderr) == (0, "")
    return taken(end.stdout)


@as_root
def test_answers_in_which_all_differs_pass_the_border(tmp_path, wanted):
    (tmp_path / "f").write_text("other\n")
    (tmp_path / "d").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("f")
    files = [wanted.file(tmp_path / name) for name in ("f", "none", "link", "d")]
    role = {
        "role": "one",
        "packages": ["hpcforge-has-no-such-package"],
        "files": files,
        "directories": [wanted.directory(tmp_path / name) for name in ("d", "none", "f")],
        "accounts": [{"name": name, "uid": 77, "home": "/", "shell": "/bin/sh"} for name in ("root", "hpcforge-none")],
        "units": [{"name": "hpcforge-none.service"}],
        "checks": [wanted.check("false"), wanted.check("echo", "\x1b[2J\n", stdout="never")],
        "opaque": {"digest": "d"},
    }
    request = {"verb": "observe", "wanted": [role], "reads": ["/none", "/proc/version"], "surplus": True}
    *_, observed, done = answers(request)
    assert done["event"] == "done"
    [difference] = observed["differs"]
    assert {key for key, value in difference.items() if value} >= {
        "packages", "files", "directories", "accounts", "checks", "opaque"
    }  # fmt: skip
    assert [(one["kind"], one["name"]) for one in observed["obstacles"]] == [
        ("account", "root"),
        ("directory", str(tmp_path / "f")),
        ("file", str(tmp_path / "d")),
    ]


@as_root
def test_what_converge_would_refuse_is_an_obstacle_and_what_goes_first_is_none(tmp_path, wanted):
    (tmp_path / "file").write_text("other\n")
    (tmp_path / "large").write_bytes(bytes(files.SIZE_LIMIT + 1))
    (tmp_path / "hers").mkdir()
    (tmp_path / "hers/link").symlink_to("/etc")
    os.chown(tmp_path / "hers", 65534, 65534)
    os.lchown(tmp_path / "hers/link", 65534, 65534)
    (tmp_path / "link").symlink_to("nowhere")
    names = ("file/below", "large", "hers/link/passwd", "link", "new/fresh")
    role = {"role": "one", "files": [wanted.file(tmp_path / name) for name in names]}

    def obstacles(remembered):
        left = ownership.surplus(remembered, [role])
        differs = {"files": role["files"], "directories": [], "accounts": []}
        return {Path(one["name"]).name: one["why"] for one in observe._conflicts(role, differs, remembered, left)}

    found = obstacles(receipt.EMPTY)
    assert found == {
        "below": f"'file', on the way to {tmp_path}/file/below, is not a directory; move it away",
        "large": f"{tmp_path}/large is larger than {files.SIZE_LIMIT} bytes, too large for a backup; move it away",
        "passwd": f"{tmp_path}/hers/link: link is a symbolic link that nobody made; remove it",
    }
    for path, file in ((Path(one["path"]), one) for one in role["files"]):
        refused = pytest.raises((events.NodeError, OSError)) if path.name in found else contextlib.nullcontext()
        with refused:  # just those that were told
            backups.keep(str(path), folder=tmp_path / "originals")
            put_file(file)
    ours = {"digest": "d", "before": None, "made": []}
    owned = ownership.intend(receipt.EMPTY, [{"role": "old"}])
    owned.roles["old"]["files"].update({str(tmp_path / name): ours for name in ("file", "large")})
    assert list(obstacles(owned)) == ["passwd"]


@as_root
def test_observe_in_its_own_process(tmp_path, wanted):
    file = wanted.file(tmp_path / "f")
    del file["content_base64"]
    role = {"role": "one", "files": [file], "checks": [wanted.check("false")]}
    begun, observed, done = answers(
        {"verb": "observe", "wanted": [role], "reads": ["/proc/version"], "asks": {"who": ["echo", "me"]}}
    )
    assert begun == {"event": "progress", "role": None, "detail": "reading the node's state"}
    assert observed["event"] == "observed"
    assert observed["reads"]["/proc/version"].startswith("Linux version")
    assert observed["answers"] == {"who": "me\n"}
    [difference] = observed["differs"]
    assert [one["path"] for one in difference["files"]] == [str(tmp_path / "f")]
    assert difference["checks"] == [{"name": "check", "detail": "exit status 1"}]
    assert observed["facts"]["memory_kib"] > 0
    assert observed["facts"]["python"].startswith("3.")
    assert (done["event"], done["changed"], done["failed"]) == ("done", 0, [])


@as_root
def test_a_command_that_checks_of_several_roles_have_runs_once(tmp_path, wanted):
    command = ("sh", "-c", f"echo run >> {tmp_path}/runs; echo up")
    patterns = {"one": ("up", "down"), "two": ("up",), "three": ("gone",)}
    several = [
        {"role": role, "checks": [wanted.check(*command, stdout=pattern) for pattern in each]}
        for role, each in patterns.items()
    ]
    _, observed, _ = answers({"verb": "observe", "wanted": several})
    assert (tmp_path / "runs").read_text() == "run\n"
    assert {one["role"]: [check["detail"] for check in one["checks"]] for one in observed["differs"]} == {
        "one": ["output does not match /down/: up"],
        "three": ["output does not match /gone/: up"],
    }


@as_root
def test_a_request_that_cannot_be_understood_is_answered():
    failed, done = answers({"verb": "destroy", "work": [{"role": "one"}]})
    assert (failed["event"], failed["role"]) == ("failed", None)
    assert "unknown request" in failed["error"]
    assert (done["event"], done["failed"]) == ("done", [])  # whose roles those would be cannot be told


@as_root
def test_an_unexpected_exception_shows_no_content(heard):
    file = {"path": "/etc/hostname", "content": "S3CRET"}  # no digest
    main.answer({"verb": "observe", "wanted": [{"role": "one", "files": [file]}]}, heard.append)
    failed = next(one for one in heard if one["event"] == "failed")
    assert (failed["role"], failed["name"]) == ("one", "/etc/hostname")
    assert failed["error"] == "AttributeError: 'types.SimpleNamespace' object has no attribute 'digest'"
    assert (heard[-1]["event"], heard[-1]["failed"]) == ("done", ["one"])
    assert "S3CRET" not in str(heard)


def first_contact(path: str, argument: str, payload: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", contact.FIRST_CONTACT, "hpcforge", argument, bundle.LOADER],
        input=payload,
        env={"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def bare(tmp_path) -> Path:
    """A PATH with what every Debian has and no Python."""
    programs = "tr cut sed cat id uname getconf grep tail ls sh sudo true"
    for program in programs.split():
        where = shutil.which(program)
        if where and program != "sudo":
            (tmp_path / program).symlink_to(where)
    return tmp_path


def test_node_without_python_answers_and_reads_all(bare):
    end = first_contact(str(bare), "", "x" * 1_000_000)
    answer = json.loads(end.stdout)
    assert answer["event"] == "no_python"
    assert answer["memory_kib"] > 0
    assert answer["cpus"] >= 1
    assert answer["hostname"] == os.uname().nodename
    assert (answer["users"].split()[0], answer["groups"].split()[0]) == ("root:0", "root:0")


def test_node_without_sudo_answers(bare):
    (bare / "python3").symlink_to("/bin/true")
    answer = json.loads(first_contact(str(bare), "sudo -n", "x" * 1_000_000).stdout)
    assert (answer["event"], answer["error"]) == ("no_root", "there is no sudo on this node")


def test_sudo_that_says_no_is_quoted(bare):
    (bare / "python3").symlink_to("/bin/true")
    (bare / "sudo").write_text('#!/bin/sh\necho "sudo: a \\"password\\" is\nrequired" >&2\nexit 1\n')
    (bare / "sudo").chmod(0o755)
    answer = json.loads(first_contact(str(bare), "sudo -n", "x" * 1_000_000).stdout)
    assert (answer["event"], answer["error"]) == ("no_root", "sudo: a 'password' is required")


def test_bootstrap_is_idempotent_and_plain_sh():
    end = subprocess.run(
        ["sh"], input=contact.bootstrap_script(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (end.returncode, end.stderr) == (0, "")
    assert json.loads(end.stdout)["changed"] == 0
