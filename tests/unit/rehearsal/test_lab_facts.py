"""The facts of a lab, and the same lab elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpcforge.cli.site import lab_facts
from hpcforge.cluster import Loaded
from hpcforge.rehearsal.lab_facts import LabFacts, LabMachine, as_elsewhere, elsewhere


def test_a_text_is_moved_with_the_lab(dgx: Loaded) -> None:
    lab = lab_facts(dgx, None)
    text = "10.77.0.10 10.77.0.[14-16] 10[.]77[.]0[.]3 10\\.77\\.0 2.0.77.10.in-addr.arpa 110.77.0.1 10.20.77.1"
    assert as_elsewhere(lab, text) == (
        "198.18.0.10 198.18.0.[14-16] 198[.]18[.]0[.]3 198\\.18\\.0 2.0.18.198.in-addr.arpa 110.77.0.1 10.20.77.1"
    )


def test_a_lab_elsewhere_has_other_addresses_and_keys_and_is_else_the_same() -> None:
    machines = {"head": LabMachine("10.77.0.10", ("ssh-ed25519 AAAA",))}
    lab = LabFacts(machines, "10.77.0.0/24", "ops", Path("/lab/key"), 2, 4, 2, 1024, boots=False)
    moved = elsewhere(lab)
    assert moved.machines == {"head": LabMachine("198.18.0.10", ("ssh-ed25519 AAAAelsewhere",))}
    assert (moved.cidr, moved.key) == ("198.18.0.0/24", Path("/elsewhere"))
    assert replace(moved, machines=lab.machines, cidr=lab.cidr, key=lab.key) == lab
    assert lab.cpus == 16
