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

_JUDGES = 3  # nodes that are compared before one is named: of two, the one that lies may be either
_TOLD = 8  # nodes whose numbers are told one by one


@dataclass(frozen=True)
class Shortfall:
    """What falls short: a line for people, and the node, where it is one."""

    text: str
    node: str | None = None


def numbers(program: SmokeTestProgram, measurements: Sequence[Measurement]) -> Numbers:
    """Return the last number of each measure; of several processes of a node the worst."""
    found: dict[str, dict[str, float]] = {}
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
            found[measure.name] = of_nodes
    return found


def _place(program: SmokeTestProgram, measure: Measure, measurement: Measurement) -> tuple[str, object]:
    """Return the node and the process of a number; nothing where rank 0 reports one number for all."""
    if measure.per == "rank":
        return str(measurement.get("host", "")), measurement.get("rank")
    return ("", None) if program.ranked else (str(measurement.get("host", "")), measurement.get("task"))


def measurable(program: SmokeTestProgram, ranks: int, local_ranks: int) -> SmokeTestProgram:
    """Return a program with the measures and lines that these ranks can have: with one rank nothing moves."""
    count = {"ranks": ranks, "local_ranks": local_ranks}
    without = {each.name for each in program.measures if each.between and count[each.between] < 2}
    if not without:
        return program
    return replace(
        program,
        measures=tuple(each for each in program.measures if each.name not in without),
        lines=tuple(line for line in program.lines if line.measure not in without),
        headline=_without(program.headline, without),
    )


def _without(text: str, names: set[str]) -> str:
    """Return a headline with a dash for each of some measures."""
    shorter = PLACEHOLDER.sub(lambda place: "-" if place[1] in names else place[0], text)
    return text if shorter == text else f"{shorter} (-: not measured, one rank moves nothing)"


def unreported(program: SmokeTestProgram, of: Numbers, nodes: Sequence[str]) -> Shortfall | None:
    """Return the declared measure that is not reported: by any process, or by each of these nodes."""
    for measure in (measure for measure in program.measures if measure.shown != "text"):
        if measure.name not in of:
            return Shortfall(f"reported no {measure.name}: the result is incomplete")
        silent = [node for node in nodes if node not in of[measure.name]]
        if silent:
            where = f" on {fold(silent)}" if len(silent) > 1 else ""
            text = f"reported no {measure.name}{where}: the result is incomplete"
            return Shortfall(text, silent[0] if len(silent) == 1 else None)
    return None


def silent_rank(program: SmokeTestProgram, measurements: Sequence[Measurement], ranks: int) -> tuple[int, str] | None:
    """Return the first rank without a number that each rank reports, and the measure."""
    for measure in (measure for measure in program.measures if measure.per == "rank" and measure.shown != "text"):
        spoke = {each.get("rank") for each in measurements if measure.name in each}
        rank = next((rank for rank in range(ranks) if rank not in spoke), None)
        if rank is not None:
            return rank, measure.name
    return None


def headline(program: SmokeTestProgram, of: Numbers) -> str:
    """Return the number to quote; "" if a measure for it is missing."""
    measures = {measure.name: measure for measure in program.measures}
    if any(name not in of for name, _ in PLACEHOLDER.findall(program.headline)):
        return ""
    return PLACEHOLDER.sub(lambda found: _quoted(measures[found[1]], of[found[1]], found[2]), program.headline)


def _quoted(measure: Measure, by_node: Mapping[str, float], which: str | None) -> str:
    if which == "worst_node":
        worst = _worst(measure, list(by_node.values()))
        return next(node for node, value in by_node.items() if value == worst)
    return shown(measure, _worst(measure, list(by_node.values())) if which == "worst" else median(by_node.values()))


def missed(program: SmokeTestProgram, of: Numbers) -> Shortfall | None:
    """Which lines are missed, with the numbers; None where all hold. Every measure must have been reported."""
    measures = {measure.name: measure for measure in program.measures}
    texts, nodes = [], set[str]()
    for line in program.lines:
        if line.bound.endswith(("_of_derived", "_of_baseline")):
            continue  # `lines` compares with what comes from outside of the step
        by_node = of[line.measure]
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
    """Which nodes reported another text than most nodes of their hardware, or none. `hardware` is that of every node.

    Where no text is that of more than half of them, all are told, and no node is blamed.
    """
    texts, nodes = [], set[str]()
    for measure in (measure for measure in program.measures if measure.shown == "text"):
        of = {str(each.get("host", "")): str(each[measure.name]) for each in measurements if measure.name in each}
        for kind in dict.fromkeys(hardware.values()):
            alike = {node: of.get(node, "") for node in hardware if hardware[node] == kind}
            usual, count = Counter(alike.values()).most_common(1)[0]
            known = bool(usual) and 2 * count > len(alike)
            others = {node: text for node, text in alike.items() if text != usual or not usual}
            if not others:
                continue
            told = others if known else alike
            nodes |= {*told}
            said = ", ".join(f"{node} has {text or 'not reported'}" for node, text in [*told.items()][:_TOLD])
            rest = f"; {count} nodes of {kind} have {usual}" if known else ""
            texts.append(f"{measure.name} differs: {said}{rest}")
    return Shortfall("; ".join(texts), nodes.pop() if len(nodes) == 1 else None) if texts else None


def _missed(
    measure: Measure, line: Threshold, limit: float, beyond: Mapping[str, float], by_node: Mapping[str, float]
) -> str:
    wanted = f"{line.bound.split('_of_')[0].replace('_', ' ')} {_with_unit(measure, limit)}"
    if line.bound.endswith("_of_median"):
        wanted += f", {line.number:g} of the median"
    if len(by_node) == 1:
        return f"{measure.name} is {_with_unit(measure, *beyond.values())}, and must be {wanted}"
    low = line.bound.startswith("at_least")
    order = sorted(beyond, key=lambda node: beyond[node] if low else -beyond[node])
    bad = ", ".join(f"{node} {_with_unit(measure, beyond[node])}" for node in order[:_TOLD])
    more = f" and {len(order) - _TOLD} more" if len(order) > _TOLD else ""
    others = [node for node in by_node if node not in beyond]
    rest = ", ".join(f"{node} {shown(measure, by_node[node])}" for node in others) if len(others) <= _TOLD else ""
    return f"{measure.name} must be {wanted}: {bad}{more}" + (f" ({rest})" if rest else "")


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
