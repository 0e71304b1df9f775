"""Every rule of a design: its code, and its texts for `hpcforge explain CODE` and docs/facility.md. Pure.

A code is never used for another rule. A breach is an error or a warning, as the rule sets; a rule that lacks a
published fact, or one of the site, reports `not checked` and the missing fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hpcforge.blueprint.reader import Loc

if TYPE_CHECKING:
    from hpcforge.design.facility.design import Severity

MIN_MEMORY_GIB = 24  # common build guides: less is not worth clustering


@dataclass(frozen=True)
class DesignRule:
    """One rule. `judged` describes its comparison, `way_out` the remedy."""

    code: str
    severity: Literal["error", "warning", "not-checked"]
    title: str
    judged: str
    way_out: str


@dataclass(frozen=True)
class Breach:
    """A broken or unchecked rule, at one place of the blueprint."""

    code: str
    loc: Loc
    message: str
    arithmetic: str | None = None
    hint: str | None = None
    severity: Severity | None = None  # None: the rule's own
    key: bool = False

    @property
    def judged(self) -> Severity:
        """The effective severity."""
        return self.severity or RULES[self.code].severity


def breach(
    rules: Mapping[str, DesignRule],
    code: str,
    loc: Loc,
    message: str,
    arithmetic: str | None = None,
    hint: str | None = None,
    severity: Severity | None = None,
    *,
    key: bool = False,
) -> Breach:
    """Return a breach of one of these rules; `severity` overrides the rule's own."""
    return Breach(code, loc, message, arithmetic, hint, severity or rules[code].severity, key)


def not_checked(code: str, loc: Loc, missing: str, hint: str | None = None) -> Breach:
    """Return an unchecked rule; `missing` is the text after "not checked: "."""
    return Breach(code, loc, missing, None, hint, "not-checked")


