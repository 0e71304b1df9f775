"""The search for what would stop an apply: each subject speaks for itself, and none of them hides another."""

import sys
from types import ModuleType

import pytest

from hpcforge.node import converge, obstacles, receipt

HELD = obstacles.Conflict("client", "package", "clientd", "it is on hold", ("apt-mark unhold clientd",))
WORK = [{"role": "client", "packages": ["clientd"]}]


@pytest.fixture
def subjects(monkeypatch):
    """Two subjects: one that fails, and one that names a package on hold."""

    def subject(name, search):
        module = ModuleType(f"hpcforge.node.obstacles.{name}")
        module.search = search
        monkeypatch.setitem(sys.modules, module.__name__, module)

    subject("broken_subject", lambda host: 1 // 0)
    subject("holds", lambda host: [HELD] if host.packages() == {"clientd": "client"} else [])
    monkeypatch.setattr(obstacles, "SUBJECTS", ("broken_subject", "holds"))


def host(*roles):
    return obstacles.Inspection(roles, {role["role"]: role for role in roles}, receipt.EMPTY)


def test_a_subject_that_fails_hides_no_other(subjects, report, heard):
    assert list(obstacles.search(host(*WORK), report)) == [{**HELD._asdict(), "commands": ["apt-mark unhold clientd"]}]
    [warning] = heard
    assert warning["detail"].startswith("whether broken subject would stop an apply is not known: ")


def test_a_host_with_nothing_to_change_is_not_searched(subjects, report, heard):
    assert list(obstacles.search(host(), report)) == []
    assert heard == []


def test_a_host_that_had_no_python_is_searched_before_its_first_change(subjects, report, heard):
    assert converge._is_fit(WORK, [], receipt.EMPTY, report)
    heard.clear()  # a warning of the subject that fails
    assert not converge._is_fit([{"role": "base"}, *WORK], ["clientd"], receipt.EMPTY, report)
    assert heard[1:] == [
        {
            "event": "failed",
            "role": "client",
            "kind": "package",
            "name": "clientd",
            "error": "it is on hold\nrun there: apt-mark unhold clientd",
        },
        {"event": "skipped", "role": "base", "because": "client"},
    ]
