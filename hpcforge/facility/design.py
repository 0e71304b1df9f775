"""What a design comes to: the contract of `hpcforge design --json`, and all that its renderers see. Pure.

Every quantity is in the unit its name ends in: W, V, A, kg, mm, BTU/h, m3/h, degrees Celsius, K. A figure that cannot
be known is None (null); a sum over parts of which some are unknown is the sum of the known ones, and `*_unknown` names
the others. Power is at maximum unless a name says otherwise. Renderers must treat every text as plain text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SCHEMA_VERSION = 1

Severity = Literal["error", "warning", "not-checked"]


@dataclass(frozen=True)
class Remark:
    """One diagnostic. `hpcforge explain CODE` says more about its code."""

    code: str  # "POWER-003"
    severity: Severity
    message: str  # a sentence, without code and arithmetic
    arithmetic: str | None  # "4 x 10.2 kW = 40.8 kW > 36.8 kW = ..."
    hint: str | None  # a way out
    file: str
    line: int | None  # from 1
    column: int | None  # from 1, in characters


@dataclass(frozen=True)
class Part:
    """What one kind of part takes in one node, at maximum."""

    name: str  # "h100-sxm"
    count: int
    each_w: float | None  # None: not published
    total_w: float | None


@dataclass(frozen=True)
class Hardware:
    """One server model as it is used: the nodes that have it in one configuration, and where their watts come from."""

    model: str
    nodes: str  # hostlist
    count: int
    node_w: float | None  # at the inlets, at maximum
    origin: str  # how node_w was come by, in words: "max_w of the catalog", "sum of parts / efficiency 0.94"
    parts: tuple[Part, ...]  # known parts; their sum is node_w only where `origin` says so


@dataclass(frozen=True)
class Phase:
    """The load of one phase (of a PDU or a feed), at maximum."""

    name: str  # "L1"
    load_w: float
    load_a: float
    limit_a: float | None  # after derating
    load_a_one_lost: float  # the most, when any one other feed is lost


@dataclass(frozen=True)
class PduLoad:
    """One PDU of a rack and what hangs on it, at maximum."""

    name: str  # "g01-A", or "g01-A2" for the second on feed A
    model: str
    feed: str
    load_w: float
    limit_w: float | None  # after derating
    load_w_one_lost: float  # the most, when any one other feed is lost
    phases: tuple[Phase, ...]
    outlets_used: Mapping[str, int]  # by kind, "c19"
    outlets: Mapping[str, int] | None  # None: not known


@dataclass(frozen=True)
class Position:
    """Something in a rack. Rack units count from 1 at the bottom; `u_bottom` is the lowest it takes."""

    node: str  # the node's name, or that of other equipment
    kind: Literal["node", "equipment", "pdu"]
    model: str
    u_bottom: int
    u_height: int
    power_w: float | None
    weight_kg: float | None
    placed: Literal["given", "pinned", "proposed"]


@dataclass(frozen=True)
class RackDesign:
    """One rack: elevation, load, heat and weight, at maximum."""

    name: str
    model: str
    height_u: int | None  # None: not known
    used_u: int
    free_u: int | None  # height less what nodes, equipment and lying PDUs take
    power_w: float
    limit_w: float | None
    power_unknown: tuple[str, ...]  # what in it has no known power
    heat_btu_h: float
    cooling_limit_w: float | None
    airflow_m3_h: float | None  # of air that warms by the site's rise_k
    weight_kg: float  # of all that is mounted, without the rack itself
    limit_kg: float | None
    weight_unknown: tuple[str, ...]
    survives_one_lost: bool | None  # with any one feed lost; None: not checked
    elevation: tuple[Position, ...]  # from the top down
    pdus: tuple[PduLoad, ...]


@dataclass(frozen=True)
class UpsDesign:
    """The UPS of a feed, and how long it carries the feed's load."""

    model: str | None
    count: int
    load_w: float
    capacity_w: float | None
    wanted_min: float | None
    run_time_min: float | None


@dataclass(frozen=True)
class FeedLoad:
    """One power feed."""

    name: str
    volts: float  # line to line of three phases
    phase_count: int
    load_w: float  # after diversity
    limit_w: float | None  # after derating
    load_w_one_lost: float  # at maximum, the most when any one other feed is lost
    phases: tuple[Phase, ...]  # before diversity
    racks: tuple[str, ...]
    ups: UpsDesign | None


@dataclass(frozen=True)
class Power:
    """The site's power."""

    it_w: float  # equipment at maximum, before diversity
    diverse_w: float  # it_w times diversity
    cooling_w: float | None  # what cooling and losses draw: diverse_w times (PUE less 1)
    total_w: float | None  # diverse_w times PUE; None: no PUE is given
    limit_w: float | None  # of the site
    diversity: float
    pue: float | None
    derating: float | None  # None: not given, so that no breaker has a limit
    survive: str  # "any-one-feed" or "none"
    unknown: tuple[str, ...]  # hostlists of nodes without known power


@dataclass(frozen=True)
class Cooling:
    """The site's heat, after diversity, and the air that would carry it."""

    method: str | None
    heat_w: float
    heat_btu_h: float
    heat_tons: float
    inlet_c: float | None
    rise_k: float | None
    airflow_m3_h: float | None
    airflow_cfm: float | None
    limit_w: float | None  # of the cooling plant


@dataclass(frozen=True)
class BomLine:
    """A line of the bill of materials."""

    kind: Literal["server", "gpu", "nic", "drive", "rack", "pdu", "ups"]
    model: str
    description: str
    count: int
    included: bool  # comes inside another line (GPUs that a server model comes with): not to be ordered again
    each_w: float | None
    each_kg: float | None


@dataclass(frozen=True)
class Training:
    """How long one training run takes, by 6 N D floating-point operations, and the energy it takes."""

    parameters: float
    tokens: float
    utilisation: float  # of the peak
    gpus: int
    peak_tflops: float  # BF16 without sparsity, all GPUs together
    operations: float  # 6 N D
    days: float
    energy_kwh: float | None  # the site's total_w for all of that time: an upper bound
    energy_cost: float | None  # in the currency of the price per kWh that was given
    formula: str


@dataclass(frozen=True)
class Design:
    """All of it."""

    name: str  # the cluster's
    blueprint: str  # path as given
    has_site: bool  # False: the blueprint has no `site`, so racks, feeds and cooling are not designed
    power: Power
    cooling: Cooling
    feeds: tuple[FeedLoad, ...]
    racks: tuple[RackDesign, ...]
    row: tuple[str, ...]  # racks in their order on the floor; racks it leaves out follow
    unplaced: tuple[str, ...]  # hostlists of nodes in no rack
    exempt: tuple[str, ...]  # hostlists of virtual machines and rehearsal nodes, to which no rule applies
    hardware: tuple[Hardware, ...]
    bom: tuple[BomLine, ...]
    training: tuple[Training, ...]
    diagnostics: tuple[Remark, ...]


def to_json(design: Design) -> dict[str, Any]:
    """Return the data of `hpcforge design --json`; quantities are rounded to a thousandth."""
    return {"schema_version": SCHEMA_VERSION, **_plain(design)}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return {name: _plain(getattr(value, name)) for name in _names(type(value))}


_NAMES: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    if kind not in _NAMES:
        _NAMES[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return _NAMES[kind]
