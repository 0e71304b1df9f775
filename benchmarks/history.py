"""`history.csv`: one line a landing, with its time (UTC), its commit (`+`: with changes) and the figures of `quick.py`.

A new figure is a new column, which old lines have empty.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

HISTORY = Path(__file__).with_name("history.csv")
WORSE = 1.1  # a figure against an earlier one

Line = dict[str, str]


def lines(path: Path = HISTORY) -> list[Line]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def figures(line: Mapping[str, str]) -> dict[str, float]:
    """Return the figures that a line has."""
    return {name: float(text) for name, text in line.items() if text and name not in ("time", "commit")}


def append(today: Mapping[str, float], path: Path = HISTORY) -> None:
    """Append a line for the present commit."""
    stamp = {"time": time.strftime("%FT%RZ", time.gmtime()), "commit": _commit(path)}
    everything = [*lines(path), {**stamp, **{name: f"{value:.4g}" for name, value in today.items()}}]
    columns = dict.fromkeys(name for line in everything for name in line)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(everything)


def changes(commits: Sequence[str], path: Path = HISTORY) -> str:
    """Return as Markdown what changed by a tenth between the last two lines, or the last ones of two commits."""
    everything = lines(path)
    if commits:
        before, after = (_of_commit(everything, commit) for commit in commits)
    elif len(everything) > 1:
        before, after = everything[-2:]
    else:
        return f"{path.name} has one line or none: nothing to compare"
    old, new = figures(before), figures(after)
    changed = {name: new[name] for name in old if name in new and not 1 / WORSE <= new[name] / old[name] <= WORSE}
    title, rest = (f"{line['commit']} ({line['time']})" for line in (before, after))
    if not changed:
        return f"no figure changed by a tenth between {title} and {rest}"
    rows = [f"| {name} | {old[name]:.4g} | {value:.4g} | {value / old[name]:.2f} |" for name, value in changed.items()]
    return "\n".join([f"| figure | {title} | {rest} | times |", "|---|---|---|---|", *rows])


def _of_commit(everything: Sequence[Line], commit: str) -> Line:
    for line in reversed(everything):
        if line["commit"].startswith(commit) or commit.startswith(line["commit"].removesuffix("+")):
            return line
    sys.exit(f"no line of commit {commit}; the history has {', '.join(line['commit'] for line in everything)}")


def _commit(path: Path) -> str:
    """Return the short name of the present commit, with `+` where tracked files other than the history differ."""
    git = ["git", "-C", str(path.resolve().parent)]
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
    same = [*git, "diff", "--quiet", "HEAD", "--", ":/", f":(exclude){path.name}"]
    return name.stdout.strip() + ("+" if subprocess.run(same, check=False).returncode else "")
