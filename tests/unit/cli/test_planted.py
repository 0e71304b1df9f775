"""Mistakes that people make in a large blueprint: each is named in its line, with a hint, and nothing besides."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hpcforge.cli import run

PLANTED = Path(__file__).parent / "planted"
FILES = ("site", "machines")


@dataclass(frozen=True)
class Mistake:
    name: str
    old: str
    new: str
    says: str
    hint: str
    file: str = "site"
    severity: str = "error"
    line: str | None = None
    alone: bool = False


@dataclass(frozen=True)
class Said:
    severity: str
    file: str
    line: int | None
    message: str
    hint: str


def mistakes() -> dict[str, Mistake]:
    rows = yaml.safe_load((PLANTED / "mistakes.yaml").read_text(encoding="utf-8"))
    named = [{"file" if key == "in" else key: value for key, value in row.items()} for row in rows]
    return {row["name"]: Mistake(**row) for row in named}


ALL = mistakes()


def plant(folder: Path, chosen: Iterable[Mistake]) -> None:
    for file in FILES:
        text = (PLANTED / f"{file}.yaml").read_text(encoding="utf-8")
        for mistake in chosen:
            if mistake.file == file:
                assert mistake.old in text, mistake.name
                text = text.replace(mistake.old, mistake.new, 1)
        (folder / f"{file}.yaml").write_text(text, encoding="utf-8")


def validated(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[Said]:
    """Return what validate says, of what it does not check only what concerns the directory: rules have their tests."""
    run(["validate", str(folder / "site.yaml"), "--json"])
    found = [
        Said(entry["severity"], Path(entry["file"]).stem, entry["line"], entry["message"], entry["hint"] or "")
        for entry in json.loads(capsys.readouterr().out)["diagnostics"]
    ]
    return [said for said in found if said.severity != "not-checked" or "directory" in said.message]


def line_of(mistake: Mistake, folder: Path) -> int:
    """Return the line that a mistake is in: that of the first character that differs, or of other text."""
    text = (folder / f"{mistake.file}.yaml").read_text(encoding="utf-8")
    if mistake.line is not None:
        return text[: text.index(mistake.line)].count("\n") + 1
    pairs = enumerate(zip(mistake.old, mistake.new, strict=False))
    same = next((place for place, (was, now) in pairs if was != now), min(len(mistake.old), len(mistake.new)))
    return text[: text.index(mistake.new) + same].count("\n") + 1


def is_of(said: Said, mistake: Mistake, folder: Path) -> bool:
    place = (mistake.severity, mistake.file, line_of(mistake, folder))
    return (said.severity, said.file, said.line) == place and mistake.says in said.message and mistake.hint in said.hint


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key to the secrets of a site that never was."""
    monkeypatch.setenv("HOME", str(tmp_path))


def test_the_site_without_mistakes_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(tmp_path, ())
    assert validated(tmp_path, capsys) == []


@pytest.mark.parametrize("mistake", ALL.values(), ids=ALL)
def test_a_planted_mistake_is_named_in_its_line_and_nothing_besides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: Mistake
) -> None:
    plant(tmp_path, [mistake])
    said = validated(tmp_path, capsys)
    assert len(said) == 1, said
    assert is_of(said[0], mistake, tmp_path), (line_of(mistake, tmp_path), said)


TOGETHER = {
    "addresses, roles, Slurm and storage": (
        "a Slack channel that is a comment",
        "half of a driver's version",
        "mail without a server",
        "days with their unit",
        "DNS by name",
        "a gateway outside",
        "one address twice",
        "a limit in kilowatts",
        "the weight of racks",
        "a login node in a partition",
        "a misspelt setting",
        "hours with their unit",
        "a QOS that there is not",
        "a user number twice",
        "more than the drives hold",
        "an override without a reason",
    ),
    "services, racks, nodes and tests": (
        "a variable under services",
        "another word for a role",
        "a runtime that there is not",
        "a distribution with a capital",
        "a mail address without a host",
        "a subnet with bits of a host",
        "numbers without zeros",
        "a rack that there is not",
        "an inlet in Fahrenheit",
        "a rail too many",
        "a key of a partition",
        "an account that there is not",
        "a server that there is not",
    ),
    "what only a whole blueprint shows": (
        "a channel without its secret",
        "half of a driver's version",
        "controllers on another subnet",
        "a gateway outside",
        "a limit in kilowatts",
        "the voltage of one feed",
        "the weight of racks",
        "more GPUs than the chassis takes",
        "a reservation that is over",
        "drives that are not named",
        "more than the drives hold",
        "a test over two partitions",
    ),
}


@pytest.mark.parametrize("names", TOGETHER.values(), ids=TOGETHER)
def test_a_dozen_planted_mistakes_are_named_in_one_run_and_nothing_besides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...]
) -> None:
    chosen = [ALL[name] for name in names]
    plant(tmp_path, chosen)
    said = validated(tmp_path, capsys)
    unnamed = [mistake.name for mistake in chosen if not any(is_of(each, mistake, tmp_path) for each in said)]
    besides = [each for each in said if not any(is_of(each, mistake, tmp_path) for mistake in chosen)]
    assert (unnamed, besides) == ([], [])


def test_the_planted_mistakes_are_fifty_or_more() -> None:
    assert len(ALL) >= 50
    assert all(len(names) >= 12 for names in TOGETHER.values())


@pytest.mark.parametrize(
    ("line", "package", "without"),
    [
        ("  openmpi:", "libpmix2", ()),
        ("  directory:", "sssd-ldap", ("  openmpi: {enabled: true}\n",)),
    ],
)
def test_a_package_that_a_release_lacks_is_named_where_the_blueprint_chooses_its_role(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, package: str, without: tuple[str, ...]
) -> None:
    release = Mistake(
        "release", 'release: "12"', 'release: "14"', f"debian 14 lacks the package {package}", "remove", line=line
    )
    plant(tmp_path, [release, *(Mistake("without", text, "", "", "") for text in without)])
    assert [said for said in validated(tmp_path, capsys) if is_of(said, release, tmp_path)]
