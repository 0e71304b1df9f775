"""What makes folders and subordinate numbers for users of containers, in folders of a test."""

from __future__ import annotations

import importlib.util
import itertools
import os
import stat
from pathlib import Path
from types import ModuleType

import pytest

from hpcforge import bundled

PROGRAM = bundled.root() / "roles" / "container_users" / "users.py"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, whose files are in the test's folder."""
    spec = importlib.util.spec_from_file_location("users", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "containers.json").write_text(
        f'{{"store": "{tmp_path}/store", "first_user": 1000, "first_number": 100000}}'
    )
    for name, file in {"CONFIGURATION": "containers.json", "RUNTIME": "run", "LOCK": "lock"}.items():
        monkeypatch.setattr(module, name, str(tmp_path / file))
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\nada:x:2001:2001::/home/ada:/bin/bash\n")
    monkeypatch.setattr(module, "PEOPLE", (str(tmp_path / "passwd"),))
    monkeypatch.setattr(module, "DIRECTORY", str(tmp_path / "directory-check"))
    monkeypatch.setattr(module, "FILES", (str(tmp_path / "subuid"), str(tmp_path / "subgid")))
    return module


def begins(program: ModuleType, monkeypatch: pytest.MonkeyPatch, context: str = "prolog_slurmd", **told: str) -> int:
    for name in ("SLURM_JOB_UID", "SLURM_JOB_GID", "SLURM_JOB_USER"):
        monkeypatch.delenv(name, raising=False)
    for name, text in {"SLURM_SCRIPT_CONTEXT": context, **told}.items():
        monkeypatch.setenv(name, text)
    return int(program.main())


FIRST = 100_000 + 4001 * 65_536  # of user 5001


def test_a_range_follows_from_the_number_alone(program: ModuleType) -> None:
    firsts = [program.range_of(uid, 1000, 100_000) for uid in range(1000, 60_000)]
    assert firsts[0] == 100_000
    assert {later - first for first, later in itertools.pairwise(firsts)} == {65_536}
    assert firsts[-1] + 65_536 <= 2**32 - 1
    jobs = [(1001, "ada"), (1002, "eve")]
    orders = (jobs, jobs[::-1])
    texts = []
    for order in orders:
        text = ""
        for uid, name in order:
            text = program.with_range(text, uid, name, program.range_of(uid, 1000, 100_000), False)
        texts.append(sorted(text.splitlines()))
    assert texts[0] == texts[1] == ["1001:165536:65536", "1002:231072:65536"]


@pytest.mark.parametrize(("uid", "reason"), [(999, "is not between"), (100_000, "is not between"), (70_000, "above")])
def test_a_user_out_of_the_formula_has_no_range(program: ModuleType, uid: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        program.range_of(uid, 1000, 100_000)


def test_lines_of_others_stay(program: ModuleType) -> None:
    others = "ops:100000:65536\nlow:1:10\nwrong\nworse:x:65536"
    assert program.with_range(others, 5001, "dora", FIRST, False) == f"{others}\n5001:{FIRST}:65536\n"


def test_a_range_that_is_equal_stays(program: ModuleType) -> None:
    for owner in ("dora", "5001"):
        assert program.with_range(f"{owner}:{FIRST}:65536\n", 5001, "dora", FIRST, True) is None


def test_another_range_of_the_user_is_replaced_before_there_are_images(program: ModuleType) -> None:
    text = "dora:100000:65536\nada:165536:65536\n5001:231072:65536\n"
    assert program.with_range(text, 5001, "dora", FIRST, False) == f"ada:165536:65536\n5001:{FIRST}:65536\n"
    with pytest.raises(ValueError, match=f"user 5001 has 100000:65536, and the images.*expected {FIRST}:65536"):
        program.with_range(text, 5001, "dora", FIRST, True)


@pytest.mark.parametrize("first", [FIRST - 65_535, FIRST, FIRST + 65_535])
def test_a_range_overlaps_no_other_line(program: ModuleType, first: int) -> None:
    with pytest.raises(ValueError, match=f"overlaps the line ada:{first}:65536. Remove it"):
        program.with_range(f"ada:{first}:65536\n", 5001, "dora", FIRST, False)


def _refused(program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """What the log has after a job of user 5001, which made nothing."""
    logged: list[str] = []
    monkeypatch.setattr(program.syslog, "syslog", lambda _, text: logged.append(text))
    assert begins(program, monkeypatch, SLURM_JOB_UID="5001", SLURM_JOB_GID="5001", SLURM_JOB_USER="dora") == 0
    assert not (tmp_path / "subuid").exists()
    assert not (tmp_path / "run" / "5001").exists()
    return "".join(logged)


@pytest.mark.parametrize("number", [FIRST, FIRST + 65_535])
def test_no_range_has_the_number_of_a_user_of_the_node(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    with (tmp_path / "passwd").open("a") as file:
        file.write(f"eve:x:{number}:{number}::/home/eve:/bin/bash\n")
    assert f"eve has number {number}" in _refused(program, monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (f"echo '2001 ada'; echo '{FIRST + 7} eve of ldap'", f"eve of ldap has number {FIRST + 7}"),
        ("echo no answer on port 636 >&2; exit 1", "the directory does not list its numbers: no answer on port 636"),
        ("sleep 30", "the directory does not list its numbers within 1 s"),
    ],
)
def test_no_range_has_the_number_of_a_person_of_the_directory(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, reason: str
) -> None:
    monkeypatch.setattr(program, "DIRECTORY_S", 1.0)
    check = tmp_path / "directory-check"
    check.write_text(f'#!/bin/sh\n[ "$1" = numbers ] || exit 9\nexec sh -c "{answer}"\n')
    check.chmod(0o755)
    assert reason in _refused(program, monkeypatch, tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives folders to users")
def test_a_job_finds_its_folders(program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = {"SLURM_JOB_UID": "5001", "SLURM_JOB_GID": "6001", "SLURM_JOB_USER": "dora"}
    for _ in range(2):
        assert begins(program, monkeypatch, **told) == 0
        for parent in ("run", "store"):
            seen = (tmp_path / parent / "5001").stat()
            assert (seen.st_uid, seen.st_gid, stat.S_IMODE(seen.st_mode)) == (5001, 6001, 0o700)
        assert (tmp_path / "run" / "dora").readlink() == Path("5001")
        assert (tmp_path / "subuid").read_text() == (tmp_path / "subgid").read_text() == f"5001:{FIRST}:65536\n"


def test_only_a_prolog_of_a_user_makes_anything(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert begins(program, monkeypatch, "epilog_slurmd", SLURM_JOB_UID="5001") == 0
    assert begins(program, monkeypatch, SLURM_JOB_UID="0") == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["..", ".", "a/b", "12", ""])
def test_a_name_leads_nowhere_else(program: ModuleType, tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    program.link_name(5001, name)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_job_begins_although_nothing_can_be_made(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "containers.json").unlink()
    assert begins(program, monkeypatch, SLURM_JOB_UID="5001") == 0
