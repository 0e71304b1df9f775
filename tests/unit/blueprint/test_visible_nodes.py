"""The nodes that a blueprint names, as far as its errors allow."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.node_sets import expand
from hpcforge.blueprint.visible_nodes import NamedNodes, racks_of
from tests.unit.blueprint.drafts import SMALL, draft

HEAD = "  head: {functions: [head], hardware: generic-1u, addresses: 10.1.0.1}\n"
WORKERS = "  w[01-04]: {functions: [worker], hardware: rehearsal-node"
RACKS = 'site: {racks: {"r[1-2]": {model: x}}}\n'


def nodes(*changes: tuple[str, str]) -> NamedNodes:
    return NamedNodes(draft(*changes))


def test_names_belong_to_the_first_group_that_has_them() -> None:
    visible = nodes((WORKERS, WORKERS.replace("w[01-04]", '"w[01-04],head"')))
    assert visible.group_of["head"] == "head"
    assert visible.twice == {"w[01-04],head": ["head"]}
    assert visible.names_known


@pytest.mark.parametrize(
    ("changes", "certain"),
    [
        ((), True),
        (((WORKERS, WORKERS.replace("[01-04]", "[04-01]")),), False),
        (((HEAD, HEAD.replace("functions: [head]", "functions: [hed]")),), True),  # its name is right
    ],
)
def test_names_are_known_unless_a_key_is_wrong(changes: tuple[tuple[str, str], ...], certain: bool) -> None:
    assert nodes(*changes).names_known is certain


def test_functions_are_known_where_the_group_is_right() -> None:
    visible = nodes((HEAD, HEAD.replace("functions: [head]", "functions: [hed]")))
    assert visible.functions("head") is None
    assert visible.functions("w01") == ("worker",)
    assert visible.with_function("worker") == ("w01", "w02", "w03", "w04")
    assert visible.without_function(["head", "w01", "nosuch"], "login") == ["w01"]
    assert visible.unknown(["w01", "nosuch"]) == ["nosuch"]


def test_nothing_is_unknown_while_names_are_in_doubt() -> None:
    assert nodes((WORKERS, WORKERS.replace("[01-04]", "[04-01]"))).unknown(["nosuch"]) == []


@pytest.mark.parametrize(
    ("text", "workers", "names", "wrong"),
    [
        ("all", False, ("head", "w01", "w02", "w03", "w04"), 0),
        ("all", True, ("w01", "w02", "w03", "w04"), 0),
        ("head", True, ("head",), 0),
        ("@worker!w01", False, ("w02", "w03", "w04"), 0),
        ("w", False, ("w01", "w02", "w03", "w04"), 0),  # a group by the stem of its names
        ("nosuch", False, None, 1),
    ],
)
def test_a_set_is_expanded_or_has_an_error(text: str, workers: bool, names: tuple[str, ...] | None, wrong: int) -> None:
    blueprint = draft()
    result, findings = NamedNodes(blueprint).named(blueprint, ("here",), text, workers=workers)
    assert (result, [finding.loc for finding in findings]) == (names, [("here",)] * wrong)


@pytest.mark.parametrize(
    ("places", "rack"),
    [
        (', rack: "r[1-2]", u: [1, 3]', ("w01", "w02")),
        ("", None),  # positions are proposed, and follow from all others
    ],
)
def test_nodes_of_a_rack_are_known_where_all_have_a_place(places: str, rack: tuple[str, ...] | None) -> None:
    text = SMALL.replace("generic-1u,", "generic-1u, rack: r2, u: 9,").replace("count: 2},", f"count: 2}}{places},")
    blueprint = draft(text=text + RACKS)
    visible = NamedNodes(blueprint)
    assert expand("r1", visible.known(blueprint)) == rack
    assert racks_of(blueprint.sections["site"]) == ("r1", "r2")
    assert racks_of(None) == ()
