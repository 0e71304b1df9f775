"""Which cards and drives machines of a lab have."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.sections.hardware import Server
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.lab.facts import planned_facts
from hpcforge.rehearsal.lab_facts import Card
from hpcforge.rehearsal.node_choice import cards, drives
from hpcforge.rehearsal.stand_in_rules import RULES
from hpcforge.rehearsal.stand_ins import rehearsed

WIRED = Path(__file__).parents[1] / "roles" / "blueprints" / "networks.yaml"


@pytest.fixture(scope="module")
def wired() -> Cluster:
    return load(WIRED).cluster


def test_a_machine_has_a_card_for_each_link_by_the_name_of_its_port(wired: Cluster) -> None:
    head, worker = (cards(wired, wired.by_name[node]) for node in ("head", "w01"))
    assert head == (Card("ens1f0"), Card("ens1f1"), Card("eno2", "eno2"))
    assert worker == (Card("ens1f0"), Card("ens1f1"), Card("", "storage"), Card("", "storage"))


def test_a_machine_has_as_many_drives_as_its_hardware_declares() -> None:
    declared = ("2 x 1.92TB", "4 x u2-nvme-7680")
    assert drives(Server.model_construct(nvme=declared)) == 6
    assert drives(Server.model_construct(nvme=("24 x 15.36TB",))) == 8
    assert drives(Server.model_construct(nvme=())) == 0


def test_stand_ins_of_a_real_site_are_left_as_they_are(wired: Cluster) -> None:
    facts = planned_facts(list(wired.by_name), "ops", "10.77.0.0/24")
    stand_in, _ = rehearsed(wired, facts, RULES)
    assert not any(stand_in.interfaces(node) for node in stand_in.nodes)
