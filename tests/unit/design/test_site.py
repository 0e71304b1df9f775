"""A blueprint's design as one value: fabrics, places, power and the table of rules."""

from __future__ import annotations

from hpcforge.cluster import load
from hpcforge.design.site import RULES, place_site
from tests.unit.design.facility.designs import shipped


def test_each_machine_has_its_place_and_each_feed_its_racks() -> None:
    loaded = load(shipped("dgx-h100-unit"), None)
    site = place_site(loaded.blueprint, loaded.catalog)
    assert {node.name for node in loaded.cluster.nodes} == {*site.positions}
    assert site.positions == loaded.placed.positions
    assert [cabling.fabric.name for cabling in site.cables] == [fabric.name for fabric in site.fabrics]
    for feed in site.power_feeds:
        assert feed.shares.keys() <= site.room.racks.keys()


def test_all_nodes_start_and_work_in_turns() -> None:
    loaded = load(shipped("dgx-h100-unit"), None)
    names = [node.name for node in loaded.cluster.nodes]
    started = loaded.placed.start_turns((), names)
    assert sorted(node for turn in started.turns for node in turn) == sorted(names)
    assert not started.refused
    assert sorted(node for turn in loaded.placed.work_turns(names) for node in turn) == sorted(names)


def test_the_table_has_the_rules_of_rooms_fabrics_and_storage() -> None:
    assert {"POWER-003", "FABRIC-003", "CABLE-001", "STORAGE-001"} <= RULES.keys()
    assert all(rule.code == code for code, rule in RULES.items())
