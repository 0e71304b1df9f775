"""`hpcforge secrets`: values go where they are asked for, and nowhere else."""

from __future__ import annotations

import base64
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.secrets.secrets import read_secrets

REPOSITORY = Path(__file__).parents[3]


class Here:
    """A blueprint of its own, and the real command line."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(REPOSITORY / "blueprints", folder / "blueprints", ignore=shutil.ignore_patterns("*.age"))
        self.blueprint = folder / "blueprints" / "rehearsal.yaml"
        self.file = self.blueprint.with_suffix(".age")
        self.key = folder / "config" / "mine.key"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HPCFORGE_IDENTITY": str(self.key)}

    def argv(self, verb: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "hpcforge", "secrets", verb, str(self.blueprint), *more]

    def cli(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(self.argv(verb, *more), env=self.environment, capture_output=True, text=True, check=False)
        print(done.stderr, done.stdout)
        return done

    def values(self) -> dict[str, bytes]:
        return read_secrets(self.file, self.key)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_init_makes_file_and_key_once(here: Here) -> None:
    first = here.cli("init")
    assert first.returncode == 0
    assert "made munge_key, plan_key, ssh_host_ca" in first.stderr
    assert "keep a copy" in first.stderr
    before = here.file.read_bytes()
    second = here.cli("init")
    assert (second.returncode, second.stderr) == (0, f"{here.file}: complete\n")
    assert here.file.read_bytes() == before


def test_list_shows_no_value(here: Here) -> None:
    empty = here.cli("list")
    assert empty.returncode == 0
    assert "not made yet: munge_key, plan_key, ssh_host_ca" in empty.stderr
    here.cli("init")
    shown = here.cli("list")
    rows = {line.split()[0]: line.split() for line in shown.stdout.splitlines()[1:]}
    assert rows["munge_key"][1] == "1024"
    assert rows["ssh_host_ca"][2].startswith("SHA256:")
    as_json = json.loads(here.cli("list", "--json").stdout)
    assert as_json["missing"] == []
    assert [one["fingerprint"] for one in as_json["secrets"]] == [row[2] for row in rows.values()]
    for value in here.values().values():
        for text in (shown.stdout, json.dumps(as_json)):
            assert base64.b64encode(value).decode()[:24] not in text


def test_show_wants_a_terminal_or_to_be_told(here: Here) -> None:
    here.cli("init")
    refused = here.cli("show", "munge_key")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "--reveal" in refused.stderr
    revealed = here.cli("show", "munge_key", "--reveal")
    assert base64.b64decode(revealed.stdout) == here.values()["munge_key"]
    assert here.cli("show", "ssh_host_ca", "--reveal").stdout == here.values()["ssh_host_ca"].decode()
    assert here.cli("show", "monge_key", "--reveal").returncode == 3


def test_show_on_a_terminal(here: Here) -> None:
    here.cli("init")
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(here.argv("show", "plan_key"), env=here.environment, stdout=theirs, check=False)
        assert done.returncode == 0
        assert base64.b64decode(os.read(ours, 4096)) == here.values()["plan_key"]
    finally:
        os.close(ours)
        os.close(theirs)


def test_rotate_says_what_it_means_and_what_is_next(here: Here) -> None:
    here.cli("init")
    before = here.values()
    done = here.cli("rotate", "munge_key")
    assert done.returncode == 0
    assert "munge restarts on all nodes together" in done.stderr
    assert f"apply {here.blueprint}\n" in done.stderr
    after = here.values()
    assert {name for name in after if after[name] != before[name]} == {"munge_key"}
    assert "Next" not in here.cli("rotate", "plan_key").stderr  # nothing to bring to nodes
    unknown = here.cli("rotate", "root_password")
    assert unknown.returncode == 1
    assert "munge_key, plan_key, ssh_host_ca" in unknown.stderr


ROLE = """
description: Wants a licence.
on: "true"
secrets:
  licence: {description: what the vendor gave, provided: true}
  db_password: {description: of the database, length: 32}
files:
  - {path: /etc/app.conf, content: "{{ secret('licence') }} {{ secret('db_password') }}", mode: "0600"}
"""


@pytest.fixture
def here_with_role(here: Here, tmp_path: Path) -> Here:
    """With a role of the site's own."""
    (tmp_path / "blueprints/roles/app").mkdir(parents=True)
    (tmp_path / "blueprints/roles/app/role.yaml").write_text(ROLE)
    here.blueprint.write_text(f"{here.blueprint.read_text()}\nrole_folders: [roles]\n")
    return here


