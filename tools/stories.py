"""Picks and runs the stories (tests on real nodes) that fit into CI beside `make test`.

    python -m tools.stories --used-min 10            # what .ci/run does, 10 minutes after it began
    python -m tools.stories --used-min 10 --dry-run  # prints what would run, and why

Every landing runs

1. the stories that its commits could have touched, by `tests/stories/for.yaml`,
2. the stories whose turn it is: each story has one of three turns, and the next landing has the next turn,
3. others, the next turn first, while the time lasts.

The first two run even if they take CI to 45 minutes; touched stories beyond that are named.
`tests/stories/minutes.yaml` has the minutes and the turn of each story.

CI keeps nothing between two runs, so the checkout says which turn it is: `.ci/landing` holds the number of the landing,
and `make landing` adds one, in a commit of its own. Commits after that one count, too: if somebody forgets it, the turn
still moves. The commits of a landing are those since the previous number.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
STORIES = ROOT / "tests" / "stories"
MINUTES = STORIES / "minutes.yaml"
TABLE = STORIES / "for.yaml"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- stories -->\n", "<!-- end of stories -->\n"
LANDING = Path(".ci/landing")
MAIN_JOB = "main_job/test_main_job.py"  # `make test` runs it each time

TURNS = 3
WORKERS = 3
AIM_MIN = 35  # for `make test` and the stories together
SURE_MIN = 45  # touched stories that would take CI beyond this are skipped, and listed
MOST_MIN = 85  # running stories are ended then, and CI fails
TEST_MIN = 10  # for `make test` on two quiet cores: if it took longer, stories will, too
ON_DEMAND = re.compile(
    r"\bmark\.(?:debian_14|faults|hosts|kills|metal|monitoring|nvidia|shared_storage|suites|templates|training|vagrant|vm)\b"
)
_HEAD = """\
# Minutes of each story beside others, with three workers on two quiet cores, and its turn in CI (tools/stories.py).
# `make test-stories MEASURED=--write-minutes` writes it, and the table in CONTRIBUTING.md.
"""


@dataclass(frozen=True)
class Story:
    """A file of tests on real nodes: its path from tests/stories, its minutes, and its turn, from 0 to TURNS - 1."""

    path: str
    minutes: float
    turn: int


@dataclass(frozen=True)
class Picked:
    """A story, and the reason why it runs."""

    story: Story
    why: str


def files() -> list[str]:
    """Return all stories that are not on demand, as paths from tests/stories, except that of `make test`."""
    paths = (path for path in sorted(STORIES.rglob("test_*.py")) if not ON_DEMAND.search(path.read_text()))
    return [name for path in paths if (name := str(path.relative_to(STORIES))) != MAIN_JOB]


def read_stories(path: Path = MINUTES) -> list[Story]:
    """Return the stories of a file such as `minutes.yaml`."""
    written = yaml.safe_load(path.read_text())
    return [Story(name, float(minutes), int(turn)) for name, (minutes, turn) in written.items()]


def written(stories: Iterable[Story]) -> str:
    """Return the text of `minutes.yaml`."""
    lines = [f"{story.path}: [{story.minutes:.1f}, {story.turn}]\n" for story in sorted(stories, key=lambda s: s.path)]
    return _HEAD + "".join(lines)


def table(stories: Sequence[Story]) -> str:
    """Return the table of CONTRIBUTING.md between its two comments: a row for each folder, longest stories first."""
    rows: dict[str, list[Story]] = {}
    for story in sorted(stories, key=lambda story: -story.minutes):
        rows.setdefault(str(Path(story.path).parent), []).append(story)
    lines = []
    for folder, own in sorted(rows.items()):
        names = ", ".join(f"{Path(story.path).stem.removeprefix('test_')} {story.minutes:.1f}" for story in own)
        lines.append(f"| {folder} | {sum(story.minutes for story in own):.1f} | {names} |\n")
    return "| stories | minutes | of these |\n|---|---|---|\n" + "".join(lines)


def write(stories: Sequence[Story]) -> None:
    """Write `minutes.yaml`, and the table in CONTRIBUTING.md."""
    MINUTES.write_text(written(stories))
    before, _, rest = CONTRIBUTING.read_text().partition(BEGIN)
    CONTRIBUTING.write_text(f"{before}{BEGIN}{table(stories)}{END}{rest.partition(END)[2]}")


def measured(stories: Sequence[Story], took_min: Mapping[str, float], names: Sequence[str]) -> list[Story]:
    """Return the stories of `names` with new minutes. A new one gets the turn that has the fewest minutes."""
    by_path = {story.path: story for story in stories}
    new_min = {name: max(0.1, round(minutes, 1)) for name, minutes in took_min.items()}
    new_stories = [
        Story(name, new_min.get(name, by_path[name].minutes), by_path[name].turn) for name in names if name in by_path
    ]
    for name in sorted(set(names) - by_path.keys(), key=lambda name: -new_min.get(name, 1)):
        load = [sum(story.minutes for story in new_stories if story.turn == turn) for turn in range(TURNS)]
        new_stories.append(Story(name, new_min.get(name, 1), load.index(min(load))))
    return new_stories


def touched(changed: Iterable[str], own: Mapping[str, Sequence[str]], stories: Sequence[Story]) -> dict[str, str]:
    """Return the stories that changed files may have touched, each with one of the files. A story touches itself."""
    reasons: dict[str, str] = {}
    for path in sorted(changed):
        patterns = [path.removeprefix("tests/stories/")]
        patterns += [story for files, patterns_of in own.items() if fnmatchcase(path, files) for story in patterns_of]
        for story in stories:
            if any(fnmatchcase(story.path, pattern) for pattern in patterns):
                reasons.setdefault(story.path, path)
    return reasons


def wall_min(stories: Sequence[Story]) -> float:
    """Return the minutes of stories that run in parallel."""
    longest = max((story.minutes for story in stories), default=0.0)
    return max(longest, sum(story.minutes for story in stories) / WORKERS)


def must_run(stories: Sequence[Story], reasons: Mapping[str, str], turn: int, most_min: float) -> list[Picked]:
    """Return the stories that a landing runs in any case: touched ones first, then those of this turn.

    Touched ones may take more than the remaining time, but with the others no more than `most_min` minutes.
    """
    due = [story for story in stories if story.turn == turn % TURNS]
    first: list[Story] = []
    for story in stories:
        if story.path in reasons and wall_min([*{*first, *due, story}]) <= most_min:
            first.append(story)
    picked = [Picked(story, f"{reasons[story.path]} changed") for story in first]
    return picked + [Picked(story, "its turn") for story in due if story not in first]


def may_run(stories: Sequence[Story], picked: Sequence[Picked], turn: int, room_min: float) -> list[Picked]:
    """Return the other stories that fit into `room_min`: the next turn first, longer stories before shorter ones."""
    picked_paths = {picked.story.path for picked in picked}
    remaining = [story for story in stories if story.path not in picked_paths]
    chosen: list[Story] = []
    for story in sorted(remaining, key=lambda story: ((story.turn - turn) % TURNS, -story.minutes)):
        if wall_min([*chosen, story]) <= room_min:
            chosen.append(story)
    return [Picked(story, "there is time") for story in chosen]


def landing(root: Path) -> tuple[int, list[str]]:
    """Return the turn, and the files that this landing changed; none if the checkout has no history."""
    number = int((root / LANDING).read_text())
    numbered = _git(root, "log", "-2", "--format=%H", "--", str(LANDING))
    if len(numbered) < 2:
        return number, []
    last, before = numbered
    later = int(_git(root, "rev-list", "--count", f"{last}..HEAD")[0])
    return number + later, _git(root, "diff", "--name-only", before, "HEAD")


def _git(root: Path, *words: str) -> list[str]:
    """Return the lines that git prints; none if it fails: a checkout may lack git's folder."""
    process = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return process.stdout.splitlines() if process.returncode == 0 else []


