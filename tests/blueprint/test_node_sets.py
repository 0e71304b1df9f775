from __future__ import annotations

import pytest

from hpcforge.blueprint.node_sets import NodeSetError, check, expand, named, plain

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
        ("login", ()),
        ("rack-a", None),
        ("w01!rack-a", None),
    ],
)
def test_what_is_meant(text: str, nodes: tuple[str, ...] | None) -> None:
    assert check(text) == text
    assert expand(text, KNOWN) == nodes


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("w04", "there is no node, partition, rack or function `w04`", "did you mean"),
        ("zzz", "there is no node, partition, rack or function `zzz`", "partitions: fast, both_of"),
        ("twice", "is a partition and a rack with other nodes", "write the nodes"),
        ("all!", "empty part", "single commas"),
        ("!w01", "empty part", "single commas"),
        ("all - w01", "has a space in it", None),
        ("w[1-1000000000]", "stands for", None),
        ("w.1", "names `w.1`, which is no name", "lower-case"),
    ],
)
def test_what_is_refused(text: str, said: str, hint: str | None) -> None:
    with pytest.raises(NodeSetError) as refused:
        expand(text, KNOWN)
    assert said in str(refused.value)
    assert hint is None or hint in (refused.value.hint or "")


def test_a_hostlist_of_nothing_but_nodes() -> None:
    nodes = ("w01", "w02")
    assert plain("w[01-02]", nodes) == nodes
    assert plain("all", nodes) is None
    assert plain("w01!w02", nodes) is None
