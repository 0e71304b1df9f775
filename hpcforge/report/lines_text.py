"""The lines that a smoke test's numbers will be compared with, before it runs: for people, and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster, Measure, SmokeTest
from hpcforge.report.text import one_line, within
from hpcforge.verify.lines import DerivedValue, LineToCome, lines_to_come
from hpcforge.verify.measurements import shown

Explained = Sequence[tuple[SmokeTest, Mapping[str, DerivedValue]]]


def lines_text(tests: Explained) -> str:
    """Each test with its nodes; under each measure its lines, and how a derived one came about."""
    return "".join(f"{line}\n" for test, derived in tests for line in _of_test(test, derived))


def _of_test(test: SmokeTest, derived: Mapping[str, DerivedValue]) -> Iterator[str]:
    program = test.program
    yield f"{test.name} on {len(test.nodes)} nodes, {fold(test.nodes)}: {program.description}"
    lines = lines_to_come(program, derived)
    for measure in program.measures:
        of_it = [line for line in lines if line.measure == measure.name]
        reason = derived.get(measure.name)
        if not (measure.better or of_it or reason):
            continue
        unit = "" if measure.unit == "1" else f", {measure.unit}"
        better = f", {measure.better} is better" if measure.better else ""
        yield f"  {measure.name}{unit}{better}"
        yield from (f"    {_line(measure, line)}" for line in of_it)
        if not of_it and reason is None:
            yield "    no line: the number is shown, and kept for baselines"
        if reason is not None:
            yield from (f"      {row}" for row in reason.derivation.splitlines())


def _line(measure: Measure, line: LineToCome) -> str:
    what = f"{shown(measure, line.limit)}, {line.source}" if line.limit is not None else line.source
    return f"{line.bound.replace('_', ' ')} {what}: {'refuses' if line.refuses else 'shown only'}"


def lines_json(tests: Explained) -> dict[str, Any]:
    """The same; `derivations` also has why a bandwidth is not derived."""
    return {
        "schema_version": 1,
        "tests": [
            {
                "test": test.name,
                "nodes": list(test.nodes),
                "lines": [asdict(line) for line in lines_to_come(test.program, derived)],
                "derivations": {measure: known.derivation for measure, known in derived.items()},
            }
            for test, derived in tests
        ],
    }


# NCCL and UCX settings for a cluster's fabrics, as text and as JSON.


SCHEMA_VERSION = 1


def collectives_text(cluster: Cluster, columns: int | None = None) -> str:
    """Lines for workers on the same fabrics: first the settings, then the variables left to the library."""
    parts = []
    for fabrics, names in _alike(cluster).items():
        found = cluster.collectives(fabrics)
        over = f"over {found.fabric}" if found.fabric else "over IP"
        lines = [f"{fold(names)}: collectives go {over}"]
        for setting in found.settings:
            lines += [f"  {setting.name}={setting.value}", f"      {setting.why}", f"      {setting.source}"]
        lines += ["  Left to the library"]
        for left in found.left:
            lines += [f"  {left.name}", f"      {left.why}", f"      {left.source}"]
        parts.append("".join(f"{one_line(line)}\n" for line in lines))
    return within("\n".join(parts), columns) or "there are no workers\n"


def collectives_json(cluster: Cluster) -> dict[str, Any]:
    """The same for programs."""
    alike = [
        {"nodes": list(names), **dataclasses.asdict(cluster.collectives(fabrics))}
        for fabrics, names in _alike(cluster).items()
    ]
    return {"schema_version": SCHEMA_VERSION, "cluster": cluster.name, "workers": alike}


def _alike(cluster: Cluster) -> dict[tuple[str, ...], tuple[str, ...]]:
    alike: dict[tuple[str, ...], tuple[str, ...]] = {}
    for node in cluster.workers:
        alike[node.fabrics] = (*alike.get(node.fabrics, ()), node.name)
    return alike
