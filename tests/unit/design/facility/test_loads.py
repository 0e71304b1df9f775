"""Loads of a rack: supplies on PDUs and phases, with all feeds and with one lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.blueprint.sections.hardware import Supplies
from hpcforge.design.facility.layout import Item
from hpcforge.design.facility.loads import alike_as, load_racks, phase_count, rack_load
from hpcforge.design.facility.room import Load, Rack
from tests.unit.design.facility.designs import CASES, loaded

PLACED = loaded(CASES / "valid.yaml").placed
RACK = PLACED.room.racks["r1"]  # of a three-phase PDU on feed A and one on feed B


def machine(supplies: int | None, *, u: int = 1, needed: int = 1, power_w: float | None = 600.0) -> Item:
    psu = Supplies(count=supplies, needed=needed, inlet="c20") if supplies else None
    return Item("m", "equipment", Load("m", power_w, psu, 10.0), u, 1, "given")


@pytest.mark.parametrize(
    ("supplies", "phases"),
    [
        (2, ((600, 0, 0), (0, 600, 0))),
        (1, ((1200, 0, 0), (0, 0, 0))),
        (4, ((300, 300, 0), (0, 300, 300))),
        (None, ((200, 200, 200), (200, 200, 200))),  # of one whose supplies are not known
    ],
)
def test_supplies_share_a_load_and_take_pdus_and_phases_in_turn(
    supplies: int | None, phases: tuple[tuple[float, ...], ...]
) -> None:
    load = rack_load(RACK, (machine(supplies, power_w=1200.0),))
    assert [pytest.approx(each) for each in load.phases] == list(phases)
    assert sum(load.pdu_w) == pytest.approx(load.power_w) == pytest.approx(1200)


def test_the_next_machine_begins_at_the_next_pdu() -> None:
    load = rack_load(RACK, (machine(1, u=1), machine(1, u=2)))
    assert load.pdu_w == (600, 600)


def test_with_a_feed_lost_the_others_carry_what_is_left() -> None:
    load = rack_load(RACK, (machine(2),))
    assert [sum(pdu) for pdu in load.lost["A"]] == [0, 600]
    assert load.without_another(1, "B") == [load.lost["A"][1]]
    alone = rack_load(RACK, (machine(1),))
    assert [sum(pdu) for pdu in alone.lost["A"]] == [0, 0]  # it stands still


@pytest.mark.parametrize(("supplies", "needed", "alive"), [(2, 1, None), (2, 2, 1), (3, 2, 1), (4, 2, None), (6, 4, 3)])
def test_a_machine_is_stranded_where_a_feed_takes_too_many_supplies(
    supplies: int, needed: int, alive: int | None
) -> None:
    load = rack_load(RACK, (machine(supplies, needed=needed),))
    assert [(each.left, each.needed, each.count) for each in load.stranded] == (
        [(alive, needed, supplies)] if alive is not None else []
    )


def test_what_is_not_known_is_named_once_and_the_rest_counted() -> None:
    load = rack_load(RACK, (machine(None, power_w=None), machine(None, power_w=None, u=2), machine(2, u=3)))
    assert (load.power_unknown, load.inlets_unknown, load.supplies_unknown) == (("m",), ("m",), ("m",))
    assert (load.power_w, load.weight_kg) == (600, 3 * 10 + 2 * 10)  # with the PDUs
    assert [dict(inlets) for inlets in load.inlets] == [{"c20": 1}, {"c20": 1}]


def test_plugs_of_the_next_rack_are_turned_by_one_phase() -> None:
    load = rack_load(replace(RACK, ordinal=1), (machine(2),))
    assert load.phases == ((0, 300, 0), (0, 0, 300))


@pytest.mark.parametrize(("weight_kg", "unknown"), [(10, ()), (None, ("our-pdu",))])
def test_the_weight_of_pdus_counts(weight_kg: float | None, unknown: tuple[str, ...]) -> None:
    assert RACK.pdu
    load = rack_load(replace(RACK, pdu=RACK.pdu.model_copy(update={"weight_kg": weight_kg})), (machine(2),))
    assert (load.weight_kg, load.weight_unknown) == (10 + 2 * (weight_kg or 0), unknown)


def test_racks_that_are_alike_have_one_load() -> None:
    first, second = load_racks(PLACED.room, PLACED.layout)
    assert first.load.pdu_w == pytest.approx((6000, 6000))
    assert alike_as(first.rack, first.items) != alike_as(second.rack, second.items)  # its plugs are turned by one
    assert alike_as(first.rack, first.items) == alike_as(replace(second.rack, ordinal=3), first.items)


def test_phases_count_where_the_wiring_is_known() -> None:
    def with_pdu(**facts: object) -> Rack:
        assert RACK.pdu
        return replace(RACK, pdu=RACK.pdu.model_copy(update=facts))

    racks = (RACK, with_pdu(wiring=None), with_pdu(phases=1), replace(RACK, pdu=None))
    assert [phase_count(rack) for rack in racks] == [
        3, 1, 1, 1,
    ]  # fmt: skip
