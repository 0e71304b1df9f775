"""What resources of all kinds have in common."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hpcforge.kinds.pins import Pin
from hpcforge.kinds.resource import ActualState, Resource
from hpcforge.kinds.timers import Timer

PIN = Pin("x", ("less",), "version 5*", 900)


@pytest.mark.parametrize(
    ("state", "drifted", "input_changed"),
    [({"put": True}, True, False), ({"put": False}, False, True), ({}, False, False)],
)
def test_a_change_is_drift_or_a_new_input_as_far_as_the_node_knows(
    state: ActualState, drifted: bool, input_changed: bool
) -> None:
    assert (PIN.drifted(state), PIN.input_changed(state)) == (drifted, input_changed)


@pytest.mark.parametrize(
    ("plain", "resource"),
    [
        ({"name": "x", "packages": ["less"], "pin": "version 5*", "priority": 900}, PIN),
        ({"name": "tidy", "command": ["/bin/true"], "calendar": "daily"}, Timer("tidy", ("/bin/true",), "daily")),
    ],
)
def test_a_resource_of_json_is_the_resource_itself(plain: ActualState, resource: Resource) -> None:
    assert type(resource).of(plain) == resource


@dataclass(frozen=True)
class Plain(Resource):
    """Of a kind in the table, without words of its own."""

    kind = "holds"
    name: str


def test_a_kind_without_words_of_its_own_has_the_name_of_its_kind() -> None:
    assert [Plain("less").line({"exists": exists}) for exists in (True, False)] == ["~ hold less", "+ hold less"]
    assert (Plain("less").named, Plain.removal_line("less")) == ("less", "hold less")