def _run(picked: Sequence[Picked], most_s: float) -> int:
    """Return pytest's exit status; 124 after `most_s` seconds. The longest story begins first."""
    ordered = sorted(picked, key=lambda one: -one.story.minutes)
    words = [sys.executable, "-m", "pytest", "-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder"]
    words += ["--times", *(str(STORIES / one.story.path) for one in ordered)]
    with subprocess.Popen(words, cwd=ROOT) as process:
        try:
            return process.wait(most_s)
        except subprocess.TimeoutExpired:
            process.terminate()  # pytest takes its nodes down
            process.wait(120)
            return 124


def show(picked: Sequence[Picked], title: str) -> None:
    """Print the stories that run, with reasons."""
    stories = [one.story for one in picked]
    print(
        f"{title}: {len(picked)} stories, about {wall_min(stories):.0f} min with {WORKERS} workers on two quiet cores"
    )
    for one in picked:
        print(f"  {one.story.minutes:5.1f} min  {one.story.path}  ({one.why})")
    sys.stdout.flush()


def main() -> int:
    """Return the exit status of the first run of pytest that failed, 124 out of time, 0 if all passed."""
    parser = argparse.ArgumentParser(description="Pick and run the stories that fit into CI.")
    parser.add_argument("--used-min", type=float, required=True, help="minutes that CI has used already")
    parser.add_argument("--dry-run", action="store_true", help="print what would run")
    options = parser.parse_args()
    began = time.monotonic()

    stories = read_stories()
    turn, changed = landing(ROOT)
    print(f"turn {turn % TURNS}; " + (f"this landing changed {len(changed)} files" if changed else "no history"))
    reasons = touched(changed, yaml.safe_load(TABLE.read_text()), stories)
    slower = max(1.0, options.used_min / TEST_MIN)
    first = must_run(stories, reasons, turn, (SURE_MIN - options.used_min) / slower)
    show(first, "in any case")
    if remaining := sorted(reasons.keys() - {picked.story.path for picked in first}):
        print(f"touched, and no time for it (`make test-stories` runs it): {', '.join(remaining)}")
    planned_min = wall_min([picked.story for picked in first])
    took_min = planned_min * slower
    if first and not options.dry_run:
        status = _run(first, (MOST_MIN - options.used_min) * 60)
        if status:
            return status
        took_min = (time.monotonic() - began) / 60
        slower = max(1.0, took_min / planned_min)
    room_min = max(0.0, AIM_MIN - options.used_min - took_min)
    more = may_run(stories, first, turn, room_min / slower)
    show(more, f"in the {room_min:.0f} min that are left, on a machine {slower:.1f} times slower")
    if options.dry_run or not more:
        return 0
    return _run(more, (MOST_MIN - options.used_min) * 60 - (time.monotonic() - began))


if __name__ == "__main__":
    sys.exit(main())
