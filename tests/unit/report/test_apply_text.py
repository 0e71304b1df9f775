"""The table after an apply: each node once, with the worst that is to be said of it."""

from __future__ import annotations

import re

import pytest

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.plan.admission import Shortfall
from hpcforge.plan.plan import Kept, Leaving
from hpcforge.report.apply_text import next_steps, nodes_table
from hpcforge.report.plan_text import stays_text
from hpcforge.run.result import Admission, RoleOutcome, RunResult
from tests.support.plans import plan_with

DONE = RoleOutcome("done")


def test_each_node_once_and_those_with_the_same_story_together() -> None:
    plan = plan_with(
        "c",
        tuple(f"w{index}" for index in range(1, 10)),
        controller="w1",
        leaving=(
            *(Leaving(name, "10.0.0.20", True, None, ()) for name in ("w20", "w22", "w23")),
            Leaving("w21", "10.0.0.21", True, "no route", ()),
        ),
    )
    result = RunResult(
        outcomes={
            "w1": {"base": DONE},
            "w2": {"base": DONE},
            "w4": {"base": DONE, "munge": RoleOutcome("failed", "no space")},
            "w5": {"base": RoleOutcome("deferred", "jobs still run there: 12")},
            "w6": {"base": RoleOutcome("unreachable", "link lost")},
            "w7": {
                "base": DONE,
                "munge": RoleOutcome("skipped", "munge on w1 failed"),
                "slurm": RoleOutcome("skipped", "x"),
            },
            "w8": {"base": DONE},
            **{name: {"base (removed)": DONE} for name in ("w20", "w22", "w23")},
            "w21": {"base (removed)": RoleOutcome("unreachable", "no route")},
        },
        lost={"w6": "link lost", "elsewhere": "not of this plan"},
        abandoned={"w21": "no route"},
        stays={"w20": (Kept("path", ("/etc/hosts",), "its name"),), "w22": ()},
    )
    short = Shortfall("w8", "CPUs", "2", "1", "w8: {sockets: 1}")
    admission = Admission((short,), (), {"w8": "idle+drain: hpcforge: CPUs", "w9": "down: Kernel panic"}, None)
    lines = nodes_table(plan, result, admission).splitlines()[1:]
    rows = [re.split(" {2,}", line.strip(), maxsplit=2) for line in lines]
    assert rows == [
        ["w[1-2]", "configured"],
        ["w3", "unchanged"],
        ["w4", "failed", "munge: no space"],
        ["w5", "deferred", "jobs still run there: 12; apply again later"],
        ["w6", "unreachable", "link lost"],
        ["w7", "skipped", "munge, slurm (munge on w1 failed)"],
        ["w8", "drained", "CPUs 1, declared 2; to accept it, under overrides:  w8: {sockets: 1}"],
        ["w9", "not scheduled", "down: Kernel panic"],
        ["w20", "left", "cleaned; the remains are below"],
        ["w22", "left", "cleaned; nothing of hpcforge's stays"],
        ["w23", "left", "nothing of hpcforge's is recorded there: an earlier run may have cleaned it"],
        [
            "w21",
            "left behind",
            "the cluster has forgotten it (no route), but it keeps its keys: "
            "`secrets rotate BLUEPRINT munge_key` and an apply make them void; its host certificate ends "
            "within 180 days, and ssh on the nodes refuses it from now on",
        ],
    ]


def test_a_reason_of_several_roles_is_shown_once() -> None:
    why = {"base": "disk full", "munge": "disk full", "slurm": "no unit"}
    failed = RunResult({"w1": {role: RoleOutcome("failed", text) for role, text in why.items()}})
    table = nodes_table(plan_with("c", ("w1",), controller="w1"), failed, None)
    assert table.splitlines()[1].split(maxsplit=2) == ["w1", "failed", "base, munge: disk full; slurm: no unit"]


REHEARSAL = bundled.root() / "blueprints" / "rehearsal.yaml"
PARTITIONS = """\
    whole: {nodes: all}
    main: {nodes: "w[01-02]", default: true}
"""


