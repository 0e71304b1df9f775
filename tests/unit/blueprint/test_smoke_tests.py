"""A smoke test is a folder: what blueprints may ask for follows, and its mistakes are shown as a blueprint's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.blueprint.schema import json_schema
from hpcforge.blueprint.smoke_tests import load_smoke_tests

DISK = """\
description: "Writes a file."
launcher: plain
needs: {packages: [fio], nodes: 2}
time_limit: 90s
measures:
  sync_ms: {unit: ms, better: lower}
  size_bytes: {unit: B, format: size}
headline: "{sync_ms} ms for {size_bytes}, at most {sync_ms:worst} ms on {sync_ms:worst_node}"
thresholds:
  sync_ms: {at_most: 50, at_most_of_median: 1.5}
options:
  size_mib: {type: whole, at_least: 1, default: 16, description: "Size of the file, MiB."}
  kinds: {list_of: name, default: [a, b], description: Which kinds of files.}
"""


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "smoke_tests" / "disk"
    folder.mkdir(parents=True)
    (folder / "test.yaml").write_text(DISK)
    (folder / "disk.py").write_text("pass\n")
    (tmp_path / "smoke_tests" / "no_test_of_ours").mkdir()
    return folder.parent


def test_what_a_blueprint_may_ask_for_follows(tests: Path) -> None:
    found = load_smoke_tests(tests)
    assert [*found] == ["disk"]
    assert (found["disk"].spec.needs.packages, found["disk"].program) == (("fio",), tests / "disk" / "disk.py")
    section = json_schema(read_declared(), found)["$defs"]["SmokeTests"]["properties"]
    assert section["disk"]["description"] == "Writes a file."


@pytest.mark.parametrize(
    ("old", "new", "where", "said", "hint"),
    [
        ("launcher:", "lanucher:", ":2:1:", "unknown key `lanucher`", "did you mean `launcher`?"),
        ("plain", "ssh", ":2:11:", "`ssh` is not accepted here", "known: meeting, mpi, plain, srun, torchrun"),
        ("unit: ms", "unti: ms", ":6:13:", "unknown key `unti`", "did you mean `unit`?"),
        ("{sync_ms} ms", "{sync_s} ms", ":8:11:", "`sync_s` is not a measure of this test", "did you mean `sync_ms`?"),
        ("{sync_ms} ms", "{sync_ms!r} ms", ":8:11:", "braces without a measure", "write {NAME}, "),
        (":worst}", ":best}", ":8:11:", "`best` is not accepted after a measure", "known: median, worst, worst_node"),
        ("  sync_ms: {at", "  sync: {at", ":10:3:", "`sync` is not a measure of this test", "did you mean `sync_ms`?"),
        ("{at_most: 50, at_most_of_median: 1.5}", "{}", ":10:3:", "no limit is set", "at_least, at_most"),
        ("at_most: 50", "at_most: fast", ":10:22:", "`fast` is not a number", "digits and a point"),
        ("1.5", "0.5", ":10:45:", "`at_most_of_median` must be at least 1", ""),
        ("plain", "torchrun", ":10:26:", "a median needs a report of each node", "rank 0 reports"),
        (", better: lower", "", ":8:11:", "`sync_ms` does not set whether higher or lower is better", "add `better`"),
        ("90s", "ninety", ":4:13:", "`ninety` is not a time such as", ""),
        ("sync_ms: {unit", "host: {unit", ":6:3:", "`host` is a reserved name", "choose another"),
        ("[fio]", '["fio; rm -rf /"]', ":3:20:", "is not the name of a package", ""),
        ("type: whole", "type: int", ":12:20:", "`int` is not accepted here", "known: text, name, whole"),
        ("at_least: 1", "at_leats: 1", ":12:27:", "unknown key `at_leats`", "did you mean `at_least`?"),
        (", default: 16", "", ":12:3:", "`size_mib` has no default", "blueprints that do not set it"),
        ("default: 16", "default: 0", ":12:13:", "`size_mib` is not right: default: Input should be greater than", ""),
        ("  size_mib", "  limit_s", ":12:3:", "`limit_s` is a reserved name", "for example sizes_kib"),
        ("list_of: name", "list_of: text", ":13:20:", "a program cannot get a list of text", "a list of name"),
        ("list_of: name", "list_of: name, type: name", ":13:10:", "`kinds` is not right: give exactly one of type", ""),
    ],
)  # fmt: skip
def test_mistakes_are_shown_as_those_of_a_blueprint(
    tests: Path, old: str, new: str, where: str, said: str, hint: str
) -> None:
    path = tests / "disk" / "test.yaml"
    path.write_text(DISK.replace(old, new, 1))
    with pytest.raises(InvalidInput) as raised:
        load_smoke_tests(tests)
    shown = raised.value.shown()
    assert f"{path}{where} error: " in shown
    assert said in shown
    assert hint in shown


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("json", "cannot be a test's name"),
        ("Disk-2", "cannot be a test's name"),
        ("other", "`other.py` is missing beside it"),
    ],
)
def test_a_folder_that_cannot_be_a_test_is_named(tests: Path, name: str, said: str) -> None:
    (tests / "disk").rename(tests / name)
    with pytest.raises(InvalidInput) as raised:
        load_smoke_tests(tests)
    assert said in raised.value.shown()


def test_none_is_no_line(tests: Path) -> None:
    path = tests / "disk" / "test.yaml"
    path.write_text(DISK.partition("thresholds:")[0] + "thresholds: none\n")
    assert load_smoke_tests(tests)["disk"].spec.thresholds == {}


def test_a_shipped_test_that_no_blueprint_names_is_read_at_first_use(tests: Path) -> None:
    (tests / "disk" / "disk.py").unlink()
    test = load_smoke_tests(tests, named=())["disk"]
    for read in (lambda: test.spec, lambda: load_smoke_tests(tests, named={"disk"})):
        with pytest.raises(InvalidInput, match="is missing beside it"):
            read()
    with pytest.raises(InvalidInput):  # the second folder is the site's own
        load_smoke_tests(bundled.smoke_tests(), tests, named=())
