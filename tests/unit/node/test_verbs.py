"""The table of verbs: what answers a request, and which requests are refused."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from hpcforge.node.events import NodeError
from hpcforge.node.verbs import LASTING, VERBS, checked, of_kind, verb_of, with_kinds


@pytest.mark.parametrize(
    ("request_", "module"),
    [
        ({"verb": "observe"}, "observe"),
        ({"verb": "converge", "phase": "remove"}, "remove"),
        ({"verb": "lease", "do": "drop"}, "lease"),
        ({"verb": "log", "do": "read"}, "head_records"),
    ],
)
def test_a_request_is_answered_by_its_row(request_: dict[str, str], module: str) -> None:
    assert verb_of(request_).module == module


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"verb": "destroy"},
        {"verb": "converge"},
        {"verb": "converge", "phase": "x"},
        {"verb": ["observe"]},
        [],
        None,
    ],
)
def test_an_unknown_request_is_refused(request_: Any) -> None:
    with pytest.raises(NodeError):
        checked(request_)


@pytest.mark.parametrize(
    ("request_", "right"),
    [
        ({"verb": "stop"}, True),
        ({"verb": "stop", "timeout_s": 5.0}, True),
        ({"verb": "stop", "timeout_s": "soon"}, False),
        ({"verb": "stop", "more": 1}, False),
        ({"verb": "attach", "task": "t", "after": "x"}, False),
        ({"verb": "attach", "task": "t", "after": 0}, True),
    ],
)
def test_a_request_is_held_to_its_form(request_: dict[str, object], right: bool) -> None:
    if right:
        assert checked(request_) is request_
        return
    with pytest.raises(NodeError):
        checked(request_)


@pytest.mark.parametrize("verb", VERBS.values(), ids=["-".join(filter(None, row)) for row in VERBS])
def test_each_row_has_its_function(verb: Any) -> None:
    assert callable(getattr(importlib.import_module(f"hpcforge.node.{verb.module}"), verb.function))


def test_only_what_changes_a_node_lasts() -> None:
    assert {"converge", "record"} == LASTING


def test_kinds_of_a_role_are_under_their_names() -> None:
    role = with_kinds({"role": "a"}, {"files": ["/etc/x"]})
    assert (of_kind(role, "files"), of_kind(role, "links")) == (["/etc/x"], ())
