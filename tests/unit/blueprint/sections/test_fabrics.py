"""Keys of fabrics: those that their topology knows, other ends, racks and models."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.checks import fabric_section_findings
from hpcforge.blueprint.sections.fabrics import unknown_models
from hpcforge.blueprint.validate import Draft
from hpcforge.blueprint.visible_nodes import NamedNodes
from tests.unit.blueprint.drafts import SMALL, draft, errors, places

RAILS = "topology: rail-optimised, rails: 8"
ETHERNET = "kind: ethernet, rate_gbps: 100, switch: sn4600"
INFINIBAND = "kind: infiniband, rate_gbps: 400, switch: qm9700"


def fabric(text: str) -> Draft:
    return draft(text=f'{SMALL}site: {{racks: {{"r[1-2]": {{model: x}}}}}}\nfabrics: {{f: {{{text}}}}}\n')


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (f"{INFINIBAND}, {RAILS}, nodes: worker", []),
        (f"{INFINIBAND}, topology: rail-optimised", ["f"]),
        (f"{INFINIBAND}, {RAILS}, links: 8", ["f.links"]),
        (f"{ETHERNET}, topology: single-switch, uplinks: 2", ["f.uplinks"]),
        (f"{ETHERNET}, topology: fat-tree, peer_links: 2", ["f.peer_links"]),
        (f"{ETHERNET}, topology: fat-tree, uplinks: 2, oversubscription: 2", ["f.uplinks"]),
        (f"{ETHERNET}, topology: leaf-pair, links: 1", ["f.links"]),
        (f"{ETHERNET}, topology: leaf-pair, bond: 802.3ad", []),
        (f"{ETHERNET}, topology: fat-tree, bond: 802.3ad", ["f.bond"]),  # one link
        (f"{INFINIBAND}, topology: fat-tree, links: 2, bond: 802.3ad", ["f.bond"]),
        (f"{INFINIBAND}, topology: fat-tree, links: 2, bond: active-backup", []),
        (f"{ETHERNET}, topology: fat-tree, dscp: 26, priority: 3", ["f.dscp", "f.priority"]),
        (f"{ETHERNET}, topology: fat-tree, interfaces: [eth0, eth1]", ["f.interfaces"]),
        (f"{ETHERNET}, topology: fat-tree, nodes: nosuch", ["f.nodes"]),
    ],
)
def test_keys_belong_to_topologies(text: str, wrong: list[str]) -> None:
    blueprint = fabric(text)
    result = places(fabric_section_findings(blueprint, NamedNodes(blueprint)))
    assert result == errors(*(f"fabrics.{place}" for place in wrong))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("endpoints: {ufm: {count: 2}}", []),
        ("endpoints: {ufm: {}}", ["endpoints.ufm"]),
        ("endpoints: {ufm: {count: 1, nodes: head}}", ["endpoints.ufm"]),
        ("endpoints: {a: {nodes: head}, b: {nodes: head}}", ["endpoints.b.nodes"]),
        ("subnet_manager: on-switch", []),
        ("subnet_manager: head", []),
        ("subnet_manager: nosuch", ["subnet_manager"]),
        ("switches_in: [r1, r3]", ["switches_in.1"]),
        ('switches_in: [r1, "r[1-2]"]', ["switches_in.1"]),
    ],
)
def test_other_ends_subnet_managers_and_racks_exist_once(text: str, wrong: list[str]) -> None:
    blueprint = fabric(f"{INFINIBAND}, {RAILS}, nodes: worker, {text}")
    result = places(fabric_section_findings(blueprint, NamedNodes(blueprint)))
    assert result == errors(*(f"fabrics.f.{place}" for place in wrong))


def test_only_infiniband_and_omni_path_have_a_subnet_manager() -> None:
    blueprint = fabric(f"{ETHERNET}, topology: fat-tree, subnet_manager: on-switch")
    result = places(fabric_section_findings(blueprint, NamedNodes(blueprint)))
    assert result == errors("fabrics.f.subnet_manager")


def test_models_are_of_the_catalog_or_of_the_blueprint() -> None:
    text = f"{ETHERNET}, spine_switch: x, cable: y, topology: fat-tree, endpoints: {{s: {{count: 1, cable: z}}}}"
    result = places(unknown_models(fabric(text), ["sn4600"], ["z"]))
    assert result == errors("fabrics.f.spine_switch", "fabrics.f.cable")
