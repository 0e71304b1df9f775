"""The roster: who is enrolled, who leaves, and that damage is said and never taken for an empty roster."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from hpcforge.cluster.model import Cluster, Node
from hpcforge.plan import roster
from hpcforge.plan.roster import (
    Enrolled,
    KnownMachine,
    LastRun,
    Roster,
    gone_keys,
    leaving,
    next_roster,
    parse_roster,
    renamed,
    roster_document,
    strangers,
    without,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
RUN = LastRun(7, "ab12", "ada@near", 1.8e9, "0.1.0", "c0ffee")


@pytest.fixture
def small(cluster: Cluster) -> Cluster:
    """The head's key is known."""
    head, *rest = cluster.nodes
    return dataclasses.replace(cluster, nodes=(dataclasses.replace(head, host_keys=(KEY,)), *rest))


def kept(roster: Roster) -> str:
    return json.dumps(roster_document(roster))


def test_it_comes_back(small: Cluster) -> None:
    roster = next_roster(Roster(), small, RUN, ["head", "w1"], ())
    assert parse_roster(kept(roster), "small") == roster
    assert roster.nodes["head"] == Enrolled("10.0.0.1", (KEY,), "head", ("head",), 7)
    assert list(roster.nodes) == ["head", "w1"]  # w2 was never reached
    assert parse_roster(None, "small") == Roster()


def test_who_leaves_is_known_by_address_and_key(small: Cluster) -> None:
    roster = next_roster(Roster(), small, RUN, ["head", "w1", "w2"], ())
    shrunk = dataclasses.replace(small, nodes=small.nodes[:2])
    assert leaving(roster, shrunk) == {"w2": Enrolled("10.0.0.3", (), "w2", ("worker",), 7)}
    later = dataclasses.replace(RUN, number=8)
    assert "w2" in next_roster(roster, shrunk, later, ["head"], ()).nodes  # not until it has been removed
    gone = next_roster(roster, shrunk, later, ["head"], ["w2"])
    assert list(gone.nodes) == ["head", "w1"]  # w1 was not asked for and stays
    assert (gone.nodes["w1"].since, gone.run) == (7, later)


OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA"


def test_only_a_machine_that_somebody_else_confirms_is_known(small: Cluster) -> None:
    """The head says where a node that left is, and by which key; it could say any machine of anybody's."""
    known = [{"w8": KnownMachine("10.0.0.8", (KEY, OTHER))}, {"w9": KnownMachine(None, (KEY,))}]
    said = {
        "w1": Enrolled("10.6.6.6", (OTHER,), "w1", ("worker",), 1),  # of the blueprint, which is what counts for it
        "w8": Enrolled("10.0.0.8", (KEY,), "w8", ("worker",), 1),
        "w9": Enrolled("10.0.0.9", (KEY,), "w9", ("worker",), 1),
    }
    assert strangers(Roster("small", RUN, said), small, known) == frozenset()
    moved = dataclasses.replace(said["w8"], address="10.6.6.6")
    rekeyed = dataclasses.replace(said["w9"], host_keys=(KEY, OTHER))
    bare = Enrolled("10.0.0.7", (), "w7", ("worker",), 1)
    evil = Roster("small", RUN, {**said, "w8": moved, "w9": rekeyed, "w7": bare})
    assert strangers(evil, small, known) == {"w7", "w8", "w9"}
    assert list(without(evil, {"w7", "w8", "w9"}).nodes) == ["w1"]


def test_numbers_and_texts_of_a_roster_are_bounded(small: Cluster) -> None:
    whole = next_roster(Roster(), small, RUN, ["head"], ())
    for change in (
        {"number": 10**9 + 1}, {"number": -1}, {"number": 1.5}, {"ended_s": 1e300}, {"ended_s": float("nan")},
        {"who": "ada\nerror: forged"}, {"hpcforge": "9" * 5000}, {"commit": "\x1b[2J"},
    ):  # fmt: skip
        odd = dataclasses.replace(whole, run=dataclasses.replace(RUN, **change))  # type: ignore[arg-type]
        assert (parse_roster(kept(odd), "small").problem or "").startswith("damaged: run."), change


def test_a_node_that_moved_is_known_by_its_new_address(small: Cluster) -> None:
    roster = next_roster(Roster(), small, RUN, ["w1"], ())
    moved = dataclasses.replace(small, nodes=(dataclasses.replace(small.nodes[1], address="10.0.0.9"),))
    later = next_roster(roster, moved, dataclasses.replace(RUN, number=8), [], ())
    assert (later.nodes["w1"].address, later.nodes["w1"].since) == ("10.0.0.9", 7)


