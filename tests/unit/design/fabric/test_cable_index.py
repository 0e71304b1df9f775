"""Every cable as drawn, by its ports."""

from __future__ import annotations

import pytest

from hpcforge.design.fabric.cable_index import CableEnds, PortName
from tests.support.as_plugged import drawn
from tests.unit.design.fabric import hand

DESIGN = drawn(hand.two_rails())
RAIL, PORT = PortName("gpu001", "compute rail 1"), PortName("compute-leaf-001", "1")
SPARE, STRANGE = PortName("compute-leaf-001", "3"), PortName("nas", "1")


def leaf(port: str, number: int = 1) -> PortName:
    return PortName(f"compute-leaf-00{number}", port)


def spine(port: str) -> PortName:
    return PortName("compute-spine-001", port)


def test_ports_are_named_within_the_site() -> None:
    assert (str(RAIL), str(PORT)) == ("gpu001 compute rail 1", "compute-leaf-001 port 1")
    assert str(CableEnds(RAIL, PORT)) == f"{RAIL} -- {PORT}"
    assert CableEnds(RAIL, PORT).other(PORT) == RAIL


def test_a_port_leads_to_the_other_end_of_its_cable_and_back() -> None:
    assert (DESIGN.peer[RAIL], DESIGN.peer[PORT]) == (PORT, RAIL)
    assert DESIGN.links[DESIGN.number[PORT]] == CableEnds(RAIL, PORT)
    assert len(DESIGN.links) == 8


@pytest.mark.parametrize(
    ("port", "bundle"),
    [
        (PORT, ("gpu001", "compute-leaf-001")),
        (leaf("6"), ("compute-leaf-001", "compute-spine-001")),
        (SPARE, None),
        (STRANGE, None),
    ],
)
def test_parallel_cables_are_a_bundle(port: PortName, bundle: tuple[str, str] | None) -> None:
    assert DESIGN.bundle_of(port) == bundle


@pytest.mark.parametrize(
    ("ends", "right"),
    [
        ((leaf("5"), spine("1")), True),
        ((leaf("5"), spine("2")), True),  # the other cable of its bundle
        ((spine("2"), leaf("5")), True),
        ((leaf("5"), spine("3")), False),  # of the other leaf
        ((leaf("5"), leaf("6")), False),
        ((SPARE, STRANGE), False),
    ],
)
def test_a_cable_between_two_devices_is_right_in_any_place_of_its_bundle(
    ends: tuple[PortName, PortName], right: bool
) -> None:
    assert DESIGN.right(CableEnds(*ends)) is right


@pytest.mark.parametrize(
    ("ends", "fabric"), [((STRANGE, PORT), "compute"), ((PORT, STRANGE), "compute"), ((SPARE, STRANGE), None)]
)
def test_a_cable_is_in_the_fabric_of_a_port_that_is_drawn(ends: tuple[PortName, PortName], fabric: str | None) -> None:
    assert DESIGN.fabric(CableEnds(*ends)) == fabric


def test_labels_are_in_the_order_of_the_ends() -> None:
    text, far = DESIGN.labels(CableEnds(RAIL, PORT))
    assert DESIGN.labels(CableEnds(PORT, RAIL)) == (far, text)
    assert [part.partition(" | ")[0] for part in (text, far)] == ["compute-leaf-001:1"] * 2
    with pytest.raises(KeyError):
        DESIGN.labels(CableEnds(SPARE, STRANGE))


def test_nodes_are_ends_and_switches_are_not() -> None:
    assert [DESIGN.is_end(name) for name in ("gpu001", "compute-leaf-001", "nas")] == [True, False, False]