_ALL = (
    DesignRule(
        "SITE-001",
        "not-checked",
        "a part of `site` is missing",
        "The blueprint has no racks, feeds or cooling, so their rules are not checked.",
        "Add them under `site`, as in blueprints/dgx-h100-unit.yaml.",
    ),
    DesignRule(
        "NODE-001",
        "error",
        "at least 24 GiB of memory",
        "Declared memory, with overrides, against 24 GiB, the minimum of common build guides. A warning for nodes "
        "that are not workers.",
        "Fit more memory, or give the node another function.",
    ),
    DesignRule(
        "NODE-002",
        "error",
        "at least two network ports",
        "The server's ports (`ports`, without the BMC's) and those of its adapters (`nics`) against two: one to the "
        "cluster and one outside. A warning for nodes that are not workers.",
        "Add an adapter under `nics:` of a hardware entry.",
    ),
    DesignRule(
        "NODE-003",
        "error",
        "a slot for every card",
        "PCIe slots against cards: 16 lanes for each GPU of form factor pcie, 8 for each adapter.",
        "Fewer cards, or a chassis with more slots.",
    ),
    DesignRule(
        "NODE-004",
        "error",
        "PCIe lanes for every card",
        "Lanes of all processors against those of GPUs and adapters, and four for each NVMe drive. Not checked with "
        "PCIe switches (`pcie_switched: true`).",
        "Processors with more lanes, or a chassis with PCIe switches.",
    ),
    DesignRule(
        "NODE-005",
        "error",
        "supplies carry the full load",
        "`psu.needed` supplies of `psu.rated_w` against the node's maximum load times the supplies' efficiency. The "
        "other supplies may fail.",
        "Larger supplies, a larger number of needed supplies, or less load.",
    ),
    DesignRule(
        "NODE-006",
        "error",
        "the GPUs' form factor fits the chassis",
        "The GPU model's form factor against those of the chassis.",
        "A GPU of a form factor that the chassis takes.",
    ),
    DesignRule(
        "NODE-007",
        "error",
        "the GPUs' cooling fits the chassis",
        "The GPU model's cooling against the chassis: a passive card needs the chassis's fans.",
        "The other variant of the card, or another chassis.",
    ),
    DesignRule(
        "NODE-008",
        "error",
        "no more GPUs than the chassis takes",
        "Declared GPUs against `gpus_max` of the server model.",
        "Fewer GPUs a node, or another chassis.",
    ),
    DesignRule(
        "NODE-009",
        "not-checked",
        "virtual machines and rehearsals are exempt",
        "A server model with `machine` virtual or rehearsal has no rack and no power. Rules about nodes, racks, "
        "power and cooling do not apply.",
        "None is needed.",
    ),
    DesignRule(
        "NODE-010",
        "error",
        "the processors fit the chassis",
        "The socket of the processor model (`cpu`) against the chassis's `cpu_socket`.",
        "A processor of that socket, or another chassis.",
    ),
    DesignRule(
        "RACK-001",
        "error",
        "a place for every node",
        "Nodes of a group against its places: racks times the units in `u`.",
        "List more racks or more units.",
    ),
    DesignRule(
        "RACK-002",
        "error",
        "nothing overlaps",
        "A node's rack units against those of equipment, lying PDUs and other nodes.",
        "Move one.",
    ),
    DesignRule(
        "RACK-003",
        "error",
        "everything stands inside its rack",
        "The highest unit of a node or equipment against the height of the rack.",
        "Move it down, or use a higher rack.",
    ),
    DesignRule(
        "RACK-004",
        "error",
        "every chassis fits the depth of its rack",
        "The chassis's depth against the rack's mounting depth, both without cables.",
        "A deeper rack.",
    ),
    DesignRule(
        "RACK-005",
        "error",
        "the rack can carry its equipment",
        "Weight of nodes, equipment and PDUs against the lower `limit_kg` of the rack and its model.",
        "Spread the nodes over more racks.",
    ),
    DesignRule(
        "RACK-006",
        "error",
        "room for nodes without a set place",
        "Nodes without `u` get a proposed place: the heaviest first, as low as possible, in the rack and on the "
        "feeds with the least load, within the rack's height, depth, weight, power, heat, spare units, and its PDUs "
        "with their phases and outlets.",
        "Add racks, or give positions yourself.",
    ),
    DesignRule(
        "RACK-007",
        "error",
        "room for PDUs",
        "Upright PDUs (0 rack units) against the rack model's places; lying PDUs take free units from the top down.",
        "Fewer or larger PDUs, or a rack with more places.",
    ),
    DesignRule(
        "RACK-008",
        "warning",
        "proposed positions are pinned",
        "A proposed position may change with new nodes or racks, unless it is under `positions:` of the inventory.",
        "`hpcforge pin BLUEPRINT` writes them there.",
    ),
    DesignRule(
        "RACK-009",
        "error",
        "pinned positions agree with the blueprint",
        "The rack of a pinned position against the node's group and the known racks.",
        "Correct the blueprint, or remove the line from `positions:` of the inventory.",
    ),
    DesignRule(
        "RACK-010",
        "error",
        "room for switches and cables",
        "Free units against `spare_u` of the rack.",
        "Fewer nodes in the rack, or fewer spare units.",
    ),
    DesignRule(
        "RACK-011",
        "error",
        "room for switches",
        "Switches of a fabric against the free units of the racks in `switches_in`, after nodes and equipment with "
        "given places: the highest free units, racks in order, equally many in each.",
        "More racks in `switches_in`, or free units in them.",
    ),
    DesignRule(
        "RACK-012",
        "warning",
        "nodes stay where they are pinned",
        "The places that `rack` and `u` give against `positions:` of the inventory. A node keeps a pinned place of its "
        "group.",
        "Move the machines, then `hpcforge pin BLUEPRINT`; or restore `rack` and `u`.",
    ),
    DesignRule(
        "POWER-001",
        "error",
        "a PDU carries its load",
        "Maximum load of a PDU against derating x sqrt(3) x V x A (one phase: derating x V x A), with the feed's V. "
        "A machine's supplies share its load equally.",
        "Larger PDUs, more PDUs, or fewer nodes in the rack.",
    ),
    DesignRule(
        "POWER-002",
        "error",
        "a phase of a PDU carries its load",
        "Current in each line at maximum load against derating x A. Supplies take phases in turn.",
        "Another order of nodes in the rack, larger PDUs, or another number of nodes.",
    ),
    DesignRule(
        "POWER-003",
        "error",
        "PDUs carry the rack when any one feed is lost",
        "With `survive: any-one-feed`: each feed of a rack fails in turn, its load moves to the remaining supplies, "
        "and each remaining PDU and phase must carry its new maximum.",
        "One more feed, larger PDUs, or fewer nodes in the rack.",
    ),
    DesignRule(
        "POWER-004",
        "error",
        "nodes keep enough supplies when any one feed is lost",
        "With `survive: any-one-feed`: a node's supplies on other feeds against `psu.needed`.",
        "Spread its supplies over more feeds.",
    ),
    DesignRule(
        "POWER-005",
        "error",
        "a feed carries its load",
        "Maximum load of a feed's PDUs, times diversity, against derating x the feed's power.",
        "A larger feed, or racks moved to another.",
    ),
    DesignRule(
        "POWER-006",
        "error",
        "a feed carries its load when any one other is lost",
        "With `survive: any-one-feed`: a feed's maximum load without diversity, after the loss of another, against "
        "derating x the feed's power.",
        "Larger feeds, or one more.",
    ),
    DesignRule(
        "POWER-007",
        "error",
        "a rack stays below its power limit",
        "Maximum load of a rack against its `limit_w`.",
        "Fewer nodes in the rack.",
    ),
    DesignRule(
        "POWER-008",
        "error",
        "an outlet for every supply",
        "Inlets of the supplies on a PDU against its outlets: c14 takes c13 or c15, c16 takes c15, c20 takes c19, c22 "
        "takes c21; outlets of the kind c13-c19 take both plugs.",
        "A PDU with other outlets.",
    ),
    DesignRule(
        "POWER-009",
        "error",
        "outlets have a voltage that supplies accept",
        "Voltage at the PDU's outlets, from the feed's (line to neutral with wiring wye), against the range of the "
        "supplies.",
        "A PDU with other wiring, or a feed of another voltage.",
    ),
    DesignRule(
        "POWER-010",
        "warning",
        "the phases of a PDU are balanced",
        "Compares the deviation of each phase of a PDU from the mean of its phases, at maximum load, with "
        "`phase_imbalance`.",
        "Move plugs to other outlets, or change the number of nodes.",
    ),
    DesignRule(
        "POWER-011",
        "error",
        "a UPS carries its feed's load",
        "Load of the feed after diversity against `capacity_w` of its UPSs.",
        "Larger UPSs, or more UPSs.",
    ),
    DesignRule(
        "POWER-012",
        "error",
        "a UPS lasts for the required time",
        "Run time at the feed's load after diversity, from the maker's curve (linear between points, never better "
        "than its lightest point), else battery energy x efficiency / load; against `run_time`.",
        "More batteries, or a shorter run time.",
    ),
    DesignRule(
        "POWER-013",
        "error",
        "the site stays below its power limit",
        "Maximum load x diversity x PUE against `limit_w` of `site.power`.",
        "Less equipment, or a larger connection.",
    ),
    DesignRule(
        "POWER-014",
        "error",
        "a PDU fits its feed",
        "Voltage and phases of the PDU against the feed's, within 5 %. A PDU of one phase may use a line and "
        "neutral, or two lines, of a three-phase feed.",
        "Another PDU, or another feed.",
    ),
    DesignRule(
        "POWER-015",
        "not-checked",
        "every machine has a known power",
        "`max_w` of the model, else the sum of its parts divided by the supplies' efficiency. If both are unknown, "
        "sums have the known parts alone.",
        "Measure it, and set `max_w` in a hardware entry of the blueprint.",
    ),
    DesignRule(
        "COOL-001",
        "error",
        "the heat of a rack is carried away",
        "Maximum load of a rack, which all becomes heat, against `cooling_limit_w` of the rack or `rack_limit_w` of "
        "`site.cooling`.",
        "Fewer nodes in the rack, or a stronger cooling method.",
    ),
    DesignRule(
        "COOL-002",
        "error",
        "the air is cool enough",
        "`inlet_c` of `site.cooling` against the server models' warmest inlet air.",
        "Cooler air, or other servers.",
    ),
    DesignRule(
        "COOL-003",
        "error",
        "liquid-cooled servers have liquid",
        "A server model cooled by liquid needs the method direct-liquid.",
        "The air-cooled model, or liquid at the racks.",
    ),
    DesignRule(
        "COOL-004",
        "error",
        "enough air reaches a rack",
        "Air for the rack's heat at `rise_k`, P / (1.2 kg/m3 x 1,005 J/(kg K) x rise), against `rack_airflow_m3_h`. "
        "With method air only.",
        "More air, a larger rise, or fewer nodes in the rack.",
    ),
    DesignRule(
        "COOL-005",
        "error",
        "the cooling plant takes all heat",
        "Maximum load of all equipment x diversity against `limit_w` of `site.cooling`.",
        "A larger plant, or less equipment.",
    ),
)
RULES: dict[str, DesignRule] = {rule.code: rule for rule in _ALL}


def markdown() -> str:
    """Return the table of docs/facility.md."""
    return table(_ALL)


def table(rules: Iterable[DesignRule]) -> str:
    """Return rules as a table in Markdown."""
    rows = [f"| {r.code} | {_SEVERITY_TEXT[r.severity]} | {r.title} | {r.judged} | {r.way_out} |" for r in rules]
    return "\n".join(["| code | severity | rule | comparison | way out |", "|---|---|---|---|---|", *rows]) + "\n"


def explained(rule: DesignRule) -> str:
    """Return the text of `hpcforge explain CODE`."""
    return f"{rule.code} ({_SEVERITY_TEXT[rule.severity]}): {rule.title}\n\n{rule.judged}\n\nWay out: {rule.way_out}\n"


_SEVERITY_TEXT = {"error": "error", "warning": "warning", "not-checked": "not checked"}
