"""What it costs to configure nodes with hpcforge, ansible-playbook, pyinfra and a shell script: `make bench`, as root.

Thirty resources (`converge_resources.py`) on nspawn nodes, whose packages are at hand, by four tools that take turns
with the base (`rounds.py`). For a first apply every tool gets nodes that were made a moment ago, and what it leaves is
compared with the list. With nothing to do, all tools run on the same nodes. Then hpcforge adds one node to a cluster of
4 and to one of 32. Compare ratios: seconds are this machine's.

Two commits: `--tools hpcforge /path/to/a/checkout --base hpcforge`.
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
from functools import partial
from pathlib import Path

import converge_resources as resources
import converge_tools as tools
import rounds
from converge_tools import Bench
from rounds import Compared, Cost, Spread

from hpcforge.lab import lab as labs

Tool = Callable[[Bench], Cost]

TOOLS: dict[str, Tool] = {
    "floor": tools.floor,
    "hpcforge": tools.hpcforge,
    "pyinfra": tools.pyinfra,
    "ansible": tools.ansible,
}
PARTS = ("first", "again")
_SHORT_RUNS = 5  # of the floor with nothing to do: their median is one turn, since each takes a third of a second
_GROWN = (4, 32)
_LIMITS = (("floor", 1 / 1.5), ("pyinfra", 8), ("ansible", 60))  # with nothing to do, how many times faster


@dataclass(frozen=True)
class Measured:
    """The tools beside a base on so many nodes: the first apply, and with nothing to do."""

    nodes: int
    first: dict[str, Compared]
    again: dict[str, Compared]


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 8, 32], help="How many nodes, one or more times.")
    parser.add_argument("--tools", nargs="+", default=list(TOOLS)[1:], help=f"{', '.join(TOOLS)} or a checkout's path.")
    parser.add_argument("--base", default="floor", help="What the tools take turns with.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3, help="Rounds of a first apply; with nothing to do, twice.")
    parser.add_argument("--no-growth", action="store_true", help="Leave out one node more in a cluster of 4 and of 32.")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("starting nodes takes root")
    print(f"{time.strftime('%F %R')}, {os.cpu_count()} CPUs, load before: {os.getloadavg()[0]:.2f}\n")
    measured = []
    with prepared() as (folder, debs):
        for nodes in chosen.nodes:
            measured.append(_measure(folder, debs, nodes, chosen))
            _print_rows(measured[-1], chosen.base)
        grown = [] if chosen.no_growth else [_grow(folder, debs, nodes) for nodes in _GROWN]
    _print_targets(measured)
    _print_growth(grown)


@contextmanager
def prepared() -> Iterator[tuple[Path, Path]]:
    """Write the tools' inputs to a new folder, fetch the packages, and return both folders."""
    with tempfile.TemporaryDirectory(prefix="hpcforge-bench-") as name:
        folder = Path(name)
        resources.write(folder)
        yield folder, download(folder)


@contextmanager
def made(folder: Path, count: int, cidr: str = "10.77.0.0/24") -> Iterator[Bench]:
    """New nodes n01, n02, ... that go afterwards."""
    name = f"bench-converge-{os.getpid()}"
    names = tuple(f"n{number:02}" for number in range(1, count + 1))
    try:
        lab = labs.up(
            labs.UpRequest(
                name=name,
                nodes=tuple(labs.LabNode(node, f"10.77.0.{10 + number}") for number, node in enumerate(names, 1)),
                cidr=cidr,
                login_user="ops",
                release="12",
                blueprint=folder,
            ),
            lambda _: None,
        )
        yield Bench(folder, lab, names)
    finally:
        try:
            labs.down(name, None, lambda _: None)
        except KeyboardInterrupt:  # the lab goes all the same
            labs.down(name, None, lambda _: None)
            raise


def download(folder: Path) -> Path:
    """The packages and all that they need, fetched on a node of their own."""
    with made(folder, 1) as bench:
        return fetch(bench)


def fetch(bench: Bench) -> Path:
    """Fetch the packages and all that they need on the first node, and return their folder."""
    debs, node = bench.folder / "debs", bench.nodes[0]
    words = ["apt-get", "-y", "-q", "install", "--no-install-recommends", "--download-only", *resources.PACKAGES]
    subprocess.run(labs.ssh_argv(bench.lab, node, ["sudo", *words]), check=True, capture_output=True)
    debs.mkdir()
    for deb in (bench.lab.node_directory(node) / "root/var/cache/apt/archives").glob("*.deb"):
        shutil.copy2(deb, debs)
    return debs


def tool(name: str) -> Tool:
    """Return what runs a tool of this name, or the hpcforge of a checkout."""
    return TOOLS.get(name) or partial(tools.hpcforge, checkout=Path(name).resolve())


def first(folder: Path, debs: Path, name: str, nodes: int) -> Cost:
    """Measure a tool's first apply on new nodes."""
    with made(folder, nodes) as bench:
        return configure(bench, debs, name)


def configure(bench: Bench, debs: Path, name: str) -> Cost:
    """Measure a tool on nodes that were made a moment ago, and check what it leaves."""
    _say(f"{name} on {len(bench.nodes)} new nodes")
    prepare(bench, debs)
    cost = tool(name)(bench)
    tools.check(bench)
    return cost


def again(bench: Bench, base: str, names: Sequence[str], count: int) -> dict[str, Compared]:
    """Measure tools with nothing to do: each has run once on these nodes."""
    for name in (base, *names):
        _say(f"{name} on {len(bench.nodes)} configured nodes")
        tool(name)(bench)
    runs = {name: partial(tool(name), bench) for name in names}
    turn = partial(tools.floor, bench, _SHORT_RUNS) if base == "floor" else partial(tool(base), bench)
    return rounds.compare(turn, runs, count)


