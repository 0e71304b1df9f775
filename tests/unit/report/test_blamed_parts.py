"""Who is blamed, by which test, and what a supplier asks for."""

from __future__ import annotations

from typing import cast

import pytest

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.node.answer_types import Facts
from hpcforge.report.verification import blamed_parts, node_identities
from hpcforge.verify.verdicts import Verdict
from tests.unit.report.verifications import report

DAMAGED = Verdict(
    "gemm", "failed", ("g01", "g02"), node="g01", rank=3, detail="ended by a signal", next_command="dmesg"
)
NOBODY = Verdict("sum", "timed_out", ("g01", "g02"), detail="not done after 60 s")


def test_each_test_that_failed_is_there_with_the_part_that_it_names() -> None:
    blamed = blamed_parts(report().verdicts)
    assert [(part.test, part.part, part.status) for part in blamed] == [
        ("copy", "w1", "missed"),
        ("pairs", "w2, rack r1, U5", "bad"),
        ("node_health", "w2", "wrong"),
    ]


def test_a_rank_and_a_test_that_names_no_node_are_told() -> None:
    first, second = blamed_parts((DAMAGED, NOBODY))
    assert (first.part, first.why, first.next_command) == ("g01", "rank 3: ended by a signal", "dmesg")
    assert (second.part, second.nodes, second.status) == ("", (), "timed out")


@pytest.mark.parametrize(
    ("reason", "listed"),
    [
        ("memory, MiB: expected 1024, got 512", True),
        ("clock: expected within 0.1 s of head, got +3.0 s; number of GPUs: expected 8, got 7", True),
        ("number of account ada: expected 2001, got 2002", False),
        ("address of w03: expected 10.77.2.13, got 10.77.2.14", False),
        ("GPU /dev/nvidia0 for users: expected opens, got Permission denied", False),
        ("kernel 6.1, the others have 6.2", False),
    ],
)
def test_a_supplier_gets_a_node_of_node_health_only_for_its_hardware(reason: str, listed: bool) -> None:
    nodes = load(bundled.root() / "blueprints" / "air-cooled-16.yaml", judged=False).cluster.nodes
    health = Verdict("node_health", "wrong", ("g01", "g02"), node="g01", detail=reason, reasons={"g01": reason})
    assert bool(node_identities(nodes, {}, (health,), blamed_parts((health,)))) == listed


def test_a_supplier_gets_place_serial_numbers_and_firmware_of_blamed_nodes_alone() -> None:
    nodes = load(bundled.root() / "blueprints" / "air-cooled-16.yaml", judged=False).cluster.nodes
    gpu = {"index": 0, "model": "A100", "serial": "1320", "vbios": "92.00"}
    facts = {"g01": cast("Facts", {"nvml": {"gpus": [gpu]}})}
    health = Verdict("node_health", "passed", ("g01",), measurements=({"host": "g01", "bios": "1.6", "firmware": ""},))
    (known,) = node_identities(nodes, facts, (health,), blamed_parts((DAMAGED, NOBODY)))
    assert (known.node, known.place) == ("g01", "rack r1, U3")
    assert known.parts == {"BIOS": "1.6", "GPU 0": "A100, serial number 1320, VBIOS 92.00"}
