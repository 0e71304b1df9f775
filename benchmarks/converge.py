"""What it costs to configure nodes with hpcforge, ansible-playbook, pyinfra and a shell script: `make bench`, as root.

Thirty resources (`converge_resources.py`) on 1, 8 and 32 nspawn nodes, whose packages are at hand, by four tools. Every
tool gets nodes that were made a moment ago; what it leaves is compared with the list. Then it runs again with nothing
to do. Then hpcforge adds one node to a cluster of 4 and to one of 32. Compare ratios: seconds are this machine's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import converge_resources as resources
import converge_tools as tools
from converge_tools import Bench, Cost

from hpcforge.lab import lab as labs

TOOLS: dict[str, Callable[[Bench], Cost]] = {
    "floor": tools.floor,
    "hpcforge": tools.hpcforge,
    "pyinfra": tools.pyinfra,
    "ansible": tools.ansible,
}
_AGAIN = {"floor": 5, "hpcforge": 5, "pyinfra": 1, "ansible": 1}  # runs with nothing to do; the median counts
_GROWN = (4, 32)


@dataclass(frozen=True)
class Measured:
    """One tool on so many nodes."""

    tool: str
    nodes: int
    first: Cost
    again: Cost


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 8, 32], help="How many nodes, one or more times.")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--no-growth", action="store_true", help="Leave out one node more in a cluster of 4 and of 32.")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("starting nodes takes root")
    print(f"{time.strftime('%F %R')}, {os.cpu_count()} CPUs, load before: {os.getloadavg()[0]:.2f}\n")
    with tempfile.TemporaryDirectory(prefix="hpcforge-bench-") as name:
        folder = Path(name)
        resources.write(folder)
        debs = download(folder)
        measured = list(_measured(folder, debs, chosen.nodes, chosen.tools))
        grown = [] if chosen.no_growth else [_grow(folder, debs, nodes) for nodes in _GROWN]
    _print_targets(measured, _start_of_python())
    _print_growth(grown)


@contextmanager
def made(folder: Path, count: int) -> Iterator[Bench]:
    """New nodes n01, n02, ... that go afterwards."""
    name = f"bench-converge-{os.getpid()}"
    names = tuple(f"n{number:02}" for number in range(1, count + 1))
    try:
        lab = labs.up(
            labs.UpRequest(
                name=name,
                nodes=tuple(labs.LabNode(node, f"10.77.0.{10 + number}") for number, node in enumerate(names, 1)),
                cidr="10.77.0.0/24",
                login_user="ops",
                release="12",
                blueprint=folder,
            ),
            lambda _: None,
        )
        yield Bench(folder, lab, names)
    finally:
        labs.down(name, None, lambda _: None)


def download(folder: Path) -> Path:
    """The packages and all that they need, fetched on a node of their own."""
    debs = folder / "debs"
    debs.mkdir()
    with made(folder, 1) as bench:
        [node] = bench.nodes
        fetch = ["apt-get", "-y", "-q", "install", "--no-install-recommends", "--download-only", *resources.PACKAGES]
        subprocess.run(labs.ssh_argv(bench.lab, node, ["sudo", *fetch]), check=True, capture_output=True)
        for deb in (bench.lab.node_directory(node) / "root/var/cache/apt/archives").glob("*.deb"):
            shutil.copy2(deb, debs)
    return debs


def measure(folder: Path, debs: Path, tool: str, nodes: int) -> Measured:
    """Measure a tool on new nodes: the first apply, and the median of those with nothing to do."""
    with made(folder, nodes) as bench:
        _say(f"{tool} on {nodes}")
        _prepare(bench, debs)
        first = TOOLS[tool](bench)
        tools.check(bench)
        again = _median([TOOLS[tool](bench) for _ in range(_AGAIN[tool])])
        return Measured(tool, nodes, first, again)


def _grow(folder: Path, debs: Path, nodes: int) -> tuple[int, Cost]:
    """What hpcforge takes for the last node, when the others are configured."""
    with made(folder, nodes + 1) as bench:
        _say(f"one more than {nodes}")
        _prepare(bench, debs)
        before = Bench(folder, bench.lab, bench.nodes[:-1])
        _write_blueprint(before)
        tools.hpcforge(before)
        cost = tools.hpcforge(bench)
        tools.check(bench)
        return nodes, cost


def _prepare(bench: Bench, debs: Path) -> None:
    _write_blueprint(bench)
    tools.ready(bench, debs)
    for left in ("state", "ansible"):  # of the run before, whose nodes are gone
        shutil.rmtree(bench.folder / left, ignore_errors=True)
    for secrets in bench.folder.glob("*.age"):
        secrets.unlink()


def _write_blueprint(bench: Bench) -> None:
    bench.blueprint.write_text(resources.blueprint(len(bench.nodes), "10.77.0.0/24"))


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.cpu_s for cost in costs),
        max(cost.memory_mib for cost in costs),
        statistics.median(cost.nodes_cpu_s for cost in costs),
    )


def _start_of_python() -> tuple[float, float]:
    """Wall seconds of the interpreter alone, and of hpcforge until it knows what it was asked."""
    bare = [_timed([sys.executable, "-c", "pass"]) for _ in range(5)]
    whole = [_timed([sys.executable, "-m", "hpcforge", "apply", "--help"]) for _ in range(5)]
    return statistics.median(bare), statistics.median(whole)


def _timed(words: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    return time.perf_counter() - start


def _say(text: str) -> None:
    print(f"{time.strftime('%T')} {text}; load {os.getloadavg()[0]:.2f}", file=sys.stderr, flush=True)


def _measured(folder: Path, debs: Path, sizes: Sequence[int], names: Sequence[str]) -> Iterator[Measured]:
    """Measure and print a row at a time, so that what was measured is there when it is cut off."""
    part = "s | x floor | CPU s | MiB | nodes' CPU s"
    print(f"| nodes | tool | first apply, {part} | no change, {part} |\n|{'---|' * 12}", flush=True)
    for nodes in sizes:
        floor: Measured | None = None
        for name in names:
            one = measure(folder, debs, name, nodes)
            floor = one if name == "floor" else floor
            cells = [str(nodes), name]
            cells += [*_cells(one.first, floor and floor.first), *_cells(one.again, floor and floor.again)]
            print("|", " | ".join(cells), "|", flush=True)
            yield one


def _cells(cost: Cost, floor: Cost | None) -> list[str]:
    ratio = f"{cost.wall_s / floor.wall_s:.2f}" if floor else ""
    return [
        f"{cost.wall_s:.2f}",
        ratio,
        f"{cost.cpu_s:.2f}",
        f"{cost.memory_mib:.0f}",
        f"{cost.nodes_cpu_s:.2f}",
    ]


def _print_targets(measured: Sequence[Measured], start: tuple[float, float]) -> None:
    of = {(one.tool, one.nodes): one for one in measured}
    print(f"\nStart of Python: {start[0]:.3f} s alone, {start[1]:.2f} s with hpcforge's modules.\n")
    print("| target | limit | measured | |\n|---|---|---|---|")
    for nodes in sorted({one.nodes for one in measured}):
        ours, floor = of.get(("hpcforge", nodes)), of.get(("floor", nodes))
        if ours and floor:
            limit = 1.4 if nodes == 1 else 1.15
            _target(f"first apply, {nodes} nodes, x floor", limit, ours.first.wall_s / floor.first.wall_s)
        if ours and floor and nodes > 1:
            most = 1.5 * floor.again.wall_s + start[1]
            _target(f"no change, {nodes} nodes, s: 1.5 x floor + start of Python", most, ours.again.wall_s)
        for tool, part in (("ansible", 1 / 40), ("pyinfra", 1 / 6)):
            other = of.get((tool, nodes))
            if ours and other and nodes > 1:
                _target(f"no change, {nodes} nodes, of {tool}", part, ours.again.wall_s / other.again.wall_s)
    few, many = of.get(("hpcforge", 8)), of.get(("hpcforge", 32))
    if few and many:
        slope_ms = 1000 * (many.again.cpu_s - few.again.cpu_s) / 24
        _target("operator CPU a node between 8 and 32, ms", 30, slope_ms)


def _print_growth(grown: Sequence[tuple[int, Cost]]) -> None:
    for nodes, cost in grown:
        print(f"| one node more than {nodes}, s | | {cost.wall_s:.2f} | |")
    if len(grown) == len(_GROWN):
        (_, few), (_, many) = grown
        _target("one more in 32 against one more in 4", 1.2, many.wall_s / few.wall_s)


def _target(what: str, limit: float, measured: float) -> None:
    print(f"| {what} | {limit:.3g} | {measured:.3g} | {'met' if measured <= limit else 'missed'} |")


if __name__ == "__main__":
    main()
