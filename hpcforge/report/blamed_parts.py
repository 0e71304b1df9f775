"""The parts that verdicts blame, and what a supplier asks for of their nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcforge.cluster.model import Node
from hpcforge.verify.verdicts import Verdict

if TYPE_CHECKING:
    from hpcforge.node.answer_types import Facts, GpuAnswer

_HEALTH = {"bios": "BIOS", "firmware": "adapters' firmware", "gpu_driver": "GPU driver"}  # measures of node_health

_HARDWARE = (  # how the names of these parts of node_health begin
    "GPU ", "NVLink fabric of ", "adapter ", "fatal SXids ", "hardware threads:", "link of ", "memory, MiB:",
    "model of GPU ", "number of GPUs:", "rate of ",
)  # fmt: skip


@dataclass(frozen=True)
class BlamedPart:
    """A node, a cable or another part, and the test that blames it. No part: the test names none."""

    part: str
    nodes: tuple[str, ...]
    test: str
    status: str  # "missed", "could not tell"
    why: str
    next_command: str
    hardware: bool = True  # False: a difference of software, names or accounts


@dataclass(frozen=True)
class NodeIdentity:
    """A node as its supplier knows it; "" for what neither inventory nor node reports."""

    node: str
    hardware: str
    serial: str
    place: str
    parts: Mapping[str, str]  # "GPU 0": "NVIDIA H200, serial number 1, VBIOS 96.00"


def blamed_parts(verdicts: Iterable[Verdict]) -> list[BlamedPart]:
    """Return each blamed part with each test that blames it, and the tests that failed and blame none."""
    return [blamed for verdict in verdicts if not verdict.passed for blamed in _blamed(verdict)]


def _blamed(verdict: Verdict) -> Iterator[BlamedPart]:
    named = verdict.isolation.named if verdict.isolation else ()
    for part in named:
        yield BlamedPart(part.part, part.nodes, verdict.test, part.verdict, part.detail, part.next_command)
    if not named:
        node = verdict.node or ""
        where = f"rank {verdict.rank}: " if verdict.rank is not None else ""
        status, command = verdict.status.replace("_", " "), verdict.next_command or ""
        nodes, why = (node,) if node else (), where + verdict.detail
        yield BlamedPart(node, nodes, verdict.test, status, why, command, _of_hardware(verdict))


def _of_hardware(verdict: Verdict) -> bool:
    """Whether a supplier can repair it; of `node_health` by the parts of the node that differ."""
    parts = verdict.reasons.get(verdict.node or "", verdict.detail).split("; ")
    return verdict.test != "node_health" or any(
        part.startswith(_HARDWARE) and " for users:" not in part for part in parts
    )


def node_identities(
    nodes: Sequence[Node], facts: Mapping[str, Facts], verdicts: Iterable[Verdict], blamed: Iterable[BlamedPart]
) -> tuple[NodeIdentity, ...]:
    """Return the identity of each node whose hardware is blamed: of inventory, its own report and `node_health`."""
    names = {name for part in blamed if part.hardware for name in part.nodes}
    health = [row for verdict in verdicts if verdict.test == "node_health" for row in verdict.measurements]
    reported = {str(row.get("host", "")): row for row in health}
    return tuple(
        NodeIdentity(
            node.name,
            node.hardware,
            node.serial or "",
            _place(node),
            {**_firmware(reported.get(node.name, {})), **(_gpus(facts[node.name]) if node.name in facts else {})},
        )
        for node in nodes
        if node.name in names
    )


def _firmware(row: Mapping[str, object]) -> dict[str, str]:
    return {label: str(row[name]) for name, label in _HEALTH.items() if row.get(name)}


def _place(node: Node) -> str:
    return f"rack {node.rack}" + (f", U{node.rack_u}" if node.rack_u else "") if node.rack else ""


def _gpus(facts: Facts) -> dict[str, str]:
    nvml = facts.get("nvml")
    gpus = nvml["gpus"] if nvml else []
    return {f"GPU {gpu['index'] if gpu['index'] is not None else '?'}": _gpu(gpu) for gpu in gpus}


def _gpu(gpu: GpuAnswer) -> str:
    words = [gpu["model"] or "model not reported"]
    words += [
        f"{label} {value}" for label, value in (("serial number", gpu["serial"]), ("VBIOS", gpu["vbios"])) if value
    ]
    return ", ".join(words)
