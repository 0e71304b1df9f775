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

from hpcforge.run.secrets import read_secrets

REPOSITORY = Path(__file__).parents[2]


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
    assert (second.returncode, second.stderr) == (0, f"{here.file}: nothing is missing\n")
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
