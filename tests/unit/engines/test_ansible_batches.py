"""Which nodes an Ansible play takes, by a clock that only the test moves."""

from __future__ import annotations

from pathlib import Path

from hpcforge.engines.ansible import GATHER_S, PLAY_MIB, WORKER_MIB, Gathering, Play
from hpcforge.engines.tasks import Ansible, Target

PLENTY = 1e6
LATER = 10.0


def come(gathering: Gathering, *nodes: str, role: str = "motd", now_s: float = 0.0, alone: bool = False) -> None:
    for node in nodes:
        task = Ansible(f"{role}:{node}", node, Path(role), {}, 60.0)
        gathering.add(task, Target(node, "192.0.2.1", "ops", "sudo"), alone=alone, now_s=now_s)


def names(play: Play | None) -> list[str]:
    return [node.task.node for node in play.nodes] if play else []


def many(count: int) -> list[str]:
    return [f"n{number:03}" for number in range(count)]


def test_nodes_that_come_shortly_after_one_another_are_of_one_play() -> None:
    gathering = Gathering(PLENTY)
    come(gathering, "n1", now_s=0.0)
    assert gathering.begin(0.0) is None
    come(gathering, "n2", now_s=GATHER_S / 2)
    assert names(gathering.begin(GATHER_S)) == ["n1", "n2"]
    assert not gathering.waits


def test_a_play_is_of_one_role() -> None:
    gathering = Gathering(PLENTY)
    come(gathering, "n1", "n2")
    come(gathering, "n3", role="users")
    assert [names(gathering.begin(LATER)) for _ in range(3)] == [["n1", "n2"], ["n3"], []]


def test_nodes_that_come_while_two_plays_are_at_work_are_of_the_next() -> None:
    gathering = Gathering(PLENTY)
    plays = []
    for node in ("n1", "n2"):
        come(gathering, node)
        plays.append(gathering.begin(1.0))
    come(gathering, "n3", now_s=1.0)
    assert gathering.begin(2.0) is None
    come(gathering, "n4", now_s=2.0)
    assert plays[0] is not None
    gathering.over(plays[0])
    assert names(gathering.begin(3.0)) == ["n3", "n4"]


def test_a_play_with_a_node_that_hangs_keeps_others_back_for_a_minute_only() -> None:
    gathering = Gathering(PLENTY)
    for node in ("n1", "n2"):
        come(gathering, node)
        assert gathering.begin(1.0)
    come(gathering, "n3", now_s=1.0)
    assert gathering.begin(60.0) is None
    assert names(gathering.begin(61.0)) == ["n3"]


def test_memory_bounds_how_many_nodes_are_at_work() -> None:
    gathering = Gathering(PLAY_MIB * 2 + WORKER_MIB * 10)
    come(gathering, *many(20))
    first = gathering.begin(1.0)
    assert first is not None
    assert len(first.nodes) == (PLAY_MIB + WORKER_MIB * 10) // WORKER_MIB
    assert gathering.begin(2.0) is None
    for node in many(20)[:6]:
        del first.left[node]  # as each has ended
    assert len(names(gathering.begin(2.0))) == 0  # what they free is not enough for a play of its own
    gathering.over(first)
    assert names(gathering.begin(3.0)) == many(20)[16:]


def test_one_node_has_its_play_however_little_memory_there_is() -> None:
    gathering = Gathering(1.0)
    come(gathering, "n1", "n2")
    first = gathering.begin(1.0)
    assert names(first) == ["n1"]
    assert gathering.begin(2.0) is None
    assert first is not None
    gathering.over(first)
    assert names(gathering.begin(3.0)) == ["n2"]


def test_a_thousand_nodes_are_a_few_plays_at_a_time_and_all_have_their_turn() -> None:
    gathering, at_work, seen, now_s = Gathering(2048.0), [], [], 1.0
    come(gathering, *many(1000))
    while gathering.waits or at_work:
        now_s += 1.0
        while (play := gathering.begin(now_s)) is not None:
            at_work.append(play)
            assert len(play.left) <= 32
            assert PLAY_MIB * len(at_work) + WORKER_MIB * sum(len(one.left) for one in at_work) <= 2048
        assert len(at_work) <= 2
        ended = at_work.pop(0)
        seen += names(ended)
        gathering.over(ended)
    assert sorted(seen) == many(1000)


def test_a_role_that_acts_on_its_whole_play_has_one_for_each_node() -> None:
    gathering = Gathering(PLAY_MIB * 3 + WORKER_MIB * 3)
    come(gathering, *many(5), alone=True)
    assert [names(gathering.begin(0.0)) for _ in range(4)] == [["n000"], ["n001"], ["n002"], []]


def test_a_node_is_in_one_play_at_a_time_and_in_each_once() -> None:
    gathering = Gathering(PLENTY)
    come(gathering, "n1", "n1", "n2")
    come(gathering, "n1", role="users")
    first = gathering.begin(1.0)
    assert names(first) == ["n1", "n2"]
    assert gathering.begin(2.0) is None
    assert first is not None
    gathering.over(first)
    assert names(gathering.begin(3.0)) == ["n1"]


def test_what_waits_can_be_withdrawn_and_what_is_at_work_cannot() -> None:
    gathering = Gathering(PLENTY)
    come(gathering, "n1")
    play = gathering.begin(1.0)
    come(gathering, "n2", "n3")
    assert [gathering.withdraw(f"motd:{node}") for node in ("n1", "n2", "n2", "n9")] == [False, True, False, False]
    assert names(play) == ["n1"]
    assert names(gathering.begin(2.0)) == ["n3"]
