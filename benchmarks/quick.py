"""A guard for speed: today's figures beside the last line of `history.csv`. `make bench-quick`, as root, 3 minutes.

Each figure is a ratio to a floor that takes turns with it (`rounds.py`). CPU seconds, user and system, of start-up are
divided by those of an interpreter that does nothing; those of `validate` and `plan --offline` of many nodes, and of an
apply that changes nothing, by those of a small loop. What a lab's nodes take is divided by what a shell script takes on
them. MiB are as they are. What is worse by a tenth is measured again, at most twice; where it still is, the exit status
is 1. `--record` appends today's line; `--parts start sizes` needs no root.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import converge
import converge_resources as resources
import converge_tools as tools
import history
import rounds
import scale
import startup
from rounds import Cost, Spread

sys.path.insert(0, str(startup.ROOT))
from tests.support.machine import works_s

_STARTS = 7  # rounds
_SIZES = {100: (3, 5), 1_000: (3, 5), 10_000: (2, 20)}  # rounds, and runs of the loop beside each
_LAB_NODES, _FIRST, _AGAIN = 4, 2, 5  # nodes, rounds of a first apply, and of one with nothing to do
_FLOORS, _LOOPS = 5, 20  # runs of a short floor, and of the loop beside an apply, that are one turn
_TRIES = 3
_PARTS = ("start", "sizes", "lab")

Figures = dict[str, Spread]
Measure = Callable[[], Figures]


def worse(last: Mapping[str, float], today: Mapping[str, Spread]) -> list[str]:
    """Return the figures that are worse than the last ones by a tenth; one that is new is not worse."""
    return [name for name, value in today.items() if name in last and value.median > history.WORSE * last[name]]


def table(last: Mapping[str, float], today: Mapping[str, Spread]) -> str:
    """Return Markdown: the last figure, today's with its lowest and highest, and how many times as much that is."""
    rows = ["| figure | last | today | lowest to highest | rounds | times |", f"|{'---|' * 6}"]
    for name, value in today.items():
        old = last.get(name)
        before, times = (f"{old:.4g}", f"{value.median / old:.2f}") if old else ("", "")
        span = f"{value.lowest:.4g} to {value.highest:.4g}"
        rows.append(f"| {name} | {before} | {value.median:.4g} | {span} | {value.values} | {times} |")
    return "\n".join(rows)


def start() -> Figures:
    """Measure the start of each command."""

    def cpu(program: list[str], environment: dict[str, str], runs: int = 1) -> Cost:
        return Cost(0.0, statistics.mean(startup.cpu_s(program, environment) for _ in range(runs)), 0.0)

    programs = {
        name: partial(cpu, [startup.HPCFORGE, *words], environment)
        for name, (words, environment, _) in startup.ROWS.items()
    }
    compared = rounds.compare(partial(cpu, [sys.executable, "-c", ""], {}, _FLOORS), programs, _STARTS, "cpu_s")
    return {name: one.ratio("cpu_s") for name, one in compared.items()}


def loop(runs: int) -> Cost:
    return Cost(0.0, statistics.mean(works_s(runs)), 0.0)


def sizes(folder: Path, nodes: int) -> Figures:
    """Measure `validate` and `plan --offline` of a size, with the most memory that they hold."""
    folder = folder / str(nodes)
    folder.mkdir(exist_ok=True)
    path = str(scale.site(folder, nodes))
    programs = {
        f"{words[0]} {nodes}": partial(scale.cost, [*words, path]) for words in (["validate"], ["plan", "--offline"])
    }
    count, loops = _SIZES[nodes]
    figures: Figures = {}
    for name, one in rounds.compare(partial(loop, loops), programs, count, "cpu_s").items():
        figures |= {name: one.ratio("cpu_s"), f"{name} MiB": one.spread("memory_mib")}
    return figures


