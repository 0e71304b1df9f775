"""What is said of many nodes in the same words is printed once."""

from __future__ import annotations

import errno

from hpcforge.engines.connect_errors import classify
from hpcforge.engines.host_keys import UnreachableError, host_keys
from hpcforge.engines.tasks import Target
from hpcforge.report.text import by_reason, nodes_by_reason, same_words


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


def test_nodes_whose_reasons_name_them_in_commands_are_together() -> None:
    """The command that starts a machine has its name; another node's name is kept."""
    down = {name: f"no route to {name} (10.1.0.1): if it is stopped: vagrant up {name}" for name in ("w1", "w2")}
    refused = {name: f"{name} (10.1.0.{name[1:]}) is shut\nport 22 of 10.1.0.{name[1:]}: no" for name in ("w5", "w6")}
    swapped = {name: f"w1 answers at the address of {name} (10.1.0.2)\nboth lines" for name in ("w3", "w4")}
    assert nodes_by_reason(down | swapped | refused) == {
        "no route to the node: if it is stopped: vagrant up NODE": ["w1", "w2"],
        "w1 answers at the address of the node\nboth lines": ["w3", "w4"],
        "the node is shut\nport 22 of ADDRESS: no": ["w5", "w6"],
    }
    apart = {"w1": down["w1"], "w10": "w1 is not w10-a"}
    assert same_words(apart) == apart
