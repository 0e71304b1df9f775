"""Check a smoke test's measures against the limits in its folder. Pure: numbers come from nodes, formats do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.smoke_tests import PLACEHOLDER
from hpcforge.cluster.model import Measure, SmokeTestProgram, Threshold
from hpcforge.verify.step_output import finite

Measurement = Mapping[str, float | int | str]
Numbers = Mapping[str, Mapping[str, float]]  # of each measure, by node; by "" where rank 0 reports one for all

_JUDGES = 3  # compared nodes, before one is blamed: of two, either may report a false value
_MAX_LISTED = 8  # nodes with numbers listed one by one


@dataclass(frozen=True)
class Shortfall:
    """A missed measure: a line for people, and the node, if it is exactly one."""

    text: str
    node: str | None = None


def numbers(program: SmokeTestProgram, measurements: Sequence[Measurement]) -> Numbers:
    """Return the last number of each measure; of several processes of a node the worst."""
    by_measure: dict[str, dict[str, float]] = {}
    for measure in program.measures:
        last: dict[tuple[str, object], float] = {}
        for measurement in measurements:
            value = measurement.get(measure.name)
            if not isinstance(value, str) and value is not None and finite(value):
                last[_place(program, measure, measurement)] = float(value)
        of_nodes: dict[str, float] = {}
        for (node, _), value in last.items():
            of_nodes[node] = _worst(measure, [value, *([of_nodes[node]] if node in of_nodes else [])])
        if of_nodes:
            by_measure[measure.name] = of_nodes
    return by_measure


def _place(program: SmokeTestProgram, measure: Measure, measurement: Measurement) -> tuple[str, object]:
    """Return the node and the process of a number; nothing where rank 0 reports one number for all."""
    if measure.per == "rank":
        return str(measurement.get("host", "")), measurement.get("rank")
    return ("", None) if program.ranked else (str(measurement.get("host", "")), measurement.get("task"))


def measurable(program: SmokeTestProgram, ranks: int, local_ranks: int) -> SmokeTestProgram:
    """Return a program with the measures and lines that these ranks can have: with one rank nothing moves."""
    count = {"ranks": ranks, "local_ranks": local_ranks}
    without = {measure.name for measure in program.measures if measure.between and count[measure.between] < 2}
    if not without:
        return program
    return replace(
        program,
        measures=tuple(measure for measure in program.measures if measure.name not in without),
        lines=tuple(line for line in program.lines if line.measure not in without),
        headline=_without(program.headline, without),
    )


def _without(text: str, names: set[str]) -> str:
    """Return a headline with a dash for each of some measures."""
    shorter = PLACEHOLDER.sub(lambda place: "-" if place[1] in names else place[0], text)
    return text if shorter == text else f"{shorter} (-: not measured, one rank moves nothing)"


def unreported(program: SmokeTestProgram, by_measure: Numbers, nodes: Sequence[str]) -> Shortfall | None:
    """Return the declared measure that is not reported: by any process, or by each of these nodes."""
    for measure in (measure for measure in program.measures if measure.shown != "text"):
        if measure.name not in by_measure:
            return Shortfall(f"reported no {measure.name}: the result is incomplete")
        silent = [node for node in nodes if node not in by_measure[measure.name]]
        if silent:
            place = f" on {fold(silent)}" if len(silent) > 1 else ""
            text = f"reported no {measure.name}{place}: the result is incomplete"
            return Shortfall(text, silent[0] if len(silent) == 1 else None)
    return None


def silent_rank(program: SmokeTestProgram, measurements: Sequence[Measurement], ranks: int) -> tuple[int, str] | None:
    """Return the first rank without a number that each rank reports, and the measure."""
    for measure in (measure for measure in program.measures if measure.per == "rank" and measure.shown != "text"):
        spoke = {measurement.get("rank") for measurement in measurements if measure.name in measurement}
        rank = next((rank for rank in range(ranks) if rank not in spoke), None)
        if rank is not None:
            return rank, measure.name
    return None


def headline(program: SmokeTestProgram, by_measure: Numbers) -> str:
    """Return the number to quote; "" if a measure for it is missing."""
    measures = {measure.name: measure for measure in program.measures}
    if any(name not in by_measure for name, _ in PLACEHOLDER.findall(program.headline)):
        return ""
    return PLACEHOLDER.sub(lambda match: _quoted(measures[match[1]], by_measure[match[1]], match[2]), program.headline)


def _quoted(measure: Measure, by_node: Mapping[str, float], which: str | None) -> str:
    if which == "worst_node":
        worst = _worst(measure, list(by_node.values()))
        return next(node for node, value in by_node.items() if value == worst)
    return shown(measure, _worst(measure, list(by_node.values())) if which == "worst" else median(by_node.values()))


def missed(program: SmokeTestProgram, by_measure: Numbers) -> Shortfall | None:
    """Return the missed limits with the numbers; None if all hold. Every measure must have been reported."""
    measures = {measure.name: measure for measure in program.measures}
    texts, nodes = [], set[str]()
    for line in program.lines:
        if line.bound.endswith(("_of_derived", "_of_baseline")):
            continue  # `lines` compares with references from outside of the step
        by_node = by_measure[line.measure]
        limit = limit_of(line, by_node)
        low = line.bound.startswith("at_least")
        beyond = {node: value for node, value in by_node.items() if (value < limit if low else value > limit)}
        if beyond:
            texts.append(_missed(measures[line.measure], line, limit, beyond, by_node))
            nodes |= {*beyond} if _shows_which(line, measures[line.measure], by_node) else {""}
    return Shortfall("; ".join(texts), nodes.pop() if len(nodes) == 1 and "" not in nodes else None) if texts else None


def _shows_which(line: Threshold, measure: Measure, by_node: Mapping[str, float]) -> bool:
    """Whether a number beyond the line is its node's fault: a median, and a rank's number, may depend on others."""
    compared = line.bound.endswith("_of_median") or measure.per == "rank"
    return not compared or len(by_node) >= _JUDGES


def limit_of(line: Threshold, by_node: Mapping[str, float]) -> float:
    """Return the limit as a number: its own, or that part of the median."""
    return line.number * (median(by_node.values()) if line.bound.endswith("_of_median") else 1)


def uneven(
    program: SmokeTestProgram, measurements: Sequence[Measurement], hardware: Mapping[str, str]
) -> Shortfall | None:
    """Return the nodes with another text than most of their hardware, or with none. `hardware` has every node.

    Without a text of more than half of them, list all and blame no node.
    """
    texts, nodes = [], set[str]()
    for measure in (measure for measure in program.measures if measure.shown == "text"):
        text_by_node = {
            str(measurement.get("host", "")): str(measurement[measure.name])
            for measurement in measurements
            if measure.name in measurement
        }
        for kind in dict.fromkeys(hardware.values()):
            by_node = {node: text_by_node.get(node, "") for node in hardware if hardware[node] == kind}
            usual, count = Counter(by_node.values()).most_common(1)[0]
            has_usual = bool(usual) and 2 * count > len(by_node)
            others = {node: text for node, text in by_node.items() if text != usual or not usual}
            if not others:
                continue
            listed = others if has_usual else by_node
            nodes |= {*listed}
            values = ", ".join(f"{node} has {text or 'not reported'}" for node, text in [*listed.items()][:_MAX_LISTED])
            rest = f"; {count} nodes of {kind} have {usual}" if has_usual else ""
            texts.append(f"{measure.name} differs: {values}{rest}")
    return Shortfall("; ".join(texts), nodes.pop() if len(nodes) == 1 else None) if texts else None


def _missed(
    measure: Measure, line: Threshold, limit: float, beyond: Mapping[str, float], by_node: Mapping[str, float]
) -> str:
    requirement = f"{line.bound.split('_of_')[0].replace('_', ' ')} {_with_unit(measure, limit)}"
    if line.bound.endswith("_of_median"):
        requirement += f", {line.number:g} of the median"
    if len(by_node) == 1:
        return f"{measure.name} is {_with_unit(measure, *beyond.values())}, and must be {requirement}"
    low = line.bound.startswith("at_least")
    order = sorted(beyond, key=lambda node: beyond[node] if low else -beyond[node])
    bad = ", ".join(f"{node} {_with_unit(measure, beyond[node])}" for node in order[:_MAX_LISTED])
    more = f" and {len(order) - _MAX_LISTED} more" if len(order) > _MAX_LISTED else ""
    others = [node for node in by_node if node not in beyond]
    rest = ", ".join(f"{node} {shown(measure, by_node[node])}" for node in others) if len(others) <= _MAX_LISTED else ""
    return f"{measure.name} must be {requirement}: {bad}{more}" + (f" ({rest})" if rest else "")


def shown(measure: Measure, value: float) -> str:
    """Format a number for people: 1.23, 9,411 or 16 MiB."""
    if measure.shown == "size":
        return _size(round(value))
    if measure.shown == "count" or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _with_unit(measure: Measure, value: float) -> str:
    unit = "" if measure.unit == "1" or measure.shown == "size" else f" {measure.unit}"
    return f"{shown(measure, value)}{unit}"


def _size(size_bytes: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >= 1 << power and size_bytes % (1 << power) == 0:
            return f"{size_bytes >> power} {unit}"
    return f"{size_bytes} B"


def _worst(measure: Measure, values: Sequence[float]) -> float:
    return max(values) if measure.better == "lower" else min(values)
