"""Hints from the schema: for values of the wrong kind and for unknown keys."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.blueprint.schema_hints import bounds, description, renamed_keys, rewritten, unknown_key
from tests.unit.blueprint.drafts import model


@pytest.mark.parametrize(
    ("loc", "value", "hint"),
    [
        (("slurm", "enforce"), "cores, memory", "Write `[cores, memory]`."),
        (("slurm", "enforce"), "-cores -memory", "Write a space after each hyphen: `- cores`."),
        (("access",), "ops", "Write `access: {user: ops}`."),
        (("access",), ["ops"], "Write `access: {user: ...}`."),
        (("software", "os"), "debian", "Write `os: {name: debian, release: ...}`."),
        (("networks",), "10.0.0.0/24", "Write `networks: {NAME: {cidr: ...}}`."),
        (("name",), ["lake"], "Write `lake`, without brackets."),
        (("slurm", "controller"), ["a", "b"], 'Write `"a,b"`, without brackets.'),
        (("name",), {"a": "b"}, None),
    ],
)
def test_a_value_of_the_wrong_kind_is_rewritten(loc: tuple[str, ...], value: Any, hint: str | None) -> None:
    assert rewritten(model(), loc, value) == hint


@pytest.mark.parametrize(
    ("loc", "data", "key"),
    [
        (("acess",), {"acess": {}}, "access"),
        (("slurm", "control"), {"slurm": {"control": "x"}}, "controller"),  # a part of one key alone
        (("access", "user:ops"), {"access": {"user:ops": None}}, "user"),
        (("access", "user ops"), {"access": {"user ops": None}}, "user"),
        (("access", "zzz"), {"access": {"zzz": "1"}}, None),
    ],
)
def test_an_unknown_key_is_answered_with_the_one_it_was_meant_to_be(
    loc: tuple[str, ...], data: dict[str, Any], key: str | None
) -> None:
    hint, right = unknown_key(model(), loc, data)
    assert right == key
    assert hint and (key is None or key in hint)


def test_a_text_that_a_comma_has_cut_is_quoted() -> None:
    data = {"overrides": {"w01": {"reason": "RMA 12", "two DIMMs": None}}}
    hint, _ = unknown_key(model(), ("overrides", "w01", "two DIMMs"), data)
    assert hint == 'write `reason: "RMA 12, two DIMMs"`, if this belongs to it'


@pytest.mark.parametrize(
    ("section", "old", "new"), [("software", "present", "preinstalled"), ("rollout", "at_most", "max_parallel")]
)
def test_old_names_of_keys_lead_to_new_ones(section: str, old: str, new: str) -> None:
    assert renamed_keys()[old] == new
    assert unknown_key(model(), (section, old), {section: {old: "x"}}) == (f"did you mean `{new}`?", new)


@pytest.mark.parametrize(
    ("loc", "text"),
    [
        (("users", "ada", "uid"), "a number from 1000 to 59999"),
        (("slurm", "qos", "high", "priority"), "a number from 0 on"),
        (("slurm", "reserve", "memory_gib"), None),
    ],
)
def test_bounds_are_those_of_the_field(loc: tuple[str, ...], text: str | None) -> None:
    assert text is None or bounds(model(), loc) == text


def test_a_key_has_the_description_of_the_schema() -> None:
    assert (description(model(), ("access", "user")) or "").endswith(".")
    assert description(model(), ("access", "nosuch")) is None
    assert description(model(), ("nosuch", "user")) is None
