"""A plan as Markdown for a merge request: a table, and the whole plan folded away. GitHub and GitLab show both."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcforge.blueprint.hostlist import fold
from hpcforge.plan.plan import Plan
from hpcforge.report.plan_text import plan_summary, plan_text
from hpcforge.report.text import clean, one_line, plural

_MOST = 60_000  # characters: GitHub takes 65,536 in a comment
_MOST_ROWS = 50
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~@$&])")


def plan_markdown(plan: Plan, again: str) -> str:
    """Return the text. `again` is the command that prints the plan; texts of nodes appear only as code."""
    lines = [f"### hpcforge plan: {_plain(plan.cluster)}", "", _plain(plan_summary(plan)), ""]
    rows = [*_rows(plan)]
    if rows:
        lines += ["| role | nodes | reason | disrupts |", "|---|---|---|---|", *rows[:_MOST_ROWS]]
        lines += [f"| and {len(rows) - _MOST_ROWS} more | | | |"] * (len(rows) > _MOST_ROWS)
        lines.append("")
    out = {**plan.state.unreachable, **plan.state.refused}
    if out:
        lines += [f"**Not compared:** {_plain(fold(tuple(out)))}", ""]
    if plan.state.down:
        lines += [f"**Not as planned:** {_plain(worker.sentence)}  " for worker in plan.state.down[:_MOST_ROWS]]
        lines.append("")
    if plan.state.shortfalls:
        names = fold(dict.fromkeys(shortfall.node for shortfall in plan.state.shortfalls))
        lines += [f"**Less than declared:** {_plain(names)}", ""]
    head = "\n".join(lines)
    text = plan_text(plan)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    room = _MOST - len(head) - 2 * len(fence) - 200
    if len(text) > room:
        kept = text[:room].rpartition("\n")[0]
        text = f"{kept}\n... {plural(text.count(chr(10)) - kept.count(chr(10)), 'more line')}\n"
    body = ["<details><summary>The whole plan</summary>", "", f"{fence}text", clean(text).rstrip("\n"), fence, ""]
    return "\n".join([head, *body, "</details>", "", f"`{one_line(again).replace('`', '')}` shows it again.", ""])


def _rows(plan: Plan) -> Iterator[str]:
    """Yield a row for each role, reason and disruption."""
    for leaver in plan.changes.leaving:
        yield _row("leaves the cluster", leaver.node, "no longer in the blueprint", "")
    for node, removals in plan.changes.removals.items():
        yield _row(", ".join(removal.role for removal in removals), node, "no longer wanted", "")
    for step in plan.changes.steps:
        alike: dict[tuple[str, str], list[str]] = {}
        for node, change in step.changes.items():
            alike.setdefault((change.reason, change.disruption), []).append(node)
        for (reason, disruption), nodes in alike.items():
            yield _row(step.role, fold(nodes), reason, "" if disruption == "none" else disruption)
    for run in plan.policy.smoke.runs:
        yield _row(f"tests: {', '.join(run.tests)}", fold(run.nodes), run.why, "")


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Text without a meaning in Markdown: no link, no mention, no column."""
    return _MARKUP.sub(r"\\\1", one_line(text))
