"""The table after an apply: each node once, with the worst that is to be said of it."""

from __future__ import annotations

import re

from hpcforge.plan.admission import Shortfall
from hpcforge.plan.plan import Leaving, Plan, Stays
from hpcforge.report.apply_text import nodes_table
from hpcforge.report.stays_text import stays_text
from hpcforge.run.admit import Admission
from hpcforge.run.result import Outcome, Result

DONE = Outcome("done")


def test_each_node_once_and_those_with_the_same_story_together() -> None:
    plan = Plan(
        cluster="c",
        nodes=tuple(f"w{index}" for index in range(1, 10)),
        steps=(),
        first_contact=(),
        unreachable={},
        controller="w1",
        declared=(),
        shortfalls=(),
        drains=(),
        texts={},
        leaving=(
            *(Leaving(name, "10.0.0.20", True, None, ()) for name in ("w20", "w22", "w23")),
            Leaving("w21", "10.0.0.21", True, "no route", ()),
        ),
    )
    result = Result(
        outcomes={
            "w1": {"base": DONE},
            "w2": {"base": DONE},
            "w4": {"base": DONE, "munge": Outcome("failed", "no space")},
            "w5": {"base": Outcome("deferred", "jobs still run there: 12")},
            "w6": {"base": Outcome("unreachable", "link lost")},
            "w7": {"base": DONE, "munge": Outcome("skipped", "munge on w1 failed"), "slurm": Outcome("skipped", "x")},
            "w8": {"base": DONE},
            **{name: {"base (removed)": DONE} for name in ("w20", "w22", "w23")},
            "w21": {"base (removed)": Outcome("unreachable", "no route")},
        },
        lost={"w6": "link lost", "elsewhere": "not of this plan"},
        abandoned={"w21": "no route"},
        stays={"w20": (Stays("path", ("/etc/hosts",), "its name"),), "w22": ()},
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
        ["w20", "left", "cleaned; what stays there is below"],
        ["w22", "left", "cleaned; nothing that hpcforge put there stays"],
        ["w23", "left", "nothing of hpcforge's was known there: an earlier run may have cleaned it"],
        [
            "w21",
            "left behind",
            "the cluster has forgotten it (no route), but it keeps its keys: "
            "`secrets rotate BLUEPRINT munge_key` and an apply make them void; its host certificate ends "
            "within 180 days, and ssh on the nodes refuses it from now on",
        ],
    ]


def test_what_stays_is_said_by_node_and_reason() -> None:
    packages = [Stays("package", names, "nobody removes them") for names in (("munge", "slurmd"), ("munge", "chrony"))]
    hosts = Stays("path", ("/etc/hosts",), "its name")
    stays = {
        "w1": (*packages, hosts),
        "w2": (*packages, hosts),
        "w3": (Stays("directory", ("/a", "/b"), "full"),),
        "w4": (),
    }
    assert stays_text(stays) == (
        "stays on w[1-2]:\n  packages munge slurmd chrony: nobody removes them\n  /etc/hosts: its name\n"
        "stays on w3:\n  directories /a /b: full\n"
    )
    assert stays_text({"w4": ()}) == ""
