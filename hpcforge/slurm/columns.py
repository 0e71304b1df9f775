"""Lines of columns between bars, as squeue and sinfo print them with a --format of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

FREE_TEXT = frozenset({"name", "reason", "comment"})  # of a user's, which may hold a bar itself: one in a row at most


def rows(output: str, columns: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield what each line has in these columns; a line that has fewer or more is skipped."""
    free = next((index for index, name in enumerate(columns) if name in FREE_TEXT), len(columns) - 1)
    after = len(columns) - free - 1
    for line in output.splitlines():
        cells = line.strip().split("|", free)
        cells = [*cells[:-1], *cells[-1].rsplit("|", after)] if after else cells
        if len(cells) == len(columns) and (columns[free] in FREE_TEXT or "|" not in cells[free]):
            yield dict(zip(columns, cells, strict=True))
