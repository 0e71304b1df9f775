"""Whose clock is off, who is believed, and what is left out for it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster
from hpcforge.plan.clocks import THIS_HOST, ClockOff, Span, clocks_off
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired
from hpcforge.plan.diff import diff
from hpcforge.plan.observation import Observation
from hpcforge.plan.roles.role import load_roles
from hpcforge.plan.stale import drop_nodes
from hpcforge.report.plan_text import plan_text

FACTS = {"memory_kib": 8 << 20, "cpus": 2, "gpus": {"fake": 2, "nvidia": 0}}
CONF = {"path": "/etc/client-w1.conf", "exists": False}


def ahead(seconds: float, *, heard_s: float = 0.02, began_s: float = 0.3) -> Span:
    """A clock as it is seen: its answer took `heard_s` to us, its program `began_s` to start."""
    return Span(seconds - heard_s, seconds + began_s)


def said(found: tuple[ClockOff, ...]) -> list[str]:
    return [f"{one.node}: {one.said}{' (refused)' if one.refused else ''}" for one in found]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, []),
        (0.9, []),
        (2.0, ["w1: its clock is 2.0 s ahead of that of head"]),
        (-2.0, ["w1: its clock is 2.0 s behind that of head"]),
        (-59.0, ["w1: its clock is 59 s behind that of head"]),
        (90.0, ["w1: its clock is 90 s ahead of that of head (refused)"]),
        (-90.0, ["w1: its clock is 90 s behind that of head (refused)"]),
        (-7200.0, ["w1: its clock is 7,200 s behind that of head (refused)"]),
    ],
)
def test_two_seconds_are_noted_a_minute_is_refused(seconds: float, expected: list[str]) -> None:
    assert said(clocks_off({"head": ahead(0), "w1": ahead(seconds), "w2": ahead(0)}, "head", ())) == expected


def test_a_slow_answer_is_no_wrong_clock() -> None:
    """An answer that took 90 s may come from a clock that is right, and then nothing is said of it."""
    assert clocks_off({"head": ahead(0), "w1": ahead(0, heard_s=90)}, "head", ()) == ()
    assert clocks_off({"head": ahead(0), "w1": ahead(0, began_s=90)}, "head", ()) == ()


def test_what_is_about_to_set_the_clock_is_let_through() -> None:
    [one] = clocks_off({"head": ahead(0), "w1": ahead(-400)}, "head", {"w1"})
    assert (one.far, one.refused) == (True, False)


def test_nodes_that_agree_with_their_head_go_on_whatever_this_host_says() -> None:
    clocks = {"w1": ahead(-400), "head": ahead(-400), "w2": ahead(-401)}
    assert said(clocks_off(clocks, "head", ())) == ["head: its clock is 400 s behind that of this host"]


def test_a_head_is_refused_when_its_nodes_side_with_this_host() -> None:
    clocks = {"w1": ahead(0), "head": ahead(-400), "w2": ahead(0)}
    assert said(clocks_off(clocks, "head", ())) == ["head: its clock is 400 s behind that of this host (refused)"]


def test_of_two_clocks_nobody_can_tell_which_is_right() -> None:
    assert said(clocks_off({"head": ahead(400)}, "head", ())) == ["head: its clock is 400 s ahead of that of this host"]


def test_without_a_head_this_host_has_to_do() -> None:
    [one] = clocks_off({"w1": ahead(90), "w2": ahead(0)}, "head", ())
    assert (one.node, one.of, one.refused) == ("w1", THIS_HOST, True)


@pytest.fixture
def desired(cluster: Cluster, roles_folder: Path) -> Desired:
    return compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})


def seen(node: str, seconds: float, *, differs: bool = False) -> Observation:
    role = {"role": "client", "files": [CONF | {"path": f"/etc/client-{node}.conf"}]}
    return Observation(node, FACTS, {"client": role} if differs else {}, clock=ahead(seconds))


def test_nothing_is_planned_for_a_refused_node(cluster: Cluster, desired: Desired) -> None:
    observed = {"head": seen("head", 0), "w1": seen("w1", -90, differs=True), "w2": seen("w2", 0, differs=True)}
    plan = diff(cluster, desired, observed)
    assert plan.touched == ("w2",)
    assert list(plan.state.refused) == ["w1"]
    text = plan_text(plan)
    assert "w1 is left out: its clock is 90 s behind that of head" in text
    assert text.endswith("1 node to change: w2; unchanged: head; left out: w1.\n")


def test_the_head_is_compared_with_where_it_is_not_spoken_of(cluster: Cluster, desired: Desired) -> None:
    observed = {"w1": seen("w1", 2)}
    text = plan_text(diff(cluster, desired, observed, head=seen("head", 0)))
    assert text == "w1: its clock is 2.0 s ahead of that of head\nNothing to do on 1 node.\n"


def test_a_role_that_sets_the_clock_is_let_work(cluster: Cluster, roles_folder: Path) -> None:
    spec = roles_folder / "client" / "role.yaml"
    spec.write_text(spec.read_text() + "sets_clock: cluster.services.time.host == 'head'\n")
    wanted = compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})
    plan = diff(cluster, wanted, {"head": seen("head", 0), "w1": seen("w1", -90, differs=True)})
    assert plan.touched == ("w1",)
    assert "w1: its clock is 90 s behind that of head; it is set first" in plan_text(plan)
    still = diff(cluster, wanted, {"head": seen("head", 0), "w1": seen("w1", -90)})
    assert list(still.state.refused) == ["w1"]


@pytest.mark.parametrize(
    ("seconds", "refused"),
    [(-90, False), (-3500, False), (-3700, True), (-86_400, True), (3700, False), (80_000, False), (90_000, True)],
)
def test_a_clock_that_no_package_can_be_fetched_with_is_refused_though_one_would_set_it(
    seconds: float, refused: bool
) -> None:
    [one] = clocks_off({"head": ahead(0), "w1": ahead(seconds)}, "head", {"w1"}, {"w1"})
    assert (one.far, one.refused) == (True, refused)
    assert not clocks_off({"head": ahead(0), "w1": ahead(seconds)}, "head", {"w1"})[0].refused


@pytest.mark.parametrize(
    ("seconds", "command"), [(-86_400, "date -s '86400 seconds'"), (90_000, "date -s '90000 seconds ago'")]
)
def test_the_command_for_a_clock_is_right_whenever_it_is_run(seconds: float, command: str) -> None:
    [one] = clocks_off({"head": ahead(0), "w1": ahead(seconds, heard_s=0)}, "head", ())
    assert one.command == command
    shown = subprocess.run(
        ["sh", "-c", command.replace("-s", "+%s -d")], check=True, capture_output=True, text=True, timeout=10
    )
    assert abs(int(shown.stdout) - (time.time() - seconds)) < 5


def test_packages_to_be_fetched_are_why_a_node_with_such_a_clock_is_left_out(
    cluster: Cluster, roles_folder: Path
) -> None:
    spec = roles_folder / "client" / "role.yaml"
    spec.write_text(spec.read_text() + "sets_clock: cluster.services.time.host == 'head'\n")
    wanted = compile_desired(cluster, load_roles(roles_folder), {"munge_key": "ab" * 32})
    off = seen("w1", -86_400, differs=True)
    lacks = {"role": "client", "packages": ["clientd"]}
    plan = diff(cluster, wanted, {"head": seen("head", 0), "w1": replace(off, differs={"client": lacks})})
    assert plan.touched == ()
    text = plan_text(plan)
    assert "w1 is left out: its clock is 86,400 s behind that of head, too far for packages to be fetched" in text
    assert "run there: date -s '86400 seconds'" in text


def test_a_plan_made_before_is_not_done_where_the_clock_is_off_by_now(cluster: Cluster, desired: Desired) -> None:
    observed = {"head": seen("head", 0), "w1": seen("w1", 0, differs=True), "w2": seen("w2", 0, differs=True)}
    made = diff(cluster, desired, observed)
    now = diff(cluster, desired, {**observed, "w1": replace(observed["w1"], clock=ahead(400))})
    assert drop_nodes(made, {}, now).touched == ("w2",)
    assert list(drop_nodes(made, {}, now).state.refused) == ["w1"]
