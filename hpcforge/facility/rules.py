"""Every rule that a design is judged by: its code, and what `hpcforge explain CODE` and docs/facility.md say. Pure.

A code is never given to another rule. To break a rule is an error or a warning, as it says; where a rule needs a fact
that nobody has published or the site has not given, it says `not checked` and what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from hpcforge.blueprint.reader import Loc
from hpcforge.facility.design import Severity


@dataclass(frozen=True)
class DesignRule:
    """One rule. `judged` is what is compared with what, `way_out` what to do when it is broken."""

    code: str
    severity: Literal["error", "warning", "not-checked"]
    title: str
    judged: str
    way_out: str


@dataclass(frozen=True)
class Breach:
    """What a rule says of one place of the blueprint."""

    code: str
    loc: Loc
    message: str
    arithmetic: str | None = None
    hint: str | None = None
    severity: Severity | None = None  # None: the rule's own
    key: bool = False

    @property
    def judged(self) -> Severity:
        """The severity that holds."""
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
    """What one of these rules says; its severity is the rule's own unless said otherwise."""
    return Breach(code, loc, message, arithmetic, hint, severity or rules[code].severity, key)


def not_checked(code: str, loc: Loc, missing: str, hint: str | None = None) -> Breach:
    """Say that a rule needs what nobody has said; `missing` completes "not checked: "."""
    return Breach(code, loc, missing, None, hint, "not-checked")


