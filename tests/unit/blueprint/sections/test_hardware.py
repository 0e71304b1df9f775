"""Entries of hardware: facts that one inherits, with their sources."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.hardware import Server, Supplies, inherit

PARENT = Server.model_validate(
    {
        "description": "A machine.",
        "sockets": 2,
        "memory_gib": 512,
        "weight_kg": 30,
        "psu": {"count": 6, "needed": 4, "rated_w": 3300, "inlet": "c20"},
        "sources": {"sockets": "data sheet", "*": "user guide"},
    }
)


def entry(**facts: object) -> Server:
    return Server.model_validate({"like": "parent", **facts})


def test_own_facts_stand_in_place_of_inherited_ones() -> None:
    own = inherit(entry(memory_gib=1024, description="Ours."), PARENT)
    assert (own.sockets, own.memory_gib, own.weight_kg) == (2, 1024, 30)
    assert (own.like, own.description) == ("parent", "Ours.")


def test_supplies_are_inherited_fact_by_fact() -> None:
    supplies = inherit(entry(psu={"count": 8}), PARENT).psu
    assert isinstance(supplies, Supplies)
    assert (supplies.count, supplies.needed, supplies.rated_w, supplies.inlet) == (8, 4, 3300, "c20")


@pytest.mark.parametrize(
    ("facts", "sources"),
    [
        ({}, {"sockets": "data sheet", "memory_gib": "user guide"}),
        ({"sockets": 1}, {"sockets": None, "memory_gib": "user guide"}),
        ({"sockets": 1, "sources": {"sockets": "counted"}}, {"sockets": "counted", "memory_gib": "user guide"}),
        ({"sockets": 1, "sources": {"*": "counted"}}, {"sockets": "counted", "memory_gib": "user guide"}),
    ],
)
def test_each_fact_keeps_its_own_source(facts: dict[str, object], sources: dict[str, str | None]) -> None:
    own = inherit(entry(**facts), PARENT)
    assert {fact: own.sources.get(fact) for fact in sources} == sources
