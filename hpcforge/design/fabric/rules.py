"""Every rule that a fabric is judged by, as `hpcforge.design.facility.rules`: codes and explanations. Pure."""

from __future__ import annotations

from functools import partial

from hpcforge.design.facility import rules as facility
from hpcforge.design.facility.rules import DesignRule

_ALL = (
    DesignRule(
        "FABRIC-001",
        "error",
        "the fabric can be built",
        "Links of all ends against the topology's ports: those of one switch; of two, less their peer links; "
        "ports^3 / 4 for three tiers of equal switches without oversubscription (a core has a port for each group "
        "of leaves, a spine half its ports for leaves, a leaf half for ends).",
        "Switches with more ports, another topology, or fewer ends.",
    ),
    DesignRule(
        "FABRIC-002",
        "error",
        "the switches speak the fabric's protocol",
        "`kind` against the switch model's; roce is Ethernet.",
        "Another switch model, or another kind.",
    ),
    DesignRule(
        "FABRIC-003",
        "error",
        "the switches' ports are fast enough",
        "`rate_gbps` times `breakout` and `uplink_rate_gbps` against the rate of the model's ports, and the "
        "breakout against the ports' splits.",
        "A faster switch, a lower rate, or another breakout.",
    ),
    DesignRule(
        "FABRIC-004",
        "warning",
        "the wiring has room for all nodes",
        "Nodes of the fabric against `designed_for`. Up to this number no cable moves; beyond, the design lists the "
        "cables that move.",
        "Raise `designed_for` before the cables are pulled, or plan the moves.",
    ),
    DesignRule(
        "FABRIC-005",
        "warning",
        "nodes have ports for their links",
        "A node's links to a fabric against its server's and adapters' ports of at least that rate; the management "
        "controller's port counts up to 1 Gb/s. A slower port may do, at its rate.",
        "Fewer links, another adapter under `nics:` of a hardware entry, or the nodes that have them under `nodes:`.",
    ),
    DesignRule(
        "FABRIC-006",
        "warning",
        "the subnet has a manager",
        "An InfiniBand or Omni-Path fabric carries nothing without a subnet manager: `subnet_manager` must name its "
        "place.",
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
        "Names of switches and of other ends against those of nodes and of each other.",
        "Rename the fabric, the endpoints or the nodes.",
    ),
    DesignRule(
        "FABRIC-009",
        "not-checked",
        "the ports of switches are published",
        "A fabric needs the published ports of its switch model.",
        "Set `ports` in an entry like it, under `parts: {switches: ...}`.",
    ),
    DesignRule(
        "FABRIC-010",
        "warning",
        "no switch alone holds the fabric together",
        "A single spine switch under several leaves: its loss separates all leaves.",
        "Fewer ends a leaf (`oversubscription`, `uplinks`), or accept it.",
    ),
    DesignRule(
        "FABRIC-011",
        "warning",
        "the links of a bond end on one switch",
        "Switches that the links of an end with `bond: 802.3ad` lead to; the two of a leaf pair count as one, as they "
        "form one bond together (MLAG).",
        "topology: leaf-pair, a number of links that fits a leaf, or bond: active-backup.",
    ),
    DesignRule(
        "CABLE-001",
        "error",
        "a cable reaches",
        "The length of a cable from port to port (formula: docs/fabric.md) against the longest sold for its rate, "
        "of the kinds in `site.cabling.kinds`.",
        "Switches nearer to the other ends, or longer cables under `parts.cables`.",
    ),
    DesignRule(
        "CABLE-002",
        "not-checked",
        "both ends of a cable have a place",
        "A length needs the rack and unit of both ends, the heights of both racks, and between rooms "
        "`site.cabling.between_rooms_m`; else a cable has no length, no kind, and no line in the bill.",
        "`site.racks`, places for nodes, and `switches_in` for the fabric.",
    ),
    DesignRule(
        "CABLE-003",
        "not-checked",
        "there are cables of this rate",
        "The rate of a link against the cables of the catalog and of `parts.cables`.",
        "Add the kind of cable that you buy under `parts.cables`.",
    ),
    DesignRule(
        "CABLE-004",
        "warning",
        "cables are sold for the fabric's protocol",
        "The cable's kind at that length against the fabric's: NVIDIA sells no active optical cables for 400 Gb/s "
        "InfiniBand, but transceivers and fibre.",
        "Leave the kind out of `site.cabling.kinds`: [dac, optics].",
    ),
    DesignRule(
        "CABLE-005",
        "error",
        "cables fit the ports at both ends",
        "Plugs of the cables of a link's rate (`plugs`) against the cages at both ends (`connector`): a cage takes "
        "plugs of its own family up to its generation, QSFP-DD also QSFP, OSFP no others; a broken-out port takes a "
        "plug of the whole port's rate.",
        "A breakout, adapters (`site.cabling.kinds`: [..., adapter]), another cable, or another model.",
    ),
)
RULES: dict[str, DesignRule] = {rule.code: rule for rule in _ALL}


breach = partial(facility.breach, RULES)


def markdown() -> str:
    """Return the table of docs/fabric.md."""
    return facility.table(_ALL)
