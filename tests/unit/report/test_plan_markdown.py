"""A plan for a merge request: a table and the folded plan, in which no node's text is markup."""

from __future__ import annotations

import re

from hpcforge.plan.admission import Shortfall
from hpcforge.plan.plan import Change, Plan, Step
from hpcforge.report.plan_markdown import plan_markdown
from tests.support.in_process import hpcforge
from tests.support.plans import plan_with

HOSTILE = "@all [link](http://x.example) </details> ``` | <b>\x1b[2J"


def plan(steps: tuple[Step, ...] = (), unreachable: str = "") -> Plan:
    names = ("head", "w1", "w2", "w3")
    away = {"w3": unreachable} if unreachable else {}
    short = (Shortfall("w2", "memory", "4 GiB", HOSTILE, "w2: {memory_gib: 3}"),) if unreachable else ()
    return plan_with("demo", names, steps=steps, unreachable=away, shortfalls=short)


def test_equal_changes_are_one_row() -> None:
    drifted, disturbing = Change(packages=("x",), reason="drifted"), Change(reason="forced", disruption="drain")
    text = plan_markdown(
        plan((Step("time", {"w1": drifted, "w2": drifted}), Step("base", {"w1": disturbing}))), "again"
    )
    assert "| time | w\\[1-2\\] | drifted |  |\n| base | w1 | forced | drain |\n" in text
    assert "2 nodes to change: w\\[1-2\\]" in text
    assert text.index("<details>") < text.index("```text\n") < text.index("time  w[1-2]  (drifted)")


def test_what_a_node_says_is_no_markup() -> None:
    text = plan_markdown(plan(unreachable=HOSTILE), "hpcforge plan `x`")
    fence = re.search(r"^(`{4,})text$", text, re.M)
    assert fence
    outside = text[: fence.start()] + text[text.index(f"\n{fence[1]}\n") :]
    for part in ("@all", "](http", "<b>", "\x1b"):
        assert part not in outside
    assert outside.count("</details>") == 1
    assert "**Not compared:** w3" in text and "**Less than declared:** w2" in text


def test_a_long_plan_fits_into_a_comment() -> None:
    steps = tuple(Step(f"role_{number}", {"w1": Change(packages=("p" * 2000,))}) for number in range(100))
    text = plan_markdown(plan(steps), "again")
    assert len(text) < 65_536
    assert "| and 50 more | | | |" in text
    assert re.search(r"^\.\.\. \d+ more lines$", text, re.M)


def test_the_verb_prints_it() -> None:
    done = hpcforge("plan", "blueprints/rehearsal.yaml", "--offline", "--markdown")
    assert done.returncode == 2
    assert done.stdout.startswith("### hpcforge plan: rehearsal\n")
    assert "| slurm\\_controller | head | new node |" in done.stdout
    assert hpcforge("plan", "blueprints/rehearsal.yaml", "--offline", "--markdown", "--json").returncode == 3