def test_keys_of_machines_that_left_or_were_replaced_are_gone(small: Cluster) -> None:
    other = f"{KEY[:-1]}g"
    roster = next_roster(Roster(), small, RUN, ["head", "w1"], ())
    assert gone_keys(roster, small) == frozenset()
    assert gone_keys(roster, dataclasses.replace(small, nodes=small.nodes[1:])) == {KEY}
    replaced = dataclasses.replace(small.nodes[0], host_keys=(other,))
    assert gone_keys(roster, dataclasses.replace(small, nodes=(replaced, *small.nodes[1:]))) == {KEY}


def test_a_machine_with_another_name_is_known_by_address_or_key(small: Cluster) -> None:
    roster = next_roster(Roster(), small, RUN, ["head", "w1", "w2"], ())
    head, w1, w2 = small.nodes

    def with_nodes(*nodes: Node) -> dict[str, str]:
        return renamed(roster, dataclasses.replace(small, nodes=nodes))

    assert with_nodes(head, w1, w2) == {}
    assert with_nodes(head, w1) == {}
    assert with_nodes(head, w1, dataclasses.replace(w2, name="w9")) == {"w9": "w2"}
    assert with_nodes(head, w1, dataclasses.replace(w2, name="w9", address="10.0.0.9")) == {}  # another machine
    assert with_nodes(dataclasses.replace(head, name="boss", address="10.0.0.8"), w1, w2) == {"boss": "head"}
    assert with_nodes(head, dataclasses.replace(w1, address=w2.address)) == {"w1": "w2"}


def edited(text: str, change: Callable[[dict[str, Any]], Any]) -> str:
    document = json.loads(text)
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    "harm",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("10.0.0.2", "10.0.0.3"),
        lambda text: text.replace("w1", "w\x00"),
        lambda text: edited(text, lambda document: document["nodes"].pop("w1")),
        lambda text: edited(text, lambda document: document.pop("checksum")),
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: "null",
    ],
    ids=["empty", "truncated", "edited", "flipped", "node lost", "no checksum", "another shape", "deep", "null"],
)
def test_damage_is_said(small: Cluster, harm: Callable[[str], str]) -> None:
    found = parse_roster(harm(kept(next_roster(Roster(), small, RUN, ["w1", "w2"], ()))), "small")
    assert found.problem is not None
    assert found.problem.startswith("damaged")
    assert (found.nodes, found.run, found.newer) == ({}, None, False)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("@all", {}),
        ("w1\nw2", {}),
        ("w[1-1000000000]", {}),
        ("w1", {"address": "-oProxyCommand=x"}),
        ("w1", {"address": "10.0.0.2\n"}),
        ("w1", {"host_keys": [f"{KEY}\n* {KEY}"]}),
        ("w1", {"host_keys": [f"@cert-authority * {KEY}"]}),
    ],
)
def test_values_are_held_to_their_patterns_even_under_a_right_checksum(name: str, changes: dict[str, Any]) -> None:
    node = {"address": "10.0.0.2", "host_keys": [], "group": "w1", "functions": [], "since": 1, **changes}
    document: dict[str, Any] = {"schema": 1, "cluster": "small", "run": None, "nodes": {name: node}}
    document["checksum"] = roster._checksum(document)
    found = parse_roster(json.dumps(document), "small")
    assert found.problem is not None
    assert found.problem.startswith("damaged: nodes.")


def test_what_is_not_ours_is_said(small: Cluster) -> None:
    text = kept(next_roster(Roster(), small, RUN, ["w1"], ()))
    assert parse_roster(text, "large").problem == "that of another cluster, small"
    newer = parse_roster(edited(text, lambda document: document.update(schema=2)), "small")
    assert (newer.problem, newer.newer) == ("written by a newer hpcforge (schema 2)", True)


def test_ten_thousand_nodes_fit_an_answer(small: Cluster) -> None:
    nodes = {
        f"gpu{n:05}": Enrolled("10.100.100.100", (KEY,), "gpu[00001-10000]", ("worker",), 1) for n in range(10_000)
    }
    assert len(json.dumps(roster_document(Roster("small", RUN, nodes)))) < 4 * 2**20
