"""Types of values that roles let a blueprint choose."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint.value_types import MAY_BE_EMPTY, TYPES, TypeName, list_of

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQIN=\n-----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.mark.parametrize(
    ("type_", "right", "wrong"),
    [
        ("path", "/srv/a@b", "/srv/../etc"),
        ("path", "/", "srv"),
        ("path", "/srv/..a", "/srv/."),
        ("certificates", PEM + PEM, PEM + "more\n"),
        ("certificates", "", PEM.rstrip("\n")),
        ("pgp_key", KEY, KEY + KEY),
        ("kernel_argument", "iommu=pt", "root=/dev/sda"),
        ("kernel_argument", "rootwait", "ro"),
        ("kernel_argument", "systemd.unified_cgroup_hierarchy=1", "systemd.unit=rescue.target"),
        ("kernel_argument", "init_on_alloc=1", "init=/bin/sh"),
        ("ports", "80", "0"),
        ("ports", "1-65535", "1-65536"),
        ("ports", "8000-8000", "9000-8000"),
        ("host_port", "mail.example.org:587", "mail.example.org"),
        ("host_port", "10.0.0.1:1", "10.0.0.1:0"),
        ("host_port", "a:65535", "-a:80"),
        ("mail_address", "ops@example.org", "ops"),
        ("url", "https://[fd00::1]/x", "ftp://a"),
        ("key", "PrologFlags", "1st"),
        ("setting", "a,b = c", "a # b"),
        ("comment", "metrics for the site", 'a "b"'),
        ("truth", "true", "maybe"),
        ("whole", "10", "010"),
    ],
)
def test_a_value_has_the_form_of_its_type(type_: TypeName, right: str, wrong: str) -> None:
    adapter = TypeAdapter(TYPES[type_].written)
    adapter.validate_python(right)
    with pytest.raises(ValidationError):
        adapter.validate_python(wrong)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10min", 600), ("2h", 7200)])
def test_templates_get_times_in_seconds(text: str, seconds: int) -> None:
    assert TYPES["duration"].given(text) == seconds


def test_other_values_are_given_as_they_are_written() -> None:
    assert {name: TYPES[name].given("x") for name in ("text", "path", *MAY_BE_EMPTY)} == dict.fromkeys(
        ("text", "path", *MAY_BE_EMPTY), "x"
    )


def test_a_list_has_values_of_one_type() -> None:
    adapter = TypeAdapter(list_of(TYPES["ports"].written))
    assert adapter.validate_python(["80", "90-99"]) == ("80", "90-99")
    with pytest.raises(ValidationError):
        adapter.validate_python(["80", "x"])
