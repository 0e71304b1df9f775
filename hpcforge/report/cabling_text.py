"""Cables that differ from the drawing, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.design.fabric.as_built import CableMove, CablingFinding, CablingReport
from hpcforge.report.text import one_line

_SHOWN = 8  # moves of one finding; --json has all


def cabling_text(
    report: CablingReport, doubts: Sequence[str], silent: Mapping[str, str], left_out: Sequence[str] = ()
) -> str:
    """Write the findings, each with its fix and the resulting labels of cables; last, the totals."""
    lines: list[str] = []
    for finding in report.findings:
        lines += [f"{finding.kind}: {finding.message}", *_moves(finding)]
    lines += [f"not certain: {doubt}" for doubt in doubts]
    lines += [f"not understood: {entry}" for entry in left_out[:_SHOWN]]
    lines += [f"not understood: {len(left_out) - _SHOWN} more, in --json"] if len(left_out) > _SHOWN else []
    reasons: dict[str, list[str]] = {}
    for name, why in silent.items():
        reasons.setdefault(why, []).append(name)
    lines += [f"not asked: {_names(names)}: {why}" for why, names in reasons.items()]
    lines.append(_sum(report))
    return "".join(f"{one_line(line)}\n" for line in lines)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if any(" " in name for name in names) else fold(names)


def _sum(report: CablingReport) -> str:
    moves = f"{report.moves} {'thing' if report.moves == 1 else 'things'} to do" if report.findings else "as drawn"
    unchecked = f", {report.unchecked} not checked: neither end was queried" if report.unchecked else ""
    return (
        f"{report.as_drawn} cables are as drawn{unchecked}: {moves}"
        if report.findings
        else (f"{report.as_drawn} cables are as drawn{unchecked}")
    )


def _moves(finding: CablingFinding) -> list[str]:
    lines = []
    for move in finding.moves[:_SHOWN]:
        lines.append(f"  {_move(move)}")
        if move.labels:
            lines += [f"    label: {label}" for label in move.labels]
    if len(finding.moves) > _SHOWN:
        lines.append(f"  and {len(finding.moves) - _SHOWN} more, in --json")
    return lines


def _move(move: CableMove) -> str:
    if move.action == "move":
        return f"move the plug in {move.taken} to {move.into}"
    return {
        "plug in": f"plug in, or replace: {move.cable}",
        "take away": f"take away: {move.cable}",
        "look": f"look at: {move.cable}",
    }[move.action]


def cabling_json(
    report: CablingReport, doubts: Sequence[str], silent: Mapping[str, str], left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the findings as data."""
    return {
        "schema_version": 1,
        "as_drawn": report.as_drawn,
        "unchecked": report.unchecked,
        "moves": report.moves,
        "findings": [
            {
                "kind": finding.kind,
                "message": finding.message,
                "exchange": finding.exchange,
                "moves": [_move_json(move) for move in finding.moves],
            }
            for finding in report.findings
        ],
        "doubts": list(doubts),
        "left_out": list(left_out),
        "silent": dict(silent),
    }


def _move_json(move: CableMove) -> dict[str, Any]:
    return {
        "action": move.action,
        "cable": [{"device": port.device, "port": port.name} for port in move.cable],
        "from": move.taken and {"device": move.taken.device, "port": move.taken.name},
        "to": move.into and {"device": move.into.device, "port": move.into.name},
        "labels": move.labels,
    }
