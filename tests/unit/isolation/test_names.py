"""Parts as a person finds them."""

from __future__ import annotations

from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.cabling import Labels
from hpcforge.design.fabric.spec import Ask, Model
from hpcforge.isolation.names import PartNames
from hpcforge.isolation.state import BadPart, FleetLine, Part
from hpcforge.isolation.wiring import NodeWiring, wiring

SWITCH = Model("64-port", 64, 64)
NODES = tuple(f"g{number:02}" for number in range(1, 41))
FABRIC = build(Ask("compute", "infiniband", "rail-optimised", 400, 400, NODES, SWITCH, SWITCH, 8))
NAMES = PartNames(wiring(NODES, FABRIC), Labels(FABRIC, [None] * len(FABRIC.devices)), {"g03": "rack a1, U7"})


def test_a_node_with_its_rack_and_a_gpu_by_number() -> None:
    assert NAMES.words(Part("node", 2)) == "node g03 (rack a1, U7)"
    assert NAMES.words(Part("gpu", 2, 5)) == "GPU 5 of g03 (rack a1, U7)"


def test_a_cable_with_the_labels_of_both_ends() -> None:
    assert NAMES.words(Part("cable", 2, 4)) == (
        'the cable or adapter of rail 5 at g03 (rack a1, U7), labels "compute-leaf-005:3 | g03 rail 5 > '
        'compute-leaf-005 port 3" and "compute-leaf-005:3 | compute-leaf-005 port 3 > g03 rail 5"'
    )


def test_an_uplink_is_a_cable_between_switches() -> None:
    assert NAMES.words(Part("uplink", 0, 1)).startswith(
        'uplink 2 of compute-leaf-001, labels "compute-leaf-001:34 | compute-leaf-001 port 34 > compute-spine-'
    )
    assert NAMES.words(Part("uplinks", 0)) == "all uplinks of compute-leaf-001"


def test_uplinks_that_are_low_now_and_then_are_not_all_bad() -> None:
    parts = (Part("uplinks", 0), Part("uplinks", 8))
    line, rounds = FleetLine(0.9, 1.0), (3, 4)
    assert NAMES.all(BadPart("could not tell", parts, 0.5, line, 8, 0, rounds)).startswith("all uplinks of compute-")
    some = NAMES.all(BadPart("could not tell", parts, 0.5, line, 8, 24, rounds))
    assert some == "uplinks of compute-leaf-001 or uplinks of compute-leaf-009"


def test_without_a_plan() -> None:
    names = PartNames(NodeWiring(("a", "b")))
    assert names.words(Part("cable", 1)) == "the network of b"
    assert names.words(Part("pair", 0, 1)) == "the path between a and b"
    assert PartNames(NodeWiring(("a", "b"), 8)).words(Part("cable", 1, 7)) == "the network of b, rail 8"
