"""Variables of roles: their declaration, their values, and the section that follows from them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from hpcforge.blueprint.variables import Variable, chosen_model, roles_model, variables_of


def variable(**facts: Any) -> Variable:
    return Variable.model_validate({"description": "Its meaning.", **facts})


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"type": "text", "list_of": "text"},
        {"type": "text", "one_of": ["a"]},
        {"type": "text", "at_least": "1"},
        {"type": "whole", "at_least": "3", "at_most": "2"},
        {"type": "whole", "at_most": "2", "default": "3"},
        {"type": "whole", "default": "1", "rehearsed": "x"},
        {"one_of": ["a", "b"], "default": "c"},
        {"list_of": "whole", "default": "1"},
        {"type": "no-such-type"},
    ],
)
def test_a_declaration_that_does_not_fit_together_is_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        variable(**facts)


@pytest.mark.parametrize(
    ("facts", "usual", "value"),
    [
        ({"type": "whole", "default": "3"}, 3, 3),
        ({"type": "number", "at_least": "0.5", "default": "1.5"}, 1.5, 1.5),
        ({"type": "duration", "default": "2h"}, "2h", 7200),
        ({"list_of": "duration", "default": ["1min", "2min"]}, ("1min", "2min"), (60, 120)),
        ({"one_of": ["a", "b"], "default": "b"}, "b", "b"),
        ({"type": "url", "default": ""}, "", ""),
    ],
)
def test_a_default_is_typed_and_given_to_templates(facts: dict[str, Any], usual: object, value: object) -> None:
    declared = variable(**facts)
    assert (declared.usual, declared.given(declared.usual), declared.required) == (usual, value, False)


def test_bounds_hold_for_each_number_of_a_list() -> None:
    declared = variable(list_of="whole", at_least="2", at_most="5")
    assert declared.typed(["2", "5"]) == (2, 5)
    with pytest.raises(ValueError):
        declared.typed(["2", "6"])


@pytest.mark.parametrize(("rehearsed", "value"), [(None, None), ("10s", 10)])
def test_a_rehearsal_may_have_a_value_of_its_own(rehearsed: str | None, value: int | None) -> None:
    assert variable(type="duration", default="2h", rehearsed=rehearsed).in_rehearsal == value


MAIL = {
    "relay": variable(type="host"),
    "sender": variable(type="text", default="root", needs="relay"),
    "copy": variable(type="whole", default="1", rehearsed="0"),  # a method of every section
}
VARIABLES = {"mail": MAIL, "web": {"port": variable(type="whole", default="80")}}
MODEL = roles_model(VARIABLES, ["plain"])


def test_values_are_by_role_and_those_without_one_are_missing() -> None:
    roles = MODEL.model_validate({"web": {"port": "8080"}})
    assert roles.by_role() == {"mail": {"sender": "root", "copy": 1}, "web": {"port": 8080}}
    assert [(role, name) for role, name, _ in roles.missing()] == [("mail", "relay")]
    assert [entry[:3] for entry in roles.unmet()] == [("mail", "sender", "relay")]
    assert roles.in_rehearsals() == {"mail": {"copy": 0}}


def test_roles_that_a_blueprint_does_not_name_have_the_same_defaults() -> None:
    data = {"web": {"port": "8080"}}
    every, chosen = MODEL.model_validate(data), roles_model(VARIABLES, ["plain"], {"web"}).model_validate(data)
    assert chosen.by_role() == every.by_role()
    assert [*chosen.missing()] == [*every.missing()]
    assert chosen.in_rehearsals() == every.in_rehearsals()
    assert chosen.said() == {"web"}


def test_a_role_or_variable_that_there_is_not_is_refused() -> None:
    for data in ({"plain": {}}, {"web": {"ports": "80"}}, {"web": {"port": "x"}}):
        with pytest.raises(ValidationError):
            MODEL.model_validate(data)
    assert list(MODEL.not_keys) == ["plain"]


def test_what_is_chosen_of_a_test_has_its_declarations() -> None:
    model = chosen_model("all_reduce", MAIL)
    assert model.__name__ == "ChosenAllReduce"
    assert model.model_validate({"relay": "a.example.org"}).by_name() == {
        "relay": "a.example.org", "sender": "root", "copy": 1,
    }  # fmt: skip


def test_a_word_stands_for_the_only_role_that_has_it() -> None:
    declared = {
        "mail": {"relay_host": MAIL["relay"], "log_days": MAIL["copy"]},
        "web": {"log_size": MAIL["copy"], "web_port": MAIL["copy"]},
    }
    assert variables_of(declared) == {"relay": "roles.mail.relay_host", "mail": "roles.mail", "web": "roles.web"}
