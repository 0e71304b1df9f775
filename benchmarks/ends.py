"""What many answering nodes cost the operator's host: CPU, memory and connections of `plan`. As root.

One nspawn node has an address for each name of a blueprint, so each of the connections, logins, node programs and
answers is real; only the machine behind them is the same. Each number of nodes is measured some times. The slope
between the fewest and the most is what one node costs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import converge
import converge_resources as resources
import converge_tools as tools
import rounds
from converge_tools import Bench
from rounds import Cost

from hpcforge.lab import lab as labs

_SIZES = (8, 32, 128)
_CIDR = "10.77.0.0/22"  # a lab moves if another one has it
_BEHIND = 0x0016  # port of sshd


def main() -> None:
    """Print Markdown: a row a size, and the slopes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES)
    parser.add_argument("--runs", type=int, default=3, help="Runs of each size; the medians count.")
    chosen = parser.parse_args()
    print("| nodes | s | CPU s | MiB | connections |\n|---|---|---|---|---|", flush=True)
    measured: dict[int, tuple[Cost, int]] = {}
    with converge.prepared() as (folder, _), converge.made(folder, 1, _CIDR) as bench:
        _prepare(bench, max(chosen.sizes))
        for size in chosen.sizes:
            runs = [_measure(bench, size) for _ in range(chosen.runs)]
            cost, most = rounds.median([run for run, _ in runs]), max(connections for _, connections in runs)
            measured[size] = cost, most
            cells = (size, f"{cost.wall_s:.2f}", f"{cost.cpu_s:.2f}", f"{cost.memory_mib:.0f}", most)
            print("|", " | ".join(map(str, cells)), "|", flush=True)
    few, many = min(measured), max(measured)
    if few < many:
        (least, _), (most_cost, _) = measured[few], measured[many]
        cpu_ms = 1000 * (most_cost.cpu_s - least.cpu_s) / (many - few)
        kib = 1024 * (most_cost.memory_mib - least.memory_mib) / (many - few)
        print(f"\nA node more takes {cpu_ms:.0f} ms of CPU and {kib:.0f} KiB.")


def _prepare(bench: Bench, most: int) -> None:
    """Give the node an address for each name, and more logins at a time than a new sshd allows."""
    addresses = " ".join(_addresses(bench, most))
    script = f"""set -e
for address in {addresses}; do ip address replace "$address/22" dev host0; done
printf 'MaxStartups 1000\\nMaxSessions 100\\n' > /etc/ssh/sshd_config.d/bench.conf
systemctl reload ssh"""
    subprocess.run(labs.ssh_argv(bench.lab, bench.nodes[0], ["sudo", "sh", "-c", script]), check=True)


def _addresses(bench: Bench, count: int) -> list[str]:
    return [str(bench.lab.network_address[257 + number]) for number in range(count)]


def _measure(bench: Bench, size: int) -> tuple[Cost, int]:
    """Run `plan` for so many names; return its cost, and its connections at most."""
    site = _write(bench, size)
    with _connections() as counts:
        cost = tools.run(bench, [sys.executable, "-m", "hpcforge", "plan", str(site), "--json"], {
            "HPCFORGE_IDENTITY": str(bench.folder / "age.key"),
            "XDG_STATE_HOME": str(bench.folder / "state"),
            "PYTHONPATH": str(tools.REPOSITORY),
        }, ends=(0, 2))  # fmt: skip
    return cost, max(counts, default=0)


def _write(bench: Bench, size: int) -> Path:
    """Write a site whose names are all addresses of this node."""
    known = bench.lab.known_hosts.read_text().split()
    key = " ".join(known[1:3])
    names = [f"n{number:03}" for number in range(size)]
    lines = [
        f'  {name}: {{address: {address}, host_keys: ["{key}"]}}\n'
        for name, address in zip(names, _addresses(bench, size), strict=True)
    ]
    machines = f"schema: 1\naccess: {{key: {bench.lab.key}}}\nnodes:\n" + "".join(lines)
    (bench.folder / "machines.yaml").write_text(machines)
    path = bench.folder / f"ends-{size}.yaml"
    path.write_text(f"""schema: 1
name: ends
domain: ends.example.org
inventory: machines.yaml
access: {{user: {bench.lab.login_user}, become: sudo}}
nodes:
  n000: {{functions: [head, worker], hardware: rehearsal-node}}
  n[001-{size - 1:03}]: {{functions: [worker], hardware: rehearsal-node}}
{resources.beside_nodes(bench.lab.cidr, "n000")}""")
    return path


@contextmanager
def _connections() -> Iterator[list[int]]:
    """Count connections to sshd again and again."""
    counts: list[int] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
            remote = [(row.split()[2], row.split()[3]) for row in rows]
            counts.append(sum(int(end.rpartition(":")[2], 16) == _BEHIND and state == "01" for end, state in remote))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    main()
