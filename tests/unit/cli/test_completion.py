"""What a TAB offers, through the real command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpcforge.cli import _VERBS

REPOSITORY = Path(__file__).parents[3]
REHEARSAL = "blueprints/rehearsal.yaml"


def tab(line: str, folder: Path = REPOSITORY, **environment: str) -> list[str]:
    """What is offered for the last word of a line."""
    words = re.sub("([@:=]+)", r"\n\1\n", line.replace(" ", "\n"))  # as bash has it, which splits at these, too
    words = re.sub(r"\n{2,}", "\n", words).removesuffix("\n") + "\n" * line.endswith(" ")
    env = {
        **os.environ,
        "_HPCFORGE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count("\n")),
        **environment,
    }
    code = "import sys; sys.argv[0] = 'hpcforge'; from hpcforge.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("hpcforge plan blueprints/re", [REHEARSAL]),
        (f"hpcforge plan {REHEARSAL} --limit w", ["w01", "w02", "w03", "worker"]),
        (f"hpcforge plan {REHEARSAL} --limit ma", ["main"]),
        (f"hpcforge apply {REHEARSAL} --exclude w01,w03,h", ["w01,w03,head"]),
        (f"hpcforge apply {REHEARSAL} --only m", ["metrics_page", "munge"]),
        (f"hpcforge apply {REHEARSAL} --only si", ["site_motd"]),
        (f"hpcforge verify {REHEARSAL} --test ", ["allreduce", "train_ddp"]),
        (f"hpcforge verify {REHEARSAL} --limit w", ["w01", "w02", "w03", "worker"]),
        (f"hpcforge nodes replace {REHEARSAL} w0", ["w01", "w02", "w03"]),
        ("hpcforge plan blueprints/dgx-h100-unit.yaml --limit i0", ["i01", "i02"]),
        ("hpcforge plan nowhere.yaml --limit w", ["worker"]),
        (f"hpcforge plan {REHEARSAL} --limit=w0", ["w01", "w02", "w03"]),
        (f"hpcforge plan {REHEARSAL} --limit=@wo", ["@worker"]),
    ],
)
def test_names_of_the_blueprint_on_the_line(line: str, offered: list[str]) -> None:
    assert tab(line) == offered


SITE = "blueprints/dgx-h100-site.yaml"


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        ("@", {"@worker", "@head", "@partition:train", "@rack:g01", "@hardware:dgx-h100"}),
        ("@w", {"@worker"}),
        ("@rack:g0", {"g01", "g02", "g03", "g04", "g05", "g06", "g07", "g08"}),
        ("@partition:", {"train", "debug"}),
        ("@hardware:d", {"dgx-h100"}),
        ("gpu001,@pa", {"@partition:train", "@partition:debug"}),
        ("gpu001,@rack:g08,@rack:i0", {"i01", "i02", "i03"}),
    ],
)
def test_groups_behind_a_mark_as_bash_replaces_words(begun: str, offered: set[str]) -> None:
    for line in (f"hpcforge plan {SITE} -n {begun}", f"hpcforge logs {SITE} {begun}"):
        found = {*tab(line)}
        assert found >= offered if begun == "@" else found == offered
        assert not {name for name in found if name.startswith("gpu")}


def test_a_word_behind_a_group_is_complete(tmp_path: Path) -> None:
    assert tab(f"hpcforge apply {SITE} -n @rack:g01 --only mun") == ["munge"]
    assert tab("hpcforge plan --limit w0", HPCFORGE_BLUEPRINT=REHEARSAL) == ["w01", "w02", "w03"]
    assert tab("hpcforge nodes replace w0", HPCFORGE_BLUEPRINT=REHEARSAL) == ["w01", "w02", "w03"]
    assert tab("hpcforge validate ", tmp_path, HPCFORGE_BLUEPRINT=REHEARSAL) == []


def test_roles_of_the_folders_that_the_blueprint_names(tmp_path: Path) -> None:
    for role in ("motd", "monitor"):
        (tmp_path / "ours" / role).mkdir(parents=True)
        (tmp_path / "ours" / role / "role.yaml").touch()
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "a.yaml").write_text("name: a\nrole_folders: [../ours, nowhere]\n")
    assert tab("hpcforge plan sites/a.yaml --only m", tmp_path) == ["metrics_page", "munge", "monitor", "motd"]


def test_blueprints_and_not_what_lies_beside_them(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("schema: 1\nname: x\n")
    (tmp_path / "machines.yaml").write_text("schema: 1\nnodes: {}\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "other.yml").write_text("name: y\n")
    assert tab("hpcforge validate ", tmp_path) == ["site.yaml", "deep/other.yml"]


def test_a_blueprint_with_mistakes_offers_what_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("nodes:\n  w[1-: {}\n  head: {}\n")
    assert tab("hpcforge plan site.yaml --limit he", tmp_path) == ["head"]
    (tmp_path / "site.yaml").write_bytes(b"nodes: {\xff")
    assert tab("hpcforge plan site.yaml --limit w", tmp_path) == ["worker"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("hpcforge ", [*_VERBS]),
        ("hpcforge apply --lim", ["--limit"]),
        ("hpcforge catalog sh", ["show"]),
        ("hpcforge app", ["apply"]),
    ],
)
def test_verbs_and_options(line: str, offered: list[str]) -> None:
    assert sorted(tab(line)) == sorted(offered)
