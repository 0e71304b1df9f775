"""CI's stories: what a landing touched, then whose turn it is, then what fits; all of them in any three landings."""

from __future__ import annotations

import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml

from tests import conftest
from tests.support.timing import read_budgets
from tools.stories import (
    AIM_MIN,
    BEGIN,
    CONTRIBUTING,
    END,
    LANDING,
    MAIN_JOB,
    MINUTES,
    MOST_MIN,
    ON_DEMAND,
    ROOT,
    STORIES,
    SURE_MIN,
    TABLE,
    TEST_MIN,
    TURNS,
    Picked,
    Story,
    files,
    landing,
    may_run,
    measured,
    must_run,
    read_stories,
    table,
    touched,
    wall_min,
    written,
)

ALL = read_stories()
OWN = yaml.safe_load(TABLE.read_text())
ROOM_MIN = AIM_MIN - TEST_MIN


def names(picked: list[Picked]) -> set[str]:
    return {one.story.path for one in picked}


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, file: str, text: str) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-m", file)


@pytest.mark.parametrize("first", range(TURNS))
def test_every_story_runs_in_three_landings_within_the_time(first: int) -> None:
    runs = [must_run(ALL, {}, first + number, 0) for number in range(TURNS)]
    assert set.union(*map(names, runs)) == {story.path for story in ALL}
    for run in runs:
        assert wall_min([one.story for one in run]) <= ROOM_MIN


def test_make_test_has_the_minutes_that_are_planned_for_it() -> None:
    assert read_budgets()["test"] == TEST_MIN


def test_each_story_has_minutes_and_a_turn_and_no_other_has() -> None:
    assert [story.path for story in ALL] == files()
    assert MAIN_JOB not in files()
    assert (STORIES / MAIN_JOB).exists()
    assert MINUTES.read_text() == written(ALL)
    assert {story.turn for story in ALL} == set(range(TURNS))


def test_no_story_on_demand_runs_in_ci() -> None:
    for mark in conftest.ON_DEMAND:
        assert ON_DEMAND.search(f"pytestmark = pytest.mark.{mark.replace('-', '_')}"), mark
    assert not [path for path in files() if path.startswith(("vm/", "vagrant/", "kills/", "nvidia/"))]


def test_contributing_has_the_table() -> None:
    assert f"{BEGIN}{table(ALL)}{END}" in CONTRIBUTING.read_text()


def test_every_pattern_of_the_table_means_something() -> None:
    tops = {pattern.partition("/")[0] for pattern in OWN}
    kept = [str(path.relative_to(ROOT)) for top in tops for path in (ROOT / top).rglob("*") if path.is_file()]
    for pattern, patterns in OWN.items():
        assert any(fnmatchcase(path, pattern) for path in kept), pattern
        for own in patterns:
            assert any(fnmatchcase(path, own) for path in files()), own


def test_what_the_commits_touched_comes_first_whosever_turn_it_is() -> None:
    reasons = touched(["hpcforge/node/guard.py", "docs/apply.md", "tests/stories/growth/test_restart.py"], OWN, ALL)
    assert reasons["node/test_guard.py"] == reasons["trust/test_trust.py"] == "hpcforge/node/guard.py"
    assert reasons["growth/test_restart.py"] == "tests/stories/growth/test_restart.py"
    assert "rehearsal/test_amd.py" not in reasons
    for turn in range(TURNS):
        first = must_run(ALL, reasons, turn, SURE_MIN)
        assert [one.why for one in first[: len(reasons)]] == [
            f"{reasons[one.story.path]} changed" for one in first[: len(reasons)]
        ]
        assert names(first) == reasons.keys() | {story.path for story in ALL if story.turn == turn}


@pytest.mark.parametrize("room_min", [0.0, 5.0, ROOM_MIN])
def test_what_is_added_fits_into_the_time_and_the_next_turn_is_first(room_min: float) -> None:
    first = must_run(ALL, {}, 1, SURE_MIN)
    more = may_run(ALL, first, 1, room_min)
    assert wall_min([one.story for one in more]) <= room_min
    assert not names(first) & names(more)
    turns = [one.story.turn for one in more]
    assert turns == sorted(turns, key=lambda turn: (turn - 1) % TURNS)
    assert bool(more) == (room_min > 0)


@pytest.mark.parametrize("slower", [1.0, 1.5])
def test_even_if_all_were_touched_it_ends_in_time(slower: float) -> None:
    reasons = {story.path: "x" for story in ALL}
    some = must_run(ALL, reasons, 0, SURE_MIN / slower - TEST_MIN)
    assert {story.path for story in ALL if story.turn == 0} < names(some) < reasons.keys()
    assert slower * (TEST_MIN + wall_min([one.story for one in some])) <= SURE_MIN + 0.1 < MOST_MIN < 90


def test_new_minutes_keep_turns_and_a_new_story_goes_where_there_is_least() -> None:
    before = [Story("a", 5, 0), Story("b", 1, 1), Story("c", 3, 2), Story("gone", 9, 1)]
    after = measured(before, {"a": 6.0, "b": 0.01, "new": 2.0}, ["a", "b", "c", "new"])
    assert after == [Story("a", 6.0, 0), Story("b", 0.1, 1), Story("c", 3, 2), Story("new", 2.0, 1)]


def test_the_checkout_says_the_turn_and_what_this_landing_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-b", "main")
    commit(tmp_path, "old", "x")
    commit(tmp_path, str(LANDING), "6\n")
    assert landing(tmp_path) == (6, [])  # the first one: nothing to compare with
    commit(tmp_path, "hpcforge/a.py", "x")
    commit(tmp_path, "docs/b.md", "x")
    commit(tmp_path, str(LANDING), "7\n")
    assert landing(tmp_path) == (7, [str(LANDING), "docs/b.md", "hpcforge/a.py"])
    commit(tmp_path, "c.md", "x")  # a landing without `make landing`
    turn, changed = landing(tmp_path)
    assert turn == 8
    assert {"c.md", "hpcforge/a.py"} <= set(changed)


def test_without_history_the_number_alone_says_the_turn(tmp_path: Path) -> None:
    origin, shallow, bare = tmp_path / "origin", tmp_path / "shallow", tmp_path / "bare"
    origin.mkdir()
    git(origin, "init", "-b", "main")
    commit(origin, str(LANDING), "6\n")
    commit(origin, str(LANDING), "7\n")
    git(tmp_path, "clone", "--depth=1", f"file://{origin}", str(shallow))
    assert landing(shallow) == (7, [])
    (bare / ".ci").mkdir(parents=True)
    (bare / LANDING).write_text("8\n")
    assert landing(bare) == (8, [])
