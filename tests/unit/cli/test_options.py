"""Arguments that verbs share: which word is the blueprint where the environment names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcforge.cli import run
from hpcforge.cli.rehearsals import RehearsalName, parted
from tests.support.shipped import ROOT

REHEARSAL = ROOT / "blueprints" / "rehearsal.yaml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a site, whose blueprint the environment names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HPCFORGE_LAB", raising=False)
    (tmp_path / "site.yaml").write_text(REHEARSAL.read_text().replace("site_roles/", f"{ROOT}/blueprints/site_roles/"))
    monkeypatch.setenv("HPCFORGE_BLUEPRINT", "site.yaml")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("logs w01", "rehearsal of site.yaml is not up"),
        ("logs w01 w02", "rehearsal of site.yaml is not up"),
        ("logs --last 5 @rack:r1 --grep w01", "rehearsal of site.yaml is not up"),
        ("nodes add w13", "the question needs a terminal"),
        ("nodes remove w02 --yes", "Next, for w02"),
        ("nodes replace w03", "nothing to write"),
        ("nodes import machines.csv --dry-run", "names no inventory to write to"),
        ("power status w01", "no management controllers"),
        ("power off w01,w02 --yes", "no management controllers"),
        ("netboot withdraw w01", "do not boot from the network"),
        ("secrets show munge_key", "site.age has no secret 'munge_key'"),
        ("explain allreduce", "allreduce"),
        ("explain POWER-003", "POWER-003 (error)"),
        ("explain power-003", "POWER-003 (error)"),
        ("verify w01", "w01 is not a blueprint, and HPCFORGE_BLUEPRINT names site.yaml. Nodes: -n w01"),
        ("validate w01", "w01 is not a blueprint, and HPCFORGE_BLUEPRINT names site.yaml."),
        ("logs other.yaml w01", "other.yaml: error: the file cannot be read"),
        ("logs sites/other w01", "sites/other: error: the file cannot be read"),
        ("nodes add other.yaml", "Missing argument"),
        ("nodes add", "Missing argument"),
        ("power status w01 w02", "unexpected extra argument(s) (w02)"),
        ("verify --no-such-option w01", "No such option"),
    ],
)
def test_a_first_word_that_is_not_a_blueprint_is_the_next_argument(
    folder: Path, line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "machines.csv").write_text("node,mac\nw01,02:00:00:00:00:01\n")
    run(line.split())
    captured = capsys.readouterr()
    said = " ".join(re.sub(r"[\u2500-\u257f]", " ", captured.out + captured.err).split())
    assert answer in said


def test_a_file_without_a_suffix_is_a_blueprint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "site.yaml").rename(folder / "mine")
    assert run(["validate", "mine"]) == 0
    assert "mine is valid" in capsys.readouterr().err


def test_a_rehearsal_is_that_of_the_blueprint_of_the_environment(folder: Path) -> None:
    assert parted(["head", "ls"], None) == (RehearsalName(Path("site.yaml"), None), ["head", "ls"])
    assert parted(["other.yaml", "head"], None) == (RehearsalName(Path("other.yaml"), None), ["head"])
    assert folder.joinpath("site.yaml").exists()