@contextmanager
def lab() -> Iterator[dict[str, Measure]]:
    """Yield what measures first applies, each on new nodes, and no change on the nodes of the last one."""
    with tempfile.TemporaryDirectory(prefix="hpcforge-bench-") as name, ExitStack() as nodes:
        folder = Path(name)
        resources.write(folder)
        benches: list[tools.Bench] = []

        def configure(tool: str) -> Cost:
            nodes.close()
            benches.append(nodes.enter_context(converge.made(folder, _LAB_NODES)))
            debs = folder / "debs"
            return converge.configure(benches[-1], debs if debs.exists() else converge.fetch(benches[-1]), tool)

        def first() -> Figures:
            programs = {"first apply": partial(configure, "hpcforge")}
            [one] = rounds.compare(partial(configure, "floor"), programs, _FIRST, "nodes_cpu_s").values()
            return {"first apply": one.ratio("nodes_cpu_s")}

        yield {"first": first, "again": lambda: again(benches[-1])}


def again(bench: tools.Bench) -> Figures:
    """Measure hpcforge with nothing to do, on nodes that a tool has configured."""

    def floor() -> Cost:
        return replace(tools.floor(bench, _FLOORS), cpu_s=loop(_LOOPS).cpu_s)

    tools.hpcforge(bench)
    programs = {"no change": partial(tools.hpcforge, bench)}
    [one] = rounds.compare(floor, programs, _AGAIN, "nodes_cpu_s").values()
    return {"no change": one.ratio("nodes_cpu_s"), "no change operator": one.ratio("cpu_s")}


def judged(measures: Mapping[str, Measure], last: Mapping[str, float]) -> Figures:
    """Measure all; what is worse is measured again, some times, and the least counts."""
    today: Figures = {}
    for measure in measures.values():
        figures = measure()
        for _ in range(_TRIES - 1):
            if not worse(last, figures):
                break
            more = measure()
            figures = {
                name: min(value, more[name], key=lambda spread: spread.median) for name, value in figures.items()
            }
        today |= figures
    return today


def measured(parts: list[str], last: Mapping[str, float]) -> Figures:
    """Measure the parts."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        measures: dict[str, Measure] = {}
        if "start" in parts:
            measures["start"] = start
        if "sizes" in parts:
            measures |= {f"sizes {nodes}": partial(sizes, folder, nodes) for nodes in _SIZES}
        if "lab" in parts:
            measures |= stack.enter_context(lab())
        return judged(measures, last)


def main() -> None:
    """Print the table; exit with 1 where a figure is worse."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS, help="What is measured.")
    parser.add_argument("--record", action="store_true", help="Append today's figures to history.csv.")
    parser.add_argument("--compare", nargs="*", metavar="COMMIT", help="Compare its last two lines, or two commits'.")
    chosen = parser.parse_args()
    if chosen.compare is not None:
        if len(chosen.compare) not in (0, 2):
            parser.error("--compare takes two commits or none")
        print(history.changes(chosen.compare))
        return
    if chosen.record and set(chosen.parts) != set(_PARTS):
        parser.error("--record takes all parts")
    if "lab" in chosen.parts and os.geteuid() != 0:
        sys.exit("starting nodes takes root: --parts start sizes does without")
    began_s, load = time.monotonic(), os.getloadavg()[0]
    compileall.compile_dir(startup.ROOT / "hpcforge", quiet=1)  # as an installed one is
    last = history.figures(history.lines()[-1]) if history.lines() else {}
    today = measured(chosen.parts, last)
    print(f"{time.strftime('%F %R')}, {time.monotonic() - began_s:.0f} s, loop {1000 * loop(5).cpu_s:.1f} ms, ", end="")
    print(f"load before: {load:.2f}\n\n{table(last, today)}")
    if chosen.record:
        history.append({name: value.median for name, value in today.items()})
    if names := worse(last, today):
        sys.exit(f"worse by a tenth: {'; '.join(names)}. Repair it, or say why in the commit and in CHANGELOG.md")


if __name__ == "__main__":
    main()
