"""The neighbours of nodes: LLDP on every node, InfiniBand discovery from one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.cluster.model import Cluster
from hpcforge.design.fabric.neighbour_matching import Heard
from hpcforge.engines.tasks import Command, Engine
from hpcforge.run.fanout import ask_all
from hpcforge.verify.cabling import (
    IB_COMMAND,
    LLDP_COMMAND,
    CablingError,
    heard,
    parse_ibnetdiscover,
    parse_lldp,
)

_TIMEOUT_S = 120.0  # a subnet of thousands of switches takes ibnetdiscover tens of seconds
_NO_COMMAND = 127
_TRIES = 3  # nodes that are asked to discover an InfiniBand fabric, one after the other, until one can


@dataclass(frozen=True)
class NeighbourAnswers:
    """The answers of nodes. `silent`: nodes without an answer, with the reason; `unreachable`: some of these."""

    heard: Heard
    silent: Mapping[str, str]
    unreachable: frozenset[str]


def ask(engine: Engine, cluster: Cluster) -> NeighbourAnswers:
    """Ask all nodes side by side. A malformed answer counts as none."""
    wired = {fabric.name for fabric in cluster.fabrics if fabric.lldp}
    nodes = [node.name for node in cluster.nodes if wired.intersection(node.fabrics)]
    answers, silent, unreachable = _run(engine, nodes, LLDP_COMMAND, lambda node, text: parse_lldp(text, node))
    discovered = {}
    for fabric in cluster.fabrics:
        if fabric.kind != "infiniband":
            continue
        members = [node.name for node in cluster.nodes if fabric.name in node.fabrics and node.name not in unreachable]
        for node in members[:_TRIES]:
            outputs, refused, lost = _run(engine, [node], IB_COMMAND, lambda _, text: parse_ibnetdiscover(text))
            unreachable |= lost
            if node in outputs:
                discovered[fabric.name] = outputs[node]
                break
            silent |= {f"{fabric.name} from {node}": refused[node]}
    return NeighbourAnswers(heard(answers, discovered, answers), silent, frozenset(unreachable))


def _run(
    engine: Engine, nodes: Sequence[str], argv: tuple[str, ...], parse: Callable[[str, str], object]
) -> tuple[dict[str, str], dict[str, str], set[str]]:
    """Return a command's output on each node, the errors by node, and the nodes that were not reached.

    `parse` raises CablingError for a node and a text that the command does not write.
    """
    commands = [
        Command(f"neighbours:{argv[0]}:{node}", node, argv, user="root", timeout_s=_TIMEOUT_S) for node in nodes
    ]
    outputs: dict[str, str] = {}
    silent: dict[str, str] = {}
    unreachable: set[str] = set()
    for event in ask_all(engine, commands):
        if event.kind != "result":
            continue
        data = event.data
        if data["ok"]:
            try:
                parse(event.node, data["stdout"])
            except CablingError as error:
                silent[event.node] = str(error)
            else:
                outputs[event.node] = data["stdout"]
            continue
        unreachable |= {event.node} if data["unreachable"] else set()
        reason = (data["stderr"] or data["error"] or "").strip() or "it said nothing"
        silent[event.node] = f"there is no {argv[0]}" if data["rc"] == _NO_COMMAND else reason.splitlines()[-1]
    return outputs, silent, unreachable
