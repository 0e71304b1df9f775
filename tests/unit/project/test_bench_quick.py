"""`make bench-quick`: what counts as worse, and the history of the figures. Nothing is timed here."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A history in a repository whose first commit has one file."""
    (tmp_path / "code.py").write_text("1\n", encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "a")
    return tmp_path / "history.csv"


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout.strip()


def spreads(**values: float) -> dict[str, Any]:
    from rounds import spread  # noqa: PLC0415

    return {name: spread([value]) for name, value in values.items()}


def test_worse_by_a_tenth() -> None:
    from quick import worse  # noqa: PLC0415

    assert worse({"a": 10.0, "b": 10.0, "c": 10.0}, spreads(a=10.9, b=11.1, d=99.0)) == ["b"]


def test_the_table_has_both_and_how_far_rounds_differ() -> None:
    from quick import table  # noqa: PLC0415
    from rounds import spread  # noqa: PLC0415

    assert table({"a": 10.0}, {"a": spread([12.0, 11.0, 10.0]), **spreads(b=2.0)}).splitlines()[2:] == [
        "| a | 10 | 11 | 10 to 12 | 3 | 1.10 |",
        "| b |  | 2 | 2 to 2 | 1 |  |",
    ]


def test_what_is_worse_is_measured_again() -> None:
    from quick import judged  # noqa: PLC0415

    values = iter([20.0, 15.0, 10.5])
    assert judged({"a": lambda: spreads(a=next(values))}, {"a": 10.0}) == spreads(a=10.5)
    assert list(values) == []


def test_what_is_not_worse_is_measured_once() -> None:
    from quick import judged  # noqa: PLC0415

    values = iter([10.5, 10.0])
    assert judged({"a": lambda: spreads(a=next(values))}, {"a": 10.0}) == spreads(a=10.5)
    assert list(values) == [10.0]


def test_every_figure_has_its_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import history  # noqa: PLC0415
    import quick  # noqa: PLC0415

    def once(base: Callable[[], Any], programs: dict[str, Any], count: int, by: str) -> dict[str, Any]:
        cost = quick.Cost(1.0, 1.0, 1.0, 1.0)
        return {name: quick.rounds.Compared([cost], [cost]) for name in programs}

    monkeypatch.setattr(quick.rounds, "compare", once)
    monkeypatch.setattr(quick.tools, "hpcforge", lambda bench: None)
    with quick.lab() as lab:
        figures = quick.start() | lab["first"]() | quick.again(None)
    for nodes in (100, 1_000, 10_000):
        figures |= quick.sizes(tmp_path, nodes)
    assert len(figures) == 21
    columns = history.HISTORY.read_text(encoding="utf-8").partition("\n")[0].split(",")
    assert {"time", "commit", *figures} <= set(columns)


def test_a_line_names_its_commit_and_whether_the_tree_had_changes(file: Path) -> None:
    import history  # noqa: PLC0415

    commit = git(file.parent, "rev-parse", "--short", "HEAD")
    history.append({"a": 1.23456}, file)
    git(file.parent, "add", "history.csv")  # the history itself is no change
    history.append({"a": 2.0}, file)
    (file.parent / "code.py").write_text("2\n", encoding="utf-8")
    history.append({"a": 3.0}, file)
    assert [line["commit"] for line in history.lines(file)] == [commit, commit, f"{commit}+"]
    assert [history.figures(line) for line in history.lines(file)] == [{"a": 1.235}, {"a": 2.0}, {"a": 3.0}]


def test_the_first_line_goes_below_the_header(file: Path) -> None:
    import history  # noqa: PLC0415

    file.write_text("time,commit,a\n", encoding="utf-8")
    assert history.lines(file) == []
    history.append({"a": 1.0}, file)
    assert [history.figures(line) for line in history.lines(file)] == [{"a": 1.0}]


def test_old_lines_have_a_new_column_empty(file: Path) -> None:
    import history  # noqa: PLC0415

    history.append({"a, b": 1.0}, file)
    history.append({"c": 2.0}, file)
    head, *lines = file.read_text(encoding="utf-8").splitlines()
    assert head == 'time,commit,"a, b",c'
    assert [line.split(",", 2)[2] for line in lines] == ["1,", ",2"]


@pytest.fixture
def three(file: Path) -> Path:
    file.write_text(
        "time,commit,a,b,c,d\n2026-01-01T10:00Z,1111111,10,10,10,\n"
        "2026-01-02T10:00Z,2222222+,10,10,10,\n2026-01-03T10:00Z,3333333,11.5,10.5,8,1\n",
        encoding="utf-8",
    )
    return file


@pytest.mark.parametrize(
    ("commits", "before"), [([], "2222222+ (2026-01-02"), (["11111", "3333333abc"], "1111111 (20")]
)
def test_compare_shows_what_changed_by_a_tenth(three: Path, commits: list[str], before: str) -> None:
    import history  # noqa: PLC0415

    head, _, *rows = history.changes(commits, three).splitlines()
    assert head.startswith(f"| figure | {before}")
    assert rows == ["| a | 10 | 11.5 | 1.15 |", "| c | 10 | 8 | 0.80 |"]


def test_compare_says_that_nothing_changed_and_which_commits_there_are(three: Path, tmp_path: Path) -> None:
    import history  # noqa: PLC0415

    assert "no figure changed by a tenth between 1111111" in history.changes(["1111111", "2222222"], three)
    assert "nothing to compare" in history.changes([], tmp_path / "none.csv")
    with pytest.raises(SystemExit, match=r"no line of commit 4; the history has 1111111, 2222222\+, 3333333"):
        history.changes(["1111111", "4"], three)
