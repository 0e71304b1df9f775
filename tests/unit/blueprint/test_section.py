"""Mappings of files: keys without a value, sections that are built late, and their JSON Schema."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field, ValidationError

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import LazySection, Section, schema_of


class Rack(Section):
    """A rack."""

    name_: str = Field("r1", alias="name", description="Its name.")
    units: v.Whole = Field(42, ge=1, le=60, description="Its height.")


class Room(Section):
    """A room."""

    rack: Annotated[Rack | None, LazySection()] = Field(None, description="Its rack.")
    racks: Annotated[dict[str, Rack], LazySection()] = Field({}, description="More.")


@pytest.mark.parametrize("data", [{}, {"units": None}, {"name": None, "units": None}])
def test_a_key_without_a_value_counts_as_absent(data: dict[str, None]) -> None:
    assert Rack.model_validate(data) == Rack()


@pytest.mark.parametrize("data", [{"unit": None}, {"name_": "a"}, {"units": "61"}])
def test_unknown_keys_and_values_out_of_bounds_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Rack.model_validate(data)


def test_a_late_section_checks_its_values_all_the_same() -> None:
    room = Room.model_validate({"rack": {"units": "10"}, "racks": {"a": {}}})
    assert room.rack == Rack(units=10)
    assert room.racks == {"a": Rack()}
    with pytest.raises(ValidationError) as refused:
        Room.model_validate({"racks": {"a": {"units": "0"}}})
    assert refused.value.errors()[0]["loc"] == ("racks", "a", "units")


def test_the_schema_has_bounds_and_types_of_late_sections() -> None:
    schema = schema_of(Room, "rooms")
    assert (schema["title"], schema["additionalProperties"]) == ("rooms", False)
    units = schema["$defs"]["Rack"]["properties"]["units"]
    assert (units["minimum"], units["maximum"]) == (1, 60)
    assert "name" in schema["$defs"]["Rack"]["properties"]
    assert schema["properties"]["racks"]["additionalProperties"] == {"$ref": "#/$defs/Rack"}
