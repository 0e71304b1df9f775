"""A guard for speed: today's figures beside those of `kept.yaml`. `make bench-quick`, as root, 3 minutes.

CPU seconds, user and system, are divided by those of a small fixed loop, so that a slower machine compares. What nodes
take in a lab is divided by what a shell script takes on them for the same. The least of several runs counts, since
other work on the machine makes CPU seconds dearer; what is worse is measured again. It exits with 1 where a figure is
still worse by a tenth. `--write` keeps today's figures; `--parts start sizes` needs no root.
"""

from __future__ import annotations

import argparse
import compileall
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import converge
import converge_resources as resources
import scale
import startup
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.machine import work_s

KEPT = Path(__file__).with_name("kept.yaml")
WORSE = 1.1  # today's figure against the kept one
_RUNS, _TRIES = 3, 3
_SIZES = (100, 1_000, 10_000)
_LAB_NODES = 8
_PARTS = ("start", "sizes", "lab")

Figures = dict[str, float]


def worse(kept: Mapping[str, float], today: Mapping[str, float]) -> list[str]:
    """Return the names of figures that are worse than the kept ones by a tenth; one that is not kept is not worse."""
    return [name for name, value in today.items() if name in kept and value > WORSE * kept[name]]


def table(kept: Mapping[str, float], today: Mapping[str, float]) -> str:
    """Return Markdown: the kept figure, today's, and how many times as much that is."""
    lines = ["| figure | kept | today | times |", "|---|---|---|---|"]
    for name, value in today.items():
        old = kept.get(name)
        lines.append(
            f"| {name} | {'' if old is None else f'{old:.4g}'} | {value:.4g} | {f'{value / old:.2f}' if old else ''} |"
        )
    return "\n".join(lines)


def in_loops(run: Callable[[], float]) -> float:
    """Return the CPU seconds of a run as multiples of the loop's, the least of each."""
    pairs = [(run(), work_s()) for _ in range(_RUNS)]
    took, loop = (min(column) for column in zip(*pairs, strict=True))
    return took / loop


def commands() -> dict[str, Callable[[], Figures]]:
    """Return what measures the start of each command."""

    def measured(name: str) -> Figures:
        words, environment, _ = startup.ROWS[name]
        return {f"{name}, loops": in_loops(lambda: startup.cpu_s([startup.HPCFORGE, *words], environment))}

    return {name: lambda name=name: measured(name) for name in startup.ROWS}  # type: ignore[misc]


def sizes(folder: Path) -> dict[str, Callable[[], Figures]]:
    """Return what measures `validate` and `plan --offline` of each size, with the most memory that they hold."""

    def measured(name: str, words: list[str]) -> Figures:
        memory: list[float] = []

        def run() -> float:
            cpu_s, mib = scale.cost(words)
            memory.append(mib)
            return cpu_s

        return {f"{name}, loops": in_loops(run), f"{name}, MiB": min(memory)}

    found: dict[str, Callable[[], Figures]] = {}
    for nodes in _SIZES:
        (folder / str(nodes)).mkdir()
        path = str(scale.site(folder / str(nodes), nodes))
        for words in (["validate", path], ["plan", "--offline", path]):
            name = f"{' '.join(words[:-1])} of {nodes:,} nodes"
            found[name] = lambda name=name, words=words: measured(name, words)  # type: ignore[misc]
    return found


def lab() -> Figures:
    """Return what hpcforge takes to configure new nodes, and to find nothing to do, as multiples of a shell script."""
    with tempfile.TemporaryDirectory(prefix="hpcforge-bench-") as name:
        folder = Path(name)
        resources.write(folder)
        debs = converge.download(folder)
        floor, ours = (converge.measure(folder, debs, tool, _LAB_NODES) for tool in ("floor", "hpcforge"))
    return {
        "first apply, 8 nodes, nodes' CPU, x shell": ours.first.nodes_cpu_s / floor.first.nodes_cpu_s,
        "no change, 8 nodes, nodes' CPU, x shell": ours.again.nodes_cpu_s / floor.again.nodes_cpu_s,
        "no change, 8 nodes, operator's CPU, loops": ours.again.cpu_s / work_s(),
    }


def judged(measures: Mapping[str, Callable[[], Figures]], kept: Mapping[str, float]) -> Figures:
    """Measure all; what is worse is measured again, some times, and the least counts."""
    today: Figures = {}
    for measure in measures.values():
        found = measure()
        for _ in range(_TRIES - 1):
            if not worse(kept, found):
                break
            again = measure()
            found = {name: min(value, again[name]) for name, value in found.items()}
        today |= found
    return today


def main() -> None:
    """Print the table; exit with 1 where a figure is worse."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS, help="What is measured.")
    parser.add_argument("--write", action="store_true", help="Keep today's figures.")
    chosen = parser.parse_args()
    compileall.compile_dir(Path(__file__).parents[1] / "hpcforge", quiet=1)  # as an installed one is
    kept: Figures = yaml.safe_load(KEPT.read_text(encoding="utf-8"))["figures"] if KEPT.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        parts = {"start": commands, "sizes": lambda: sizes(Path(folder)), "lab": lambda: {"lab": lab}}
        measures = {name: measure for part in chosen.parts for name, measure in parts[part]().items()}
        today = judged(measures, {} if chosen.write else kept)
    print(f"{time.strftime('%F %R')}, the loop takes {work_s():.4f} CPU s\n\n{table(kept, today)}")
    if chosen.write:
        figures = {name: float(f"{value:.4g}") for name, value in (kept | today).items()}
        text = yaml.safe_dump({"measured": time.strftime("%F"), "figures": figures}, sort_keys=False, width=120)
        KEPT.write_text(
            f"# Written by `benchmarks/quick.py --write`. A landing that raises one says why in CHANGELOG.md.\n{text}",
            encoding="utf-8",
        )
    elif found := worse(kept, today):
        sys.exit(f"worse by a tenth: {'; '.join(found)}. Repair it, or say why in CHANGELOG.md and run it with --write")


if __name__ == "__main__":
    main()