_ALL = (
    DesignRule(
        "SITE-001",
        "not-checked",
        "a part of `site` is missing",
        "The blueprint says nothing of its racks, feeds or cooling, so the rules about them say nothing either.",
        "Add what is missing under `site`; blueprints/dgx-h100-unit.yaml shows all of it.",
    ),
    DesignRule(
        "NODE-001",
        "error",
        "at least 24 GiB of memory",
        "Declared memory, overrides applied, against 24 GiB, below which a node is not worth clustering (common build "
        "guides). A warning for nodes that are not workers.",
        "Fit more memory, or give the node another function.",
    ),
    DesignRule(
        "NODE-002",
        "error",
        "at least two network ports",
        "Ports the server comes with (`ports`, without the BMC's) and those of its adapters (`nics`), against two: one "
        "to the cluster and one outside. A warning for nodes that are not workers.",
        "Add an adapter under `nics:` of a hardware entry.",
    ),
    DesignRule(
        "NODE-003",
        "error",
        "a slot for every card",
        "PCIe slots against cards: a slot of 16 lanes for each GPU of form factor pcie, one of 8 for each adapter.",
        "Fewer cards, or a chassis with more slots.",
    ),
    DesignRule(
        "NODE-004",
        "error",
        "PCIe lanes for every card",
        "Lanes of all processors against those of GPUs and adapters, and four for each NVMe drive. Not judged where "
        "cards share lanes through PCIe switches (`pcie_switched: true`).",
        "Processors with more lanes, or a chassis with PCIe switches.",
    ),
    DesignRule(
        "NODE-005",
        "error",
        "supplies carry the full load",
        "`psu.needed` supplies of `psu.rated_w` against the node's load at their output, which is its maximum times "
        "the supplies' efficiency: the supplies beyond `needed` may fail.",
        "Larger supplies, more of them needed, or less load.",
    ),
    DesignRule(
        "NODE-006",
        "error",
        "the GPUs' form factor fits the chassis",
        "The GPU model's form factor against those the chassis takes.",
        "Choose a GPU of a form factor that the chassis takes.",
    ),
    DesignRule(
        "NODE-007",
        "error",
        "the GPUs' cooling fits the chassis",
        "How the GPU model is cooled against what the chassis allows: a passive card needs the chassis's fans.",
        "Choose the other variant of the card, or another chassis.",
    ),
    DesignRule(
        "NODE-008",
        "error",
        "no more GPUs than the chassis takes",
        "GPUs declared against `gpus_max` of the server model.",
        "Fewer GPUs a node, or another chassis.",
    ),
    DesignRule(
        "NODE-009",
        "not-checked",
        "virtual machines and rehearsals are exempt",
        "A server model whose `machine` is virtual or rehearsal stands in no rack and draws no power of its own: no "
        "rule about nodes, racks, power and cooling applies to it.",
        "Nothing to do.",
    ),
    DesignRule(
        "RACK-001",
        "error",
        "a place for every node",
        "Nodes of a group against its places: racks times the units listed in `u`. The first rack takes as many nodes, "
        "in the order of their names, as `u` has entries; then the next rack.",
        "List more racks or more units.",
    ),
    DesignRule(
        "RACK-002",
        "error",
        "nothing overlaps",
        "Rack units that a node takes, from its lowest up to its height, against those taken before it by equipment, "
        "lying PDUs and other nodes.",
        "Move one of them.",
    ),
    DesignRule(
        "RACK-003",
        "error",
        "everything stands inside its rack",
        "The highest unit that a node or equipment takes against the height of the rack.",
        "Move it down, or use a higher rack.",
    ),
    DesignRule(
        "RACK-004",
        "error",
        "every chassis fits the depth of its rack",
        "The chassis's depth against the rack's mounting depth, both without cables.",
        "Use a deeper rack.",
    ),
    DesignRule(
        "RACK-005",
        "error",
        "the rack can carry its equipment",
        "Weight of nodes, equipment and PDUs against `limit_kg` of the rack or of its model, whichever is less.",
        "Spread the nodes over more racks.",
    ),
    DesignRule(
        "RACK-006",
        "error",
        "room for nodes that were given no place",
        "Nodes without `u` are proposed a place: the heaviest first, as low as there is room, in the rack and on the "
        "feeds that are loaded least, within the rack's height, depth, weight, power, heat and spare units.",
        "Add racks, or give positions yourself.",
    ),
    DesignRule(
        "RACK-007",
        "error",
        "room for PDUs",
        "Upright PDUs (0 rack units) against the rack model's places for them; lying ones are placed from the top "
        "down and need free units.",
        "Fewer or larger PDUs, or a rack with more places.",
    ),
    DesignRule(
        "RACK-008",
        "warning",
        "proposed positions are pinned",
        "A position that hpcforge proposed may be another one when nodes or racks are added, unless the inventory "
        "has it under `positions:`.",
        "`hpcforge pin BLUEPRINT` writes them into the inventory.",
    ),
    DesignRule(
        "RACK-009",
        "error",
        "pinned positions agree with the blueprint",
        "The rack of a pinned position against the racks of the node's group, and against the racks there are.",
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
        "Switches of a fabric against the free units of the racks in its `switches_in`, after nodes and equipment "
        "whose places are given: each in the highest free units, the racks in their order, as many in each.",
        "More racks in `switches_in`, or free units in them.",
    ),
    DesignRule(
        "POWER-001",
        "error",
        "a PDU carries its load",
        "Maximum load of all that hangs on a PDU against derating x sqrt(3) x V x A (one phase: derating x V x A), "
        "with the feed's V, whatever the PDU is made for. A machine's load is shared equally by its supplies.",
        "Larger PDUs, more of them, or fewer nodes in the rack.",
    ),
    DesignRule(
        "POWER-002",
        "error",
        "a phase of a PDU carries its load",
        "Current in each line at maximum load against derating x A. Supplies are plugged in turn, so that phases are "
        "as even as their number allows.",
        "Larger PDUs, or other numbers of nodes in the rack.",
    ),
    DesignRule(
        "POWER-003",
        "error",
        "PDUs carry the rack when any one feed is lost",
        "With `survive: any-one-feed`: each feed of a rack is taken away in turn; every node's load moves to the "
        "supplies that remain, and each remaining PDU and phase must carry what it gets, at maximum load.",
        "One more feed, larger PDUs, or fewer nodes in the rack.",
    ),
    DesignRule(
        "POWER-004",
        "error",
        "nodes keep enough supplies when any one feed is lost",
        "With `survive: any-one-feed`: the supplies of a node that are on other feeds against `psu.needed`.",
        "Spread its supplies over more feeds.",
    ),
    DesignRule(
        "POWER-005",
        "error",
        "a feed carries its load",
        "Maximum load of all PDUs on a feed, times diversity, against derating x what the feed gives.",
        "A larger feed, or racks moved to another.",
    ),
    DesignRule(
        "POWER-006",
        "error",
        "a feed carries its load when any one other is lost",
        "With `survive: any-one-feed`: what a feed carries at maximum, without diversity, when another is lost, "
        "against derating x what the feed gives.",
        "Larger feeds, or one more.",
    ),
    DesignRule(
        "POWER-007",
        "error",
        "a rack stays below its power limit",
        "Maximum load of all that stands in a rack against `limit_w` of the rack.",
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
        "Larger UPSs, or more of them.",
    ),
    DesignRule(
        "POWER-012",
        "error",
        "a UPS lasts as long as wanted",
        "Run time at the feed's load after diversity, from the maker's curve (between points in proportion, never "
        "better than its lightest point), else battery energy x efficiency / load; against `run_time`.",
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
        "Voltage and phases of the PDU against those of the feed, within 5 %; a PDU of one phase may hang between a "
        "line and the neutral, or between two lines, of a feed of three.",
        "Another PDU, or another feed.",
    ),
    DesignRule(
        "POWER-015",
        "not-checked",
        "the power of every machine is known",
        "A node's power is `max_w` of its model; else the sum of its parts divided by the efficiency of its supplies. "
        "Where neither is known, the node is left out of every sum.",
        "Measure it, and say `max_w` in a hardware entry of the blueprint.",
    ),
    DesignRule(
        "COOL-001",
        "error",
        "the heat of a rack is carried away",
        "Maximum load of a rack, all of which becomes heat, against `cooling_limit_w` of the rack, or `rack_limit_w` "
        "of `site.cooling`: what the method takes is a value of the site.",
        "Fewer nodes in the rack, or a cooling method that takes more.",
    ),
    DesignRule(
        "COOL-002",
        "error",
        "the air is cool enough",
        "`inlet_c` of `site.cooling` against the warmest inlet air that a server model allows.",
        "Cooler air, or other servers.",
    ),
    DesignRule(
        "COOL-003",
        "error",
        "liquid-cooled servers have liquid",
        "A server model cooled by liquid needs the method direct-liquid.",
        "Choose the air-cooled model, or bring liquid to the racks.",
    ),
    DesignRule(
        "COOL-004",
        "error",
        "enough air reaches a rack",
        "Air that carries the rack's heat when it warms by `rise_k`, P / (1.2 kg/m3 x 1,005 J/(kg K) x rise), against "
        "`rack_airflow_m3_h`. Judged where the method is air.",
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
    rows = [f"| {r.code} | {_SAID[r.severity]} | {r.title} | {r.judged} | {r.way_out} |" for r in rules]
    return "\n".join(["| code | severity | rule | what is judged | way out |", "|---|---|---|---|---|", *rows]) + "\n"


def explained(rule: DesignRule) -> str:
    """Return what `hpcforge explain CODE` prints."""
    return f"{rule.code} ({_SAID[rule.severity]}): {rule.title}\n\n{rule.judged}\n\nWay out: {rule.way_out}\n"


_SAID = {"error": "error", "warning": "warning", "not-checked": "not checked"}
