"""Every value that is refused is answered with what was meant, or with an example that is itself accepted."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint import inventory, values
from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections import fabrics
from hpcforge.cluster import load

CASES = Path(__file__).parent / "cases"


def patterns(kind: Any) -> Iterator[values.Matches]:
    if isinstance(kind, values.Matches):
        yield kind
    for argument in get_args(kind):
        yield from patterns(argument)


def kinds() -> Iterator[tuple[str, Any]]:
    for name, kind in vars(values).items():
        if get_origin(kind) is Annotated:
            yield name, kind


def every_pattern() -> Iterator[values.Matches]:
    yield from (values.NODE_NAME, values.RACK_NAME)
    for _, kind in kinds():
        yield from patterns(kind)
    for module in (fabrics, inventory):
        for section in vars(module).values():
            if isinstance(section, type) and issubclass(section, Section):
                for field in section.model_fields.values():
                    yield from patterns(field.annotation)
                    yield from (one for one in field.metadata if isinstance(one, values.Matches))


EVERY = {one.what: one for one in every_pattern()}


@pytest.mark.parametrize("matches", EVERY.values(), ids=list(EVERY))
def test_every_example_is_accepted(matches: values.Matches) -> None:
    for example in matches.example.split(" or "):
        assert matches.check(example) == example


def test_every_kind_of_value_is_looked_at() -> None:
    assert len(EVERY) > 20
    assert values.Duration.__metadata__[0] in EVERY.values()
    assert values.MaxTime.__metadata__[0] in EVERY.values()


@pytest.mark.parametrize(("name", "kind"), list(kinds()))
def test_a_value_that_cannot_be_is_answered_with_one_that_can(name: str, kind: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python("\x00 ?")
    [error] = refused.value.errors()
    assert error["ctx"]["hint"], name


@pytest.mark.parametrize(
    "text", ["0" * 200_000, "1,000" * 40_000, "[" * 200_000, "a-" * 100_000, "1:" * 100_000, " " * 200_000]
)
def test_long_values_are_refused_as_fast_as_short_ones(text: str) -> None:
    start = time.process_time()
    for _, kind in kinds():
        with pytest.raises(ValidationError):
            TypeAdapter(kind).validate_python(f"{text}\x00")
    assert time.process_time() - start < 2


def test_the_entry_shown_for_hardware_that_is_not_known_is_all_it_takes(tmp_path: Path) -> None:
    text = (CASES / "hardware_facts_unknown.yaml").read_text(encoding="utf-8")
    path = tmp_path / "site.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        load(path)
    [error] = refused.value.diagnostics
    shown = re.search(r"hardware: \{.*\}\}", error.hint or "")
    assert shown
    path.write_text(f"{text}{shown[0]}\n", encoding="utf-8")
    assert {worker.memory_mib for worker in load(path).cluster.nodes if worker.name != "head"} == {256 * 1024}


@pytest.mark.parametrize(
    ("mac", "right"),
    [
        ("3c:ec:ef:12:34:56", True),
        ("02:00:00:00:00:00", True),  # of a virtual machine: administered locally
        ("fe:ff:ff:ff:ff:ff", True),
        ("00:00:00:00:00:01", True),
        ("00:00:00:00:00:00", False),
        ("ff:ff:ff:ff:ff:ff", False),
        ("01:00:5e:00:00:01", False),  # IPv4 multicast, RFC 1112
        ("33:33:00:00:00:01", False),  # IPv6 multicast, RFC 2464
        ("01:80:c2:00:00:0e", False),  # LLDP, IEEE 802.1AB
    ],
)
def test_a_mac_address_is_one_that_a_port_can_have(mac: str, right: bool) -> None:
    assert values.may_be_mac_of_port(mac) is right
    if right:
        TypeAdapter(values.Mac).validate_python(mac)
        return
    with pytest.raises(ValidationError, match="no port has such a MAC address"):
        TypeAdapter(values.Mac).validate_python(mac)


@pytest.mark.parametrize(
    ("serial", "right"),
    [
        ("S213048X8A03214", True),
        ("0", False),
        ("00000000", False),
        ("Default", False),
        ("unknown", False),
        ("Not.Specified", False),
        ("not_available", False),
        ("To-be-filled-by-O.E.M.", False),
        ("System.Serial.Number", False),
        ("0123456789", False),
        ("N/A", False),
        ("1234567890123", True),
        ("DEFAULT7", True),
        ("NA123", True),
        ("OEM4711", True),
    ],
)
def test_a_serial_number_is_no_placeholder(serial: str, right: bool) -> None:
    assert values.may_be_serial(serial) is right
    if right:
        TypeAdapter(values.Serial).validate_python(serial)
        return
    with pytest.raises(ValidationError, match="placeholder"):
        TypeAdapter(values.Serial).validate_python(serial)
