"""Nodes that take longer than others are named, then every 30 s."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpcforge.run.fanout import Waits

HINT = "; --exclude w[02-03] leaves out what does not answer"


def named(waiting: Callable[[int], list[str]], always: str | None = "head", seconds: int = 60) -> list[tuple[int, str]]:
    """Return what is printed, with its second; `waiting`: who has not answered by a second."""
    now_s, printed = [100.0], list[tuple[int, str]]()
    waits = Waits(lambda text: printed.append((int(now_s[0] - 100), text)), always, clock=lambda: now_s[0])
    for second in range(seconds):
        now_s[0] = 100.0 + second
        waits(waiting(second))
    return printed


def test_nodes_that_others_have_overtaken_are_named_after_five_seconds_and_then_every_thirty() -> None:
    printed = named(lambda second: ["w03", "w02"] if second else ["w03", "head", "w02", "w01"])
    assert printed == [
        (5, "w[02-03]: no answer for 5 s, waiting" + HINT),
        (35, "w[02-03]: no answer for 35 s, waiting" + HINT),
    ]


@pytest.mark.parametrize(("half_s", "first_s"), [(1, 5), (3, 9), (4, 12), (9, 15), (20, 15)])
def test_a_busy_machine_is_no_fault_of_a_node(half_s: int, first_s: int) -> None:
    """What is normal is three times as long as half of the nodes took."""
    printed = named(lambda second: ["w01"] if second >= half_s else ["w01", "w02"])
    assert printed[0][0] == first_s


def test_all_nodes_at_once_are_named_after_fifteen_seconds() -> None:
    assert named(lambda _: ["w01", "w02"])[0][0] == 15
    assert not named(lambda second: ["w01", "w02"] if second < 12 else [])


def test_no_hint_is_given_that_cannot_be_followed() -> None:
    """The head is asked in any case, and verbs such as `status` ask every node."""
    assert named(lambda _: ["head"], seconds=20) == [(15, "head: no answer for 15 s, waiting")]
    assert named(lambda _: ["w01"], always=None, seconds=20) == [(15, "w01: no answer for 15 s, waiting")]
