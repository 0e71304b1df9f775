"""Whether an apply may follow the last one."""

from __future__ import annotations

import dataclasses

import pytest

from hpcforge import bundled
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Platform
from hpcforge.host.commit import Commit
from hpcforge.plan.roster import LastRun, Roster
from hpcforge.run.preflight import OlderError, commit_warning, distrusted, other_releases, refuse_older
from hpcforge.run.result import Run


def last(hpcforge: str = "0.2.0", commit: str | None = "a" * 40) -> LastRun:
    return LastRun(7, "ab12", "ada@near", 1.8e9, hpcforge, commit)


@pytest.mark.parametrize("ours", ["0.2.0", "0.2.1", "0.10.0", "1.0.0rc1"])
def test_the_same_or_newer_may(ours: str) -> None:
    refuse_older(ours, Roster("c", last()))


@pytest.mark.parametrize("ours", ["0.1.9", "0.2.0.dev3", "0.2.0rc1"])
def test_an_older_one_is_refused_by_the_roster(ours: str) -> None:
    with pytest.raises(OlderError, match=rf"this is hpcforge {ours}, and the last apply \(run 7 by ada@near\) is of"):
        refuse_older(ours, Roster("c", last()))


def test_a_node_with_the_receipt_of_a_newer_one_is_left_out_alone() -> None:
    receipts = {"w1": {"hpcforge": "0.2.0", "run": 7}, "w2": {"hpcforge": "9999", "run": 7}, "w3": None}
    assert distrusted("0.2.0", None, receipts) == {
        "w2": "its record is of hpcforge 9999, and this is 0.2.0: install that version or a newer one"
    }


def test_a_run_number_that_no_run_of_this_cluster_has_had_is_not_spread() -> None:
    receipts = {"w1": {"run": 41}, "w2": {"run": 900_000_000}, "w3": {"run": 1041}, "w4": {"run": 1042}}
    found = distrusted("0.2.0", 41, receipts)
    assert list(found) == ["w2", "w4"]
    assert found["w2"].startswith("its record tells of run 900000000, and the last one of this cluster is 41")
    assert list(distrusted("0.2.0", None, receipts)) == ["w2"]  # without a roster only what is out of all reason
    believed = [receipt for node, receipt in receipts.items() if node not in found]
    assert Run(0, "ab", "ada@near", "c", "0.2.0").numbered(believed, Roster("c", last())).number == 1042


def test_a_node_with_another_release_is_left_out_and_told_both_ways_out() -> None:
    cluster = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
    testing = Platform(dataclasses.replace(cluster.os, release="14", suite="forky"), None)
    nodes = [dataclasses.replace(node, platform=testing) if node.name == "w02" else node for node in cluster.nodes]
    mixed = dataclasses.replace(cluster, nodes=tuple(nodes))
    says = {"w01": ("debian", "12"), "w02": ("debian", "forky"), "w03": ("debian", "13"), "head": ("debi\x1ban", "")}
    facts = {name: {"os_id": of, "os_release": release} for name, (of, release) in says.items()}
    found = other_releases(mixed, facts)
    assert list(found) == ["w03", "head"]
    assert found["w03"] == (
        "it has 'debian 13', and the blueprint says debian 12: install that, or declare what it has: "
        "`overrides: {w03: {release: ..., reason: ...}}`"
    )
    assert "\x1b" not in found["head"]


def test_or_by_a_roster_that_only_a_newer_one_can_read() -> None:
    with pytest.raises(OlderError, match="written by a newer hpcforge"):
        refuse_older("0.2.0", Roster(problem="written by a newer hpcforge (schema 2)", newer=True))


def test_what_is_no_version_refuses_nobody() -> None:
    refuse_older("0.2.0", Roster("c", last("; rm -rf /")))
    assert distrusted("0.2.0", 7, {"w1": {"hpcforge": "; rm -rf /", "run": 7}, "w2": {"hpcforge": "", "run": 0}}) == {}


def test_commits() -> None:
    ours = Commit("b" * 40, False)
    assert commit_warning(ours, None, None) is None
    assert commit_warning(ours, last(commit=None), None) is None
    assert commit_warning(ours, last(), True) is None
    assert commit_warning(Commit("a" * 40, True), last(), None) is None
    before = "the last apply (run 7 by ada@near) was of commit aaaaaaaaaaaa, "
    contained = commit_warning(ours, last(), False)
    assert contained is not None
    assert contained.startswith(f"{before}which this blueprint's commit bbbbbbbbbbbb does not contain")
    unknown = commit_warning(ours, last(), None)
    assert unknown is not None
    assert unknown.startswith(f"{before}which this git repository does not have: fetch it")
    nowhere = commit_warning(None, last(), None)
    assert nowhere is not None
    assert nowhere.startswith(f"{before}and this blueprint is not in a git repository")