def _measure(folder: Path, debs: Path, nodes: int, chosen: argparse.Namespace) -> Measured:
    new: dict[str, Compared] = {}
    old: dict[str, Compared] = {}
    if "first" in chosen.parts:
        runs = {name: partial(first, folder, debs, name, nodes) for name in chosen.tools}
        new = rounds.compare(partial(first, folder, debs, chosen.base, nodes), runs, chosen.rounds)
    if "again" in chosen.parts:
        with made(folder, nodes) as bench:
            prepare(bench, debs)
            old = again(bench, chosen.base, chosen.tools, 2 * chosen.rounds)
    return Measured(nodes, new, old)


def _grow(folder: Path, debs: Path, nodes: int) -> tuple[int, Cost]:
    """What hpcforge takes for the last node, when the others are configured."""
    with made(folder, nodes + 1) as bench:
        _say(f"one more than {nodes}")
        prepare(bench, debs)
        before = Bench(folder, bench.lab, bench.nodes[:-1])
        _write_blueprint(before)
        tools.hpcforge(before)
        cost = tools.hpcforge(bench)
        tools.check(bench)
        return nodes, cost


def prepare(bench: Bench, debs: Path) -> None:
    """Write the blueprint, give the nodes the packages, and forget the nodes before these."""
    _write_blueprint(bench)
    tools.ready(bench, debs)
    for left in ("state", "ansible"):  # of the run before, whose nodes are gone
        shutil.rmtree(bench.folder / left, ignore_errors=True)
    for secrets in bench.folder.glob("*.age"):
        secrets.unlink()


def _write_blueprint(bench: Bench) -> None:
    bench.blueprint.write_text(resources.blueprint(len(bench.nodes), "10.77.0.0/24"))


def _say(text: str) -> None:
    print(f"{time.strftime('%T')} {text}; load {os.getloadavg()[0]:.2f}", file=sys.stderr, flush=True)


def _print_rows(measured: Measured, base: str) -> None:
    """Print a table a part: the base and each tool, with medians and ratios of pairs."""
    for part in PARTS:
        compared: dict[str, Compared] = getattr(measured, part)
        if not compared:
            continue
        title = "first apply" if part == "first" else "no change"
        print(f"| {title}, {measured.nodes} nodes | s | x {base} | CPU s | MiB | nodes' CPU s | x {base} | rounds |")
        print(f"|{'---|' * 8}")
        bases = rounds.median([one.base() for one in compared.values()])
        print("|", " | ".join([base, *_cells(bases, "1.00", "1.00"), ""]), "|")
        for name, one in compared.items():
            cells = _cells(one.median(), str(one.ratio("wall_s")), str(one.ratio("nodes_cpu_s")))
            shaken = f", {one.unsteady} unsteady" if one.unsteady else ""
            print("|", " | ".join([name, *cells, f"{len(one.runs)}{shaken}"]), "|")
        print(flush=True)


def _cells(cost: Cost, wall: str, nodes_cpu: str) -> list[str]:
    spent = [f"{cost.cpu_s:.2f}", f"{cost.memory_mib:.0f}", f"{cost.nodes_cpu_s:.2f}"]
    return [f"{cost.wall_s:.2f}", wall, *spent, nodes_cpu]


def _print_targets(measured: Sequence[Measured]) -> None:
    """Print what was promised of hpcforge beside what was measured."""
    start_s = statistics.median(_start_s() for _ in range(5))
    print(f"Start of `hpcforge apply` until it reads its blueprint: {start_s:.2f} s.\n")
    print("| target | limit | measured | |\n|---|---|---|---|")
    for one in measured:
        if ours := one.first.get("hpcforge"):
            limit = 1.4 if one.nodes == 1 else 1.1
            _print_target(f"first apply, {one.nodes} nodes, x floor", limit, ours.ratio("wall_s"))
        if not (ours := one.again.get("hpcforge")) or one.nodes == 1:
            continue
        most_s = 1.5 * ours.base().wall_s + start_s
        _print_target(f"no change, {one.nodes} nodes, s: 1.5 x floor + start", most_s, ours.median().wall_s)
        for peer, times in _LIMITS[1:]:
            if other := one.again.get(peer):
                _print_target(
                    f"no change, {one.nodes} nodes, of {peer}", 1 / times, ours.median().wall_s / other.median().wall_s
                )
    sizes = {one.nodes: one.again["hpcforge"].median().cpu_s for one in measured if "hpcforge" in one.again}
    if {8, 32} <= sizes.keys():
        _print_target("operator CPU a node between 8 and 32, ms", 30, 1000 * (sizes[32] - sizes[8]) / 24)


def _start_s() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "hpcforge", "apply", "--help"], check=True, capture_output=True)
    return time.perf_counter() - start


def _print_growth(grown: Sequence[tuple[int, Cost]]) -> None:
    for nodes, cost in grown:
        print(f"| one node more than {nodes}, s | | {cost.wall_s:.2f} | |")
    if len(grown) == len(_GROWN):
        (_, few), (_, many) = grown
        _print_target("one more in 32 against one more in 4", 1.2, many.wall_s / few.wall_s)


def _print_target(name: str, limit: float, measured: float | Spread) -> None:
    value = measured.median if isinstance(measured, Spread) else measured
    text = str(measured) if isinstance(measured, Spread) else f"{measured:.3g}"
    print(f"| {name} | {limit:.3g} | {text} | {'met' if value <= limit else 'missed'} |")


if __name__ == "__main__":
    main()
