"""Every rule that a fabric is judged by, as in `hpcforge.facility.rules`: codes, and what is behind them. Pure."""

from __future__ import annotations

from functools import partial

from hpcforge.facility import rules as facility
from hpcforge.facility.rules import DesignRule

_ALL = (
    DesignRule(
        "FABRIC-001",
        "error",
        "the fabric can be built",
        "Links of all ends there is to be room for against what the topology holds: the ports of one switch; of two, "
        "less their peer links; ports^3 / 4 for three tiers of switches that are alike and not oversubscribed (a core "
        "has a port for each group of leaves, a spine half its ports for leaves, a leaf half for ends).",
        "Switches with more ports, another topology, or fewer ends.",
    ),
    DesignRule(
        "FABRIC-002",
        "error",
        "the switches speak what the fabric is",
        "`kind` against what the switch model speaks; roce is Ethernet.",
        "Another switch model, or another kind.",
    ),
    DesignRule(
        "FABRIC-003",
        "error",
        "the switches' ports are fast enough",
        "`rate_gbps` times `breakout` and `uplink_rate_gbps` against the rate of the model's ports, and the breakout "
        "against those that the ports can be split into.",
        "A faster switch, a lower rate, or another breakout.",
    ),
    DesignRule(
        "FABRIC-004",
        "warning",
        "the wiring has room for all nodes",
        "Nodes of the fabric against `designed_for`. Up to it no cable moves; beyond it the wiring is that of all "
        "nodes, and the design lists the cables of the old one that are moved.",
        "Raise `designed_for` before the cables are pulled, or plan the moves.",
    ),
    DesignRule(
        "FABRIC-005",
        "warning",
        "nodes have ports for their links",
        "Links of a node to one fabric against the ports of at least its rate that the server model and its adapters "
        "have; the management controller's port counts for fabrics of up to 1 Gb/s. A slower port may do, at its rate.",
        "Fewer links, another adapter under `nics:` of a hardware entry, or the nodes that have them under `nodes:`.",
    ),
    DesignRule(
        "FABRIC-006",
        "warning",
        "the subnet has a manager",
        "An InfiniBand or Omni-Path fabric carries nothing before a subnet manager has configured it: `subnet_manager` "
        "must say where it runs.",
        "subnet_manager: on-switch, external, or the name of a node.",
    ),
    DesignRule(
        "FABRIC-007",
        "error",
        "a subnet manager can run on its device",
        "`subnet_manager: on-switch` against whether the switch model is managed; a node against the fabric's ends.",
        "A managed switch model, or a subnet manager elsewhere.",
    ),
    DesignRule(
        "FABRIC-008",
        "error",
        "names are unique",
        "Names of switches and of ends that are no nodes against those of nodes and of each other.",
        "Rename the fabric, the endpoints or the nodes.",
    ),
    DesignRule(
        "FABRIC-009",
        "not-checked",
        "the ports of switches are known",
        "A fabric is built from the ports of its switch model; without published ports, nothing is built.",
        "Say `ports` in an entry like it, under `parts: {switches: ...}`.",
    ),
    DesignRule(
        "FABRIC-010",
        "warning",
        "no switch alone holds the fabric together",
        "Spine switches of a fabric of more than one leaf: where there is one, its loss separates all leaves.",
        "Fewer ends a leaf (`oversubscription`, `uplinks`), or accept it.",
    ),
    DesignRule(
        "CABLE-001",
        "error",
        "a cable reaches",
        "The way of a cable from port to port (docs/fabric.md has the formula) against the longest that is sold for "
        "its rate, of the kinds that `site.cabling.kinds` lists.",
        "Switches nearer to what is plugged into them, or longer cables under `parts.cables`.",
    ),
    DesignRule(
        "CABLE-002",
        "not-checked",
        "both ends of a cable have a place",
        "A length needs the rack and unit of both ends, the heights of both racks, and between rooms "
        "`site.cabling.between_rooms_m`; without them a cable has no length, no kind, and no line in the bill.",
        "`site.racks`, places for nodes, and `switches_in` for the fabric.",
    ),
    DesignRule(
        "CABLE-003",
        "not-checked",
        "there are cables of this rate",
        "The rate of a link against those of the cables in the catalog and under `parts.cables`.",
        "Add the kind of cable that you buy under `parts.cables`.",
    ),
    DesignRule(
        "CABLE-004",
        "warning",
        "cables are sold for what the fabric speaks",
        "The kind of cable that a length calls for against what it is sold for: there are no active optical cables for "
        "400 Gb/s InfiniBand from NVIDIA, whose adapters and switches take transceivers and fibre there.",
        "Leave the kind out of `site.cabling.kinds`: [dac, optics].",
    ),
)
RULES: dict[str, DesignRule] = {rule.code: rule for rule in _ALL}


breach = partial(facility.breach, RULES)


def markdown() -> str:
    """Return the table of docs/fabric.md."""
    return facility.table(_ALL)
