"""Counts of work in parts, and the estimate of what is left."""

from __future__ import annotations

import pytest

from hpcforge.tally import Standing, Tally, left_text, silent


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_no_estimate_before_a_third_has_ended_then_the_mean_of_the_ended_parts() -> None:
    clock = Clock()
    tally = Tally("nodes", ["w1", "w2", "w3", "w4", "w5", "w6"], clock)
    for part in ("w1", "w2"):
        assert tally.standing().left_s is None
        tally.begin(part)
        clock.now += 30
        tally.end(part)
    assert tally.standing() == Standing("nodes", 2, 6, None, None, 120.0)
    tally.begin("w3")
    clock.now += 12
    assert tally.standing() == Standing("nodes", 2, 6, "w3", 12.0, 108.0)


def test_between_two_ends_the_estimate_only_falls_and_is_never_negative() -> None:
    clock = Clock()
    tally = Tally("nodes", ["w1", "w2", "w3"], clock)
    tally.begin("w1")
    clock.now += 10
    tally.end("w1")
    tally.begin("w2")
    lefts = []
    for _ in range(100):
        clock.now += 5
        lefts.append(tally.standing().left_s)
    assert lefts[0] == 15.0
    assert all(left is not None and 0 <= left <= before for before, left in zip([20.0, *lefts], lefts, strict=False))
    tally.begin("w3")
    tally.end("w2")  # it took 500 s: the mean is honest about it
    assert tally.standing().left_s == 255.0


def test_parts_side_by_side_share_the_time_that_is_left() -> None:
    clock = Clock()
    tally = Tally("nodes", [f"w{number}" for number in range(8)], clock)
    for first in (0, 4):
        for number in range(first, first + 4):
            tally.begin(f"w{number}")
        if not first:
            clock.now += 60
            for number in range(4):
                tally.end(f"w{number}")
    assert tally.standing().left_s == 60.0
    clock.now += 90
    assert tally.standing().left_s == 0.0  # all four take longer than those before


def test_weights_are_what_a_part_probably_takes() -> None:
    clock = Clock()
    tally = Tally("tests", {"allreduce": 10.0, "train": 20.0, "burn_in": 30.0}, clock)
    tally.begin("allreduce")
    clock.now += 20
    tally.end("allreduce")
    assert tally.standing().left_s is None  # a sixth of the work
    tally.begin("train")
    clock.now += 40
    tally.end("train")
    assert tally.standing().left_s == 60.0


def test_nameless_parts_are_reached_and_reported_once_a_second() -> None:
    clock, reports = Clock(), list[str]()
    tally = Tally("fetching 300 packages", 300, clock)
    tally.watch(lambda _part, state: reports.append(state))
    for done in range(1, 151):
        clock.now += 0.5
        tally.reach(done)
        assert (tally.standing().left_s is None) is (done < 100)
    assert tally.standing().left_s == 75.0
    assert len(reports) == 75
    clock.now += 3600
    assert tally.standing() == Standing("fetching 300 packages", 150, 300, None, None, 0.0)


def test_a_part_that_fails_or_never_began_has_ended_and_one_done_again_has_not() -> None:
    tally, states = Tally("nodes", ["w1", "w2"], Clock()), list[tuple[str, str]]()
    tally.watch(lambda part, state: states.append((part, state)))
    with pytest.raises(OSError, match="gone"), tally.part("w1"):
        raise OSError("gone")
    tally.end("w2")
    tally.end("w2")
    assert (tally.standing().done, tally.standing().left_s) == (2, None)
    tally.begin("w1")
    assert tally.standing().done == 1
    assert states == [("w1", "begun"), ("w1", "failed"), ("w2", "done"), ("w1", "begun")]


@pytest.mark.parametrize(
    ("left_s", "words"),
    [(None, ""), (0.0, "longer than expected"), (59.0, "less than a minute left"), (61.0, "about 2 min left")],
)
def test_the_estimate_in_words(left_s: float | None, words: str) -> None:
    assert left_text(left_s) == words


def test_a_tally_without_listeners_counts_too() -> None:
    with silent("nodes", ["w1"]) as tally, tally.part("w1"):
        assert (tally.standing().done, tally.standing().longest) == (0, "w1")
