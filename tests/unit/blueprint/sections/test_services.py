"""Services of a blueprint, as roles offer them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hpcforge.blueprint.sections.services import ListValue, Offer, has_directory, services_model
from tests.unit.blueprint.drafts import draft

HOSTS = ListValue(list_of="host", description="Hosts.")
MODEL = services_model(
    {
        "cache": Offer(description="A cache."),
        "names": Offer(description="DNS.", external=HOSTS, options={"forward": HOSTS}, required=True),
    }
)


def test_required_services_come_first_and_others_may_be_absent() -> None:
    assert list(MODEL.model_fields) == ["names", "cache"]
    services = MODEL.model_validate({"names": {"on": "head", "forward": ["10.0.0.1"]}})
    assert list(services.by_name()) == ["names"]
    names = services.by_name()["names"]
    assert (names.on_set, names.outside, names.forward) == ("head", (), ("10.0.0.1",))


def test_a_service_of_the_site_runs_on_no_node() -> None:
    names = MODEL.model_validate({"names": {"external": ["10.0.0.1"]}}).by_name()["names"]
    assert (names.on_set, names.outside) == (None, ("10.0.0.1",))


@pytest.mark.parametrize(
    "services",
    [
        {},
        {"cache": {"on": "head"}},
        {"names": {"on": "head"}, "cache": {"external": ["10.0.0.1"]}},  # no other service replaces it
        {"names": {"on": "head"}, "cache": {}},
        {"names": {"on": "head", "forward": ["not a host"]}},
        {"names": {"on": "head"}, "more": {"on": "head"}},
    ],
)
def test_what_no_role_offers_is_refused(services: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MODEL.model_validate(services)


@pytest.mark.parametrize(("external", "result"), [("", False), (", directory: {external: [ldap.example.org]}", True)])
def test_people_may_be_in_a_directory(external: str, result: bool) -> None:
    assert has_directory(draft(("time: {on: head}", f"time: {{on: head}}{external}"))) is result
