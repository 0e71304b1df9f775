"""Drivers that are installed or brought, licences, and what roles let a blueprint choose."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.software import software_findings, software_model, variable_findings
from hpcforge.blueprint.variables import Variable, roles_model
from hpcforge.frameworks import FRAMEWORKS
from tests.unit.blueprint.drafts import draft, errors, places

OS = 'os: {name: debian, release: "12"}'
DRIVER = "nvidia: {driver: 535.261.03, modules: open}"
SOURCE = "sources: {nvidia: {key: k.asc, licence_accepted: true}}"


@pytest.mark.parametrize(
    ("software", "wrong"),
    [
        ([DRIVER], []),
        ([DRIVER, SOURCE], []),
        ([SOURCE], errors("software.sources.nvidia")),  # nothing comes from there
        ([DRIVER, "sources: {nvidia: {key: k.asc}}"], errors("software.sources.nvidia")),
        ([DRIVER, "preinstalled: {driver: 535.261.03}"], errors("software.preinstalled.driver")),
        ([DRIVER, "preinstalled: {fabric_manager: matched}"], []),
        ([DRIVER, SOURCE, "preinstalled: {fabric_manager: matched}"], errors("software.preinstalled.fabric_manager")),
        (["preinstalled: {driver: 535.261}"], [("software.preinstalled.driver", "warning")]),
        (["preinstalled: {driver: 495.46}"], []),
        (["preinstalled: {driver: x}"], []),  # its form is wrong: no more is said
    ],
)
def test_what_is_installed_is_not_brought_and_licences_are_accepted(
    software: list[str], wrong: list[tuple[str, str]]
) -> None:
    lines = "\n  ".join([OS, *software])
    assert places(software_findings(draft((OS, lines)))) == wrong


def test_a_variable_needs_the_ones_that_its_role_names() -> None:
    declared = {
        "mail": {
            "relay": Variable(type="host", description="A host."),
            "sender": Variable(type="text", needs="relay", default="x", description="Who."),
        }
    }
    blueprint = draft()
    for chosen, wrong in (({}, errors("roles.mail.sender")), ({"relay": "a.example.org"}, [])):
        roles = roles_model(declared, ()).model_validate({"mail": chosen})
        blueprint.sections["roles"] = roles
        assert places(variable_findings(blueprint)) == wrong


def test_runtimes_of_containers_are_those_of_roles() -> None:
    model = software_model(("apptainer", "enroot"))
    system = {"os": {"name": "debian", "release": "12"}}
    software = model.model_validate({**system, "containers": {"runtimes": ["enroot"]}})
    assert software.containers.runtimes == ("enroot",)
    with pytest.raises(ValueError, match="apptainer"):
        model.model_validate({**system, "containers": {"runtimes": ["docker"]}})


def test_frameworks_beside_pytorch_are_those_of_the_table() -> None:
    name = next(iter(FRAMEWORKS))
    system = {"os": {"name": "debian", "release": "12"}}
    software = software_model(()).model_validate({**system, "frameworks": {name: "1.0", "pytorch": ["2.1"]}})
    assert software.frameworks.others() == {name: ("1.0",)}
    assert software.frameworks.pytorch == ("2.1",)
