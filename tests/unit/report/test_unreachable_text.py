"""What is said of many nodes in the same words is printed once."""

from __future__ import annotations

import errno

from hpcforge.engines.connect_errors import classify
from hpcforge.engines.host_keys import UnreachableError, host_keys
from hpcforge.engines.tasks import Target
from hpcforge.report.unreachable_text import by_reason, same_words


def targets(*names: str) -> list[Target]:
    return [Target(name, f"10.1.0.{number}", "ops", "sudo") for number, name in enumerate(names, 11)]


def without_key(target: Target) -> str:
    try:
        host_keys(target)
    except UnreachableError as error:
        return str(error)
    raise AssertionError


def test_nodes_without_a_host_key_are_one_line() -> None:
    """It was eleven lines, each with the whole sentence."""
    away = {target.name: without_key(target) for target in targets(*(f"w{number:02}" for number in range(1, 12)))}
    [(nodes, count, why)] = by_reason(away)
    assert (nodes, count) == ("w[01-11]", 11)
    assert why.startswith("the inventory has no host key")


def test_nodes_that_are_off_are_one_line_and_one_alone_keeps_its_address() -> None:
    off = OSError(errno.EHOSTUNREACH, "No route to host")
    away = {target.name: str(classify(target, off)) for target in targets("w01", "w02", "w03")}
    refused = targets("g1")[0]
    away["g1"] = str(classify(refused, ConnectionRefusedError()))
    assert by_reason(away) == [
        ("w[01-03]", 3, "no route to the node: No route to host"),
        ("g1", 1, "g1 (10.1.0.11) refuses connections on port 22: is its sshd running?"),
    ]
    assert same_words({"w01": away["w01"]}) == {"w01": "no route to w01 (10.1.0.11): No route to host"}