def test_a_missing_one_is_said_by_every_verb_that_needs_it(here_with_role: Here) -> None:
    here = here_with_role
    command = f"secrets set {here.blueprint} licence"
    for verb, code, *more in (("validate", 0), ("plan", 2, "--offline")):
        argv = [sys.executable, "-m", "hpcforge", verb, str(here.blueprint), *more]
        done = subprocess.run(argv, env=here.environment, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert "warning: secret licence is not set: role app wants it in /etc/app.conf" in done.stderr
        assert command in done.stderr
    assert not here.file.exists()
    listed = here.cli("list")
    assert f"not set yet: licence, which app wants\nNext: {sys.executable} -m hpcforge {command}" in listed.stderr
    missing = json.loads(here.cli("list", "--json").stdout)["missing"]
    assert sorted(missing) == [
        "db_password",
        "licence",
        "munge_key",
        "plan_key",
        "ssh_host_ca",
    ]
    for given, said in (("two\nlines\n", "is not text in one line"), ("rosebud\n", "")):
        argv = here.argv("set", "licence")
        done = subprocess.run(argv, env=here.environment, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0
        assert given.split("\n")[0] not in done.stderr + done.stdout
        argv = [sys.executable, "-m", "hpcforge", "validate", str(here.blueprint)]
        done = subprocess.run(argv, env=here.environment, capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stderr) == (3 if said else 0, True)
    assert here.values()["licence"] == b"rosebud"
    here.cli("init")
    shown = json.loads(here.cli("list", "--json").stdout)
    rows = {one["name"]: one for one in shown["secrets"]}
    assert (rows["licence"]["from"], rows["licence"]["roles"]) == ("the site", ["app"])
    assert rows["licence"]["fingerprint"].startswith("hmac:")
    assert rows["db_password"]["from"] == "hpcforge"


def test_a_site_without_it_is_valid_and_not_contacted(here: Here) -> None:
    for verb, code, severity in (("validate", 0, "warning"), ("plan", 3, "error"), ("apply", 3, "error")):
        argv = [sys.executable, "-m", "hpcforge", verb, str(bundled.root() / "blueprints" / "campus.yaml")]
        done = subprocess.run(argv, env=here.environment, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert f": {severity}: secret alerts_slack_url is not set: role alertmanager wants it in " in done.stderr
        assert "campus.yaml alerts_slack_url\n" in done.stderr


def test_a_key_is_kept_byte_for_byte(here: Here) -> None:
    """MUNGE's key as it is usually made by hand is a line of text, and its line break is part of it."""
    here.blueprint.write_text(here.blueprint.read_text().replace("  dns:", "  accounting: {external: [dbd]}\n  dns:"))
    validate = [sys.executable, "-m", "hpcforge", "validate", str(here.blueprint)]
    refused = subprocess.run(validate, env=here.environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 0
    assert "warning: secret munge_site_key is not set: role munge wants it in /etc/munge/munge.key" in refused.stderr
    for given in (b"a line of text\n", b"another one, of 32 bytes or more\n"):
        done = subprocess.run(here.argv("set", "munge_site_key"), env=here.environment, input=given, check=False)
        assert done.returncode == (0 if len(given) >= 32 else 1)
    assert here.values()["munge_site_key"] == given
    assert "munge_key" not in json.loads(here.cli("list", "--json").stdout)["missing"]


@pytest.mark.parametrize("given", ["w01\ts3cret\n", "w99 s3cret\n", "s3cret\n", "w01 s3cret\nw01 s3cret\n"])
def test_wrong_passwords_of_controllers_are_not_set(here: Here, given: str) -> None:
    argv = here.argv("set", "bmc_passwords")
    done = subprocess.run(argv, env=here.environment, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"bmc_passwords: line {given.count('w01 ') or 1}: " in done.stderr
    assert "s3cret" not in done.stderr
    assert "bmc_passwords" not in here.values()


def test_set_asks_twice_on_a_terminal_and_shows_nothing(here_with_role: Here) -> None:
    here = here_with_role
    for typed, code in ((b"rosebud\nrosebut\n", 3), (b"rosebud\nrosebud\n", 0)):
        ours, theirs = pty.openpty()
        argv = here.argv("set", "licence")
        run = subprocess.Popen(argv, env=here.environment, stdin=theirs, stdout=theirs, stderr=theirs,
                               start_new_session=True)  # fmt: skip
        os.close(theirs)
        seen = b""
        lines = typed.splitlines(keepends=True)
        try:
            while chunk := os.read(ours, 4096):
                seen += chunk
                if lines and seen.count(b": ") > 2 - len(lines) and seen.endswith(b": "):
                    os.write(ours, lines.pop(0))
        except OSError:  # the other end is closed
            assert run.wait(60) == code
        os.close(ours)
        assert b"rosebu" not in seen
    assert here.values()["licence"] == b"rosebud"


def test_another_key_opens_nothing_and_changes_nothing(here: Here, tmp_path: Path) -> None:
    here.cli("init")
    before = here.file.read_bytes()
    other = tmp_path / "other.key"
    subprocess.run(["cp", here.key, other], check=True)
    here.key.unlink()
    done = here.cli("rotate", "munge_key")
    assert done.returncode == 1
    assert "--identity or HPCFORGE_IDENTITY" in done.stderr
    assert here.file.read_bytes() == before
    assert not here.key.exists()
    assert here.cli("rotate", "munge_key", "--identity", str(other)).returncode == 0
