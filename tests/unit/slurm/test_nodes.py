"""Which states mean that Slurm starts no job on a node, in scontrol's spelling and in sinfo's."""

from __future__ import annotations

import pytest

from hpcforge.slurm import nodes

BOTH = [  # scontrol, sinfo, usable, drained, registering
    ("IDLE", "idle", True, False, False),
    ("MIXED", "mixed", True, False, False),
    ("ALLOCATED+COMPLETING", "completing", True, False, False),
    ("IDLE+PLANNED", "idle-", True, False, False),
    ("IDLE+REBOOT_REQUESTED", "idle@", True, False, False),
    ("IDLE+RESERVED", "reserved", True, False, False),
    ("IDLE+DRAIN", "drained", False, True, False),
    ("MIXED+DRAIN", "draining", False, True, False),
    ("IDLE+DRAIN+NOT_RESPONDING", "drained*", False, True, True),
    ("IDLE+NOT_RESPONDING", "idle*", False, False, True),
    ("DOWN", "down", False, False, True),
    ("DOWN+NOT_RESPONDING", "down*", False, False, True),
    ("IDLE+INVALID_REG", "inval", False, False, True),
    ("UNKNOWN", "unknown", False, False, True),
    ("IDLE+FAIL", "fail", False, False, False),
    ("FUTURE", "future", False, False, False),
    ("IDLE+MAINTENANCE", "maint", False, False, False),
    ("IDLE+REBOOT_ISSUED", "idle^", False, False, False),
    ("IDLE+POWERED_DOWN", "idle~", False, False, False),
    ("IDLE+CLOUD+POWERING_UP", "idle#", False, False, False),
]


@pytest.mark.parametrize(("scontrol", "sinfo", "usable", "drained", "registering"), BOTH)
def test_both_spellings_of_a_state_mean_the_same(
    scontrol: str, sinfo: str, usable: bool, drained: bool, registering: bool
) -> None:
    for state in (scontrol, sinfo):
        assert (nodes.usable(state), nodes.drained(state), nodes.registering(state)) == (usable, drained, registering)


def test_what_is_told_of_nodes_without_jobs() -> None:
    said = {"w1": ("IDLE", ""), "w2": ("IDLE+DRAIN", "disk"), "w3": ("DOWN", "")}
    assert nodes.not_scheduled(said) == {"w2": "idle+drain: disk", "w3": "down"}


def test_a_reason_may_hold_a_bar() -> None:
    read = nodes.parse_sinfo("w1|drained|a|b\nw2|idle|none\nodd\n")
    assert read == {"w1": ("drained", "a|b"), "w2": ("idle", "")}
