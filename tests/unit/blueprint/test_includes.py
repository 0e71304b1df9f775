"""Blueprints that include files: what they say together, and every mistake at its place in its own file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cli import run
from hpcforge.cluster import load
from hpcforge.cluster.load.loaded import inputs

SITE = """\
schema: 1
name: small
domain: small.example.org
include: [common/people.yaml, common/software.yaml]
nodes:
  head: {functions: [head], hardware: generic-1u, addresses: 10.1.0.1}
  w[1-2]: {functions: [worker], hardware: rehearsal-node, addresses: "10.1.0.[11-12]"}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
slurm: {controller: head, partitions: {main: {nodes: all, default: true}}}
users: {eve: {uid: 2009}}
"""
PEOPLE = """\
# shared by all clusters
access: {user: ops}
users:
  ada: {uid: 2001}
  eve: {uid: 2002}
"""
SOFTWARE = """\
include: base/os.yaml
slurm: {reserve: {cores: 1, memory_gib: 1}}
"""
OS = 'software: {os: {name: debian, release: "12"}}\n'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    base = tmp_path / "common" / "base"
    base.mkdir(parents=True)
    (tmp_path / "common" / "people.yaml").write_text(PEOPLE)
    (tmp_path / "common" / "software.yaml").write_text(SOFTWARE)
    (base / "os.yaml").write_text(OS)
    blueprint = tmp_path / "site.yaml"
    blueprint.write_text(SITE)
    return blueprint


def wrong(blueprint: Path) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(blueprint)
    errors = [entry for entry in caught.value.diagnostics if entry.severity == "error"]
    return [
        f"{Path(entry.source.name).relative_to(blueprint.parent)}:{entry.line}:{entry.column}: {entry.message}"
        for entry in errors
    ]


def test_parts_are_merged_and_the_blueprint_has_the_last_word(site: Path) -> None:
    loaded = load(site)
    assert {user.name: user.uid for user in loaded.cluster.users} == {"eve": 2009, "ada": 2001}
    assert loaded.cluster.by_name["w1"].reserve_cores == 1
    assert loaded.cluster.os.release == "12"
    common = site.parent / "common"
    assert loaded.included == (common / "people.yaml", common / "software.yaml", common / "base" / "os.yaml")
    assert set(loaded.included) <= set(inputs(loaded))


def test_a_mistake_is_shown_in_the_file_that_has_it(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = site.parent / "common" / "people.yaml"
    people.write_text(PEOPLE.replace("uid: 2001", "uid: many"))
    assert run(["validate", str(site)]) == 3
    said = capsys.readouterr()
    shown = said.out + said.err
    assert f"{people}:4:14: error:" in shown
    assert "    4 |   ada: {uid: many}\n" in shown
    people.write_text("users: [\n")
    assert [entry.partition(": ")[0] for entry in wrong(site)] == ["common/people.yaml:2:1"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere.yaml", "the file cannot be read: No such file or directory"),
        ("../other.yaml", "the file cannot be read: the path must be inside its own folder"),
        ("/etc/passwd", "the file cannot be read: the path must be inside its own folder"),
        ("link.yaml", "the file cannot be read: it is a symbolic link"),
        ("pipe.yaml", "the file cannot be read: it is a pipe"),
        ("site.yaml", "`site.yaml` includes itself: site.yaml -> site.yaml"),
    ],
)
def test_only_files_of_its_own_folder_are_read(site: Path, path: str, why: str) -> None:
    (site.parent / "link.yaml").symlink_to("/etc/passwd")
    os.mkfifo(site.parent / "pipe.yaml")
    site.write_text(SITE.replace("common/software.yaml", path))
    found = wrong(site)
    column = 1 + SITE.splitlines()[3].index("common/software.yaml")
    assert [entry for entry in found if entry.startswith(f"site.yaml:4:{column}: ") and why in entry], found


def test_circles_and_long_chains_end(site: Path) -> None:
    folder = site.parent / "common"
    (folder / "software.yaml").write_text("include: other.yaml\n")
    (folder / "other.yaml").write_text("include: software.yaml\n")
    assert wrong(site)[0] == (
        "common/other.yaml:1:10: `software.yaml` includes itself: "
        "site.yaml -> software.yaml -> other.yaml -> software.yaml"
    )
    for number in range(9):
        (folder / f"{number}.yaml").write_text(f"include: {number + 1}.yaml\n")
    (folder / "software.yaml").write_text("include: 0.yaml\n")
    assert "more than 4 files include each other" in wrong(site)[0]


def test_two_files_must_not_set_the_same(site: Path) -> None:
    software = site.parent / "common" / "software.yaml"
    software.write_text(SOFTWARE + "users: {ada: {uid: 2003}, eve: {uid: 2003}}\n")
    people = site.parent / "common" / "people.yaml"
    assert wrong(site) == [f"common/software.yaml:3:15: `users.ada.uid` is also set in {people}:4"]


def test_a_group_of_an_included_file_is_not_edited(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = '  w[1-2]: {functions: [worker], hardware: rehearsal-node, addresses: "10.1.0.[11-12]"}\n'
    site.write_text(SITE.replace(line, ""))
    people = site.parent / "common" / "people.yaml"
    people.write_text(f"{PEOPLE}nodes:\n{line}")
    before = site.read_text()
    assert run(["nodes", "add", str(site), "w3", "--yes"]) == 3
    assert "a node of an included file is added, removed or moved there, by hand" in capsys.readouterr().err
    assert run(["nodes", "remove", str(site), "w1", "--yes"]) == 3
    assert (site.read_text(), people.read_text()) == (before, f"{PEOPLE}nodes:\n{line}")


def test_a_list_of_files_that_is_none_is_an_error_in_an_included_file_too(site: Path) -> None:
    (site.parent / "common" / "software.yaml").write_text("include: {a: b}\nslurm: {reserve: {cores: 1}}\n")
    assert "common/software.yaml:1:10: a file to include is a path" in wrong(site)
