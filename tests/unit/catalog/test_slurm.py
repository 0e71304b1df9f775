"""Which settings of slurm.conf a release of Slurm has: what the catalog says, and what is made of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.blueprint.values import may_set
from hpcforge.catalog import load_catalog
from hpcforge.catalog.slurm import expected, kind_of, preemption_mistake
from hpcforge.cluster import load
from tools import slurm_settings

ROOT = Path(__file__).parents[3]
CATALOG = load_catalog()


def test_the_names_are_known_for_every_release_of_a_distribution() -> None:
    assert {distribution.slurm for distribution in CATALOG.distributions.values()} <= set(CATALOG.slurm)
    for release in CATALOG.slurm.values():
        assert len(release.settings) > 200
        assert {"KillWait", "SlurmctldHost", "X11Parameters"} <= set(release.settings)
        assert release.settings["KillWait"] == "uint16"
        assert {"Nodes": "text", "Hidden": "boolean", "MaxNodes": "uint32", "PriorityTier": "uint16"}.items() <= (
            release.partition_settings.items()
        )
    new = [
        name
        for name in CATALOG.slurm["24.11"].partition_settings
        if not CATALOG.slurm["22.05"].partition_settings.get(name)
    ]
    assert new == ["ExclusiveTopo", "MaxCPUsPerSocket", "PowerDownOnIdle"]


def test_names_have_no_case_and_stay_as_they_are_typed() -> None:
    assert CATALOG.slurm["22.05"].knows("killWAIT")
    assert not CATALOG.slurm["22.05"].knows("KillWiat")
    assert may_set("KillWait")
    assert not may_set("prologSlurmctld")


def test_no_setting_that_names_a_program_or_a_file_may_be_set() -> None:
    programs, paths = (
        ("prolog", "epilog", "program", "prog"),
        ("config", "privatekey", "certificate", "dir", "location", "file"),
    )
    names = {
        name
        for release in CATALOG.slurm.values()
        for name in release.settings
        if name.lower().endswith(programs + paths)
    }
    assert {"ResvEpilog", "PlugStackConfig", "JobCredentialPrivateKey", "MailProg"} <= names
    assert not [name for name in sorted(names) if may_set(name)]


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("PriorityTier", "65535", True),
        ("PriorityTier", "infinite", True),
        ("PriorityTier", "65536", False),
        ("PriorityTier", "1k", False),
        ("PriorityTier", "high", False),
        ("MaxNodes", "UNLIMITED", True),
        ("MaxNodes", "0x10", True),
        ("MaxNodes", "-1", False),
        ("MaxMemPerNode", "4096k", True),
        ("Hidden", "Yes", True),
        ("Hidden", "on", False),
        ("PreemptMode", "OFF", True),
        ("PreemptMode", "suspend,gang", True),
        ("PreemptMode", "requeu", False),
        ("OverSubscribe", "FORCE:4", True),
        ("OverSubscribe", "FORCED", False),
        ("Shared", "YES:", False),
        ("DefaultTime", "2-00:00:00", True),
        ("DefaultTime", "90", True),
        ("DefaultTime", "2h", False),
        ("SuspendTime", "-1", True),
        ("SelectTypeParameters", "CR_Core", True),
        ("SelectTypeParameters", "CR_CPU", False),
        ("CpuBind", "cores", True),
        ("OverTimeLimit", "UNLIMITED", True),
        ("AllowAccounts", "whatever,else", True),
    ],
)
def test_values_are_those_that_its_parser_takes(name: str, value: str, taken: bool) -> None:
    kind = kind_of(CATALOG.slurm["22.05"].partition_settings, name.upper())
    assert kind is not None
    assert (expected(name, kind, value) is None) == taken


@pytest.mark.parametrize(
    ("name", "value", "taken"),
    [
        ("EnforcePartLimits", "ALL", True),
        ("EnforcePartLimits", "yes", True),
        ("EnforcePartLimits", "SOME", False),
        ("SlurmctldDebug", "verbose", True),
        ("SlurmctldDebug", "3", True),
        ("SlurmctldDebug", "verbos", False),
        ("SlurmdDebug", "debug5", True),
        ("SlurmdDebug", "debug6", False),
        ("SlurmdSyslogDebug", "warning", False),
        ("PrivateData", "jobs,Users", True),
        ("PrivateData", "all", True),
        ("PrivateData", "jobs,foo", False),
        ("SchedulerType", "sched/builtin", True),
        ("SchedulerType", "sched/backfil", False),
        ("PreemptType", "preempt/partition_prio", True),
        ("PreemptType", "preempt/partition_priority", False),
        ("PriorityType", "priority/multi", False),
        ("MaxArraySize", "4000001", True),
        ("MaxArraySize", "5000000", False),
        ("MaxArraySize", "UNLIMITED", False),
        ("FirstJobId", "0", False),
        ("DebugFlags", "WhateverTheReleaseHas", True),
    ],
)
@pytest.mark.parametrize("release", CATALOG.slurm)
def test_a_closed_list_is_known(release: str, name: str, value: str, taken: bool) -> None:
    kind = kind_of(CATALOG.slurm[release].settings, name)
    assert kind is not None
    assert (expected(name, kind, value) is None) == taken


@pytest.mark.parametrize(
    ("kind", "mode", "right"),
    [
        ("preempt/none", "off", True),
        ("preempt/none", "gang", True),
        ("preempt/none", "requeue", False),
        ("preempt/qos", "cancel,within", True),
        ("preempt/qos", "off", False),
        ("preempt/partition_prio", "suspend,gang", True),
        ("preempt/partition_prio", "suspend", False),
    ],
)
def test_preemption_has_a_mode_that_goes_with_its_type(kind: str, mode: str, right: bool) -> None:
    assert (preemption_mistake(kind, mode) is None) is right


def test_nothing_is_refused_for_a_release_that_the_catalog_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "blueprints" / "rehearsal.yaml"
    text = path.read_text().replace("\nslurm:\n", "\nslurm:\n  settings: {KillWiat: 31}\n")
    known = {"99.05": CATALOG.slurm["22.05"]}
    monkeypatch.setattr(
        sys.modules["hpcforge.cluster.load.loaded"],
        "load_catalog",
        lambda: replace(CATALOG, slurm=known),
    )
    [said] = [
        diagnostic for diagnostic in load(path, instead={path: text}).diagnostics if "settings" in diagnostic.message
    ]
    assert said.severity == "warning"
    assert said.message == "settings are not checked: the catalog has no settings of Slurm 22.05"
    assert said.hint == "those of 99.05 are"


@pytest.mark.parametrize(("content", "why"), [(b"#!/bin/sh\n", "not an ELF file"), (None, "no symbol slurm_conf")])
def test_what_is_no_library_of_slurms_has_no_names(content: bytes | None, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        slurm_settings.settings(content or Path("/bin/sh").read_bytes())
