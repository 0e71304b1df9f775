"""What a site's Ansible role costs the operator host in a first apply: `make bench`, as root.

A role of three tasks and a handler on nspawn nodes that were made a moment ago, by `hpcforge apply`, from the start of
the process to its end. Memory is of all processes of the operator host, proportional set size, summed, at its highest;
ssh's shared connections are not among them. Compare ratios: seconds are this machine's, which the nodes share.
`--before FOLDER` runs the hpcforge of another checkout, too, on `--before-nodes`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import converge
import converge_resources as resources
import converge_tools as tools
from converge_tools import Bench, BenchmarkError
from rounds import Cost

_CIDR = "10.77.0.0/24"
_ROLE_YAML = (
    '{"description": "One file.", "on": "true", "files": [{"path": "/etc/bench.conf", "content": "bench\\n"}]}\n'
)
_TASKS = """\
- name: Write who this is
  ansible.builtin.copy: {content: "{{ inventory_hostname }}\\n", dest: /etc/bench-site, mode: "0644"}
  notify: Tell
- name: Make a folder
  ansible.builtin.file: {path: /srv/bench, state: directory, mode: "0755"}
- name: Take a second
  ansible.builtin.command: sleep 1
  changed_when: false
"""
_HANDLERS = "- name: Tell\n  ansible.builtin.command: touch /srv/bench/told\n"


def main() -> None:
    """Measure and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[16, 64], help="How many nodes, one or more times.")
    parser.add_argument("--before", type=Path, help="Another checkout of hpcforge.")
    parser.add_argument("--before-nodes", type=int, default=16, help="How many nodes for that.")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("starting nodes takes root")
    print(f"{time.strftime('%F %R')}, {os.cpu_count()} CPUs, load before: {os.getloadavg()[0]:.2f}\n")
    print("| nodes | | wall, s | operator's CPU s | MiB | processes | nodes' CPU s |\n|---|---|---|---|---|---|---|")
    if chosen.before:
        _print(chosen.before_nodes, "before", _measure(chosen.before_nodes, chosen.before))
    for nodes in chosen.nodes:
        _print(nodes, "now", _measure(nodes, tools.REPOSITORY))


def _print(nodes: int, what: str, cost: Cost) -> None:
    cells = f"{cost.wall_s:.1f} | {cost.cpu_s:.1f} | {cost.memory_mib:.0f} | {cost.processes} | {cost.nodes_cpu_s:.1f}"
    print(f"| {nodes} | {what} | {cells} |", flush=True)


def _measure(nodes: int, checkout: Path) -> Cost:
    with tempfile.TemporaryDirectory(prefix="hpcforge-bench-") as name:
        folder = Path(name)
        _write(folder)
        with converge.made(folder, nodes) as bench:
            print(f"{time.strftime('%T')} {nodes} nodes; load {os.getloadavg()[0]:.2f}", file=sys.stderr, flush=True)
            text = resources.blueprint(nodes, _CIDR)
            bench.blueprint.write_text(
                text.replace("software:\n", "software:\n  site_roles: [{path: tiny, on: all}]\n")
            )
            cost = tools.hpcforge(bench, checkout.resolve())
            _check(bench)
            return cost


def _write(folder: Path) -> None:
    for path, text in {
        "roles/bench/role.yaml": _ROLE_YAML,
        "tiny/tasks/main.yml": _TASKS,
        "tiny/handlers/main.yml": _HANDLERS,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def _check(bench: Bench) -> None:
    """Every node has what its role makes."""
    for node in bench.nodes:
        root = bench.lab.node_directory(node) / "root"
        if (root / "etc/bench-site").read_text() != f"{node}\n" or not (root / "srv/bench/told").exists():
            raise BenchmarkError(f"{node} lacks what the role makes")


if __name__ == "__main__":
    main()