def job(out: dict[str, str], *edits: tuple[str, str]) -> str | None:
    """The line on how to run a job, of the rehearsal with two partitions and `edits`, with nodes `out` of service."""
    text = REHEARSAL.read_text()
    shipped_one = '    main: {nodes: "w[01-03]", default: true, max_time: "01:00:00"}\n'
    for old, new in ((shipped_one, PARTITIONS), *edits):
        assert old in text
        text = text.replace(old, new)
    cluster = load(REHEARSAL, instead={REHEARSAL: text}).cluster
    said = next_steps(cluster, "VERIFY", ("SSH", "DOWN"), Admission((), (), out, None))
    steps = dict(line.split(":", 1) for line in said.splitlines())
    assert list(steps) == ["log in", "run a job", "test again", "take down"]
    return steps["run a job"].strip()


TESTS = REHEARSAL.read_text()[REHEARSAL.read_text().index("acceptance:") :]
PEOPLE = REHEARSAL.read_text().partition("users:\n")[2].partition("\nacceptance:")[0]


@pytest.mark.parametrize(
    ("out", "edits", "expected"),
    [
        ({}, [], "SSH head -- sudo -iu tests srun -N2 hostname"),  # three workers, two in the default partition
        ({"w02": "idle+drain: disk"}, [], "SSH head -- sudo -iu tests srun -N1 hostname"),
        ({"w03": "down"}, [], "SSH head -- sudo -iu tests srun -N2 hostname"),
        ({}, [(", default: true", "")], "SSH head -- sudo -iu tests srun -p whole -N3 hostname"),
        ({}, [("become: sudo", "become: none")], "SSH head -- runuser -u tests -- srun -N2 hostname"),
        (
            {"w01": "down", "w02": "down"},
            [],
            "not yet: no node of partition main is in service",
        ),
        ({}, [(TESTS, "")], "SSH head -- sudo -iu tests srun -N2 hostname"),  # ada is an administrator
        ({}, [(TESTS, ""), ("  tests: {uid: 2002}", "")], "SSH head -- sudo -iu ada srun -N2 hostname"),
        (
            {},
            [(TESTS, ""), (f"users:\n{PEOPLE}", "")],
            "not yet: the blueprint has no user; add one and apply:  users: {ada: {uid: 2001}}",
        ),
    ],
)
def test_the_job_that_is_offered_can_run(out: dict[str, str], edits: list[tuple[str, str]], expected: str) -> None:
    assert job(out, *edits) == expected


def test_no_job_is_offered_where_it_is_not_known_who_is_in_service() -> None:
    cluster = load(REHEARSAL).cluster
    for admission in (None, Admission((), (), {}, "scontrol: Unable to contact slurm controller")):
        assert (
            next_steps(cluster, "VERIFY", None, admission) == "log in:       ssh ops@10.77.0.10\ntest again:   VERIFY\n"
        )
    assert "run a job:    ssh ops@10.77.0.10 sudo -iu tests srun -N3 hostname\n" in next_steps(
        cluster, "VERIFY", None, Admission((), (), {}, None)
    )


def test_a_kind_that_is_several_has_no_other_plural() -> None:
    words = Kept("kernel arguments", ("site", "tuning"), "they run")
    assert stays_text({"w1": (words,)}) == "stays on w1:\n  kernel arguments site tuning: they run\n"


def test_what_stays_is_said_by_node_and_reason() -> None:
    packages = [Kept("package", names, "nobody removes them") for names in (("munge", "slurmd"), ("munge", "chrony"))]
    hosts = Kept("path", ("/etc/hosts",), "its name")
    stays = {
        "w1": (*packages, hosts),
        "w2": (*packages, hosts),
        "w3": (Kept("directory", ("/a", "/b"), "full"),),
        "w4": (),
    }
    assert stays_text(stays) == (
        "stays on w[1-2]:\n  packages munge slurmd chrony: nobody removes them\n  /etc/hosts: its name\n"
        "stays on w3:\n  directories /a /b: full\n"
    )
    assert stays_text({"w4": ()}) == ""
