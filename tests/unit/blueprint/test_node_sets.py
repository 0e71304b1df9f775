from __future__ import annotations

import pytest

from hpcforge.blueprint.membership import spelled
from hpcforge.blueprint.node_sets import NodeSetError, check, expand, groups, named, rewritten

KNOWN = named(
    ["head", "w01", "w02", "w03"],
    ["w01", "w02", "w03"],
    partition={"fast": ("w01",), "both_of": ("w01", "w02"), "twice": ("w01",)},
    rack={"rack-a": None, "twice": ("w02",)},
    function={"worker": ("w01", "w02", "w03"), "head": (), "login": ()},
)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("w[02-03],w01", ("w02", "w03", "w01")),
        ("all", ("w01", "w02", "w03")),
        ("all!w02", ("w01", "w03")),
        ("all!w[01,03]", ("w02",)),
        ("all!both_of,w02", ("w03", "w02")),  # from left to right
        ("fast,worker!w02", ("w01", "w03")),
        ("w01,fast", ("w01",)),
        ("head", ("head",)),  # the node, not the function
        ("@head", ()),  # the function, not the node
        ("@rack:twice,@partition:twice", ("w02", "w01")),
        ("@worker!@partition:fast", ("w02", "w03")),
        ("@all", ("w01", "w02", "w03")),
        ("login", ()),
        ("rack-a", None),
        ("w01!rack-a", None),
    ],
)
def test_what_is_meant(text: str, nodes: tuple[str, ...] | None) -> None:
    assert check(text) == text
    assert expand(text, KNOWN) == nodes


def test_a_mark_is_of_all_names_of_a_hostlist() -> None:
    known = named(["a1", "a2", "r1"], ["a1", "a2", "r1"], rack={"r1": ("a1",), "r2": ("a2",), "r3": ("r1",)})
    assert expand("@rack:r[1-3]!a1", known) == ("a2", "r1")
    assert expand("@r[1-2],r1", known) == ("a1", "a2", "r1")
    for text in ("@", "@rack:", "@Rack:r1", "@rack:@rack:r1"):
        with pytest.raises(NodeSetError):
            expand(text, known)


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("w04", "there is no node, partition, rack or function `w04`", "did you mean"),
        ("@rack:fast", "there is no node, partition, rack or function `@rack:fast`", None),
        ("@wheel:fast", "there is no node, partition, rack or function `@wheel:fast`", None),
        ("zzz", "there is no node, partition, rack or function `zzz`", "partitions: fast, both_of"),
        ("twice", "is a partition and a rack with other nodes", "write the nodes"),
        ("all!", "empty part", "single commas"),
        ("!w01", "empty part", "single commas"),
        ("all - w01", "has a space in it", None),
        ("w[1-1000000000]", "expands to", None),
        ("w:1", "is neither a name nor a hostlist", None),
    ],
)
def test_what_is_refused(text: str, said: str, hint: str | None) -> None:
    with pytest.raises(NodeSetError) as refused:
        expand(text, KNOWN)
    assert said in str(refused.value)
    assert hint is None or hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("w[01-03]", "w[01-02]"),
        ("all!w03", "all"),
        ("all!w[02-03],w03", "all!w02"),
        ("rack-a,w03", "rack-a"),
        ("w03!w01", "w03!w01"),  # nothing would be left to take from: whoever reads it is told so
        ("w03", "w03"),
        ("all", "all"),
    ],
)
def test_a_node_that_leaves_is_taken_out_of_every_term(text: str, after: str) -> None:
    without = rewritten(text, lambda _, names: tuple(name for name in names if name != "w03"), spelled)
    assert without == after


def test_groups_are_what_stands_before_the_numbers() -> None:
    members = {
        "gpu[1-2]": ["gpu1", "gpu2"],
        "gpu[7-8]": ["gpu7", "gpu8"],
        "r1-n[1-2]": ["r1-n1", "r1-n2"],
        "head01": ["head01"],
        "a[1-2],b1": ["a1", "a2", "b1"],
        "worker[1-2]": ["worker1", "worker2"],
    }
    assert groups(members) == {"gpu": ("gpu1", "gpu2", "gpu7", "gpu8"), "r1-n": ("r1-n1", "r1-n2")}


def test_where_only_some_can_be_meant_a_word_stands_for_those() -> None:
    known = KNOWN.within({"w01", "w03"})
    assert expand("all", known) == ("w01", "w03")
    assert expand("both_of,w02", known) == ("w01", "w02")  # a node that is named is that node
    assert expand("rack-a", known) is None
