"""The limits of a rehearsal: in a line or two, and as a comparison with the real site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcforge.blueprint.hostlist import fold
from hpcforge.rehearsal.compare import Compared, Difference
from hpcforge.rehearsal.stand_ins import StandIn
from hpcforge.report.text import one_line, plural


def not_rehearsed(stand_ins: Sequence[StandIn], compare: str) -> str:
    """Name the parts with only a stand-in, and the command that shows the difference; nothing if all is rehearsed."""
    if not stand_ins:
        return ""
    short = "; ".join(stand_in.short for stand_in in stand_ins if stand_in.short)
    return f"not rehearsed: {short}\nthe difference: {compare}\n"


def compared_text(found: Compared, *, up: bool, full: bool) -> str:
    """Return under each stand-in the files that it changes; with `full` their lines, too. `up`: the rehearsal runs."""
    explained = _differences if full else _files
    lines = [f"{'rehearsed on' if up else 'would be rehearsed on'} {fold(found.nodes)}", ""]
    for explanation in found.explained:
        lines += [
            f"{explanation.stand_in.name}: {explanation.stand_in.sentence}",
            *explained(explanation.differences),
            *([""] if full else []),
        ]
    if not full:
        lines.append("")
    if found.unexplained:
        lines += [
            "NOT EXPLAINED by any stand-in: a role depends on where it runs",
            *_differences(found.unexplained),
            "",
        ]
    count = sum(len(explanation.differences) for explanation in found.explained)
    lines.append(
        f"{plural(len(found.explained), 'stand-in')}, {plural(count, 'difference')}; "
        f"not explained: {len(found.unexplained)}" + "; --full shows their lines" * bool(count and not full)
    )
    return "".join(f"{one_line(line)}\n" for line in lines)


def _files(several: Sequence[Difference], at_most: int = 4) -> Iterator[str]:
    """Yield one line: the first files that differ, and how many more."""
    names = list(dict.fromkeys(difference.what for difference in several))
    more = f" and {plural(len(names) - at_most, 'other')}" if len(names) > at_most else ""
    if names:
        yield f"  {', '.join(names[:at_most])}{more}"


def _differences(several: Sequence[Difference]) -> Iterator[str]:
    for difference in several:
        yield f"  {difference.what}  {fold(difference.nodes)}"
        yield from (f"      {line}" for line in difference.lines)
