"""Differences between a reservation and what scontrol shows; tests/stories/accounting has more."""

import dataclasses
import time

import pytest

from hpcforge.kinds.reservations import Reservation
from hpcforge.node.events import NodeError
from hpcforge.node.kinds import reservations

COURSE = Reservation("course", "w[01-02]", "2090-01-01T08:00:00", 90, "ada,bob", "", "maint,ignore_jobs")
# As `scontrol --oneliner show reservation` of 22.05 has it.
SHOWN = (
    "ReservationName=course StartTime=2090-01-01T08:00:00 EndTime=2090-01-01T09:30:00 Duration=01:30:00 Nodes=w[01-02] "
    "NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=4 "
    "Users=bob,ada Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a "
    "MaxStartDelay=(null)\n"
)


@pytest.fixture(autouse=True)
def scontrol(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What scontrol prints, by its last word."""
    said = {"reservation": SHOWN, "w[01-02]": "w01\nw02\n", "w02,w01": "w02\nw01\n", "w01": "w01\n"}
    monkeypatch.setattr(reservations, "_scontrol", lambda *words: said[words[-1]])
    monkeypatch.setattr(reservations, "_set_up", lambda: True)
    reservations._reservations.cache_clear()
    reservations._names.cache_clear()
    return said


def told(**more: object) -> list[list[str]]:
    wanted = dataclasses.replace(COURSE, **more)  # type: ignore[arg-type]
    return list(reservations._updates(reservations._changes(wanted, reservations._reservations()["course"])))


def test_the_same_otherwise_spelled_is_the_same() -> None:
    assert reservations.compare(COURSE) is None
    assert told(nodes="w02,w01", users="bob,ada", flags="ignore_jobs,maint") == []


def test_what_differs_is_told_by_what_comes_and_what_goes() -> None:
    assert told(nodes="w01") == [["Nodes=w01"]]
    assert told(users="ada,eve", accounts="vision") == [["Users=ada,eve", "Accounts=vision"]]
    assert told(users="", accounts="vision") == [["Users-=bob,ada", "Accounts=vision"]]
    assert told(flags="maint", minutes=60) == [["EndTime=2090-01-01T09:00:00"], ["Flags-=ignore_jobs"]]
    assert told(start="2090-01-02T08:00:00") == [["StartTime=2090-01-02T08:00:00", "EndTime=2090-01-02T09:30:00"]]
    found = reservations.compare(dataclasses.replace(COURSE, minutes=60, nodes="w01"))
    assert found is not None
    assert (found["found"], found["wanted"]) == (
        "endtime=2090-01-01T09:30:00 nodes=w[01-02]",
        "endtime=2090-01-01T09:00:00 nodes=w01",
    )


def clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


def test_one_that_has_begun_keeps_its_beginning_and_one_that_is_over_is_not_missed(scontrol: dict[str, str]) -> None:
    now_s = float(int(time.time()))
    began, late, ends = clock(now_s - 7200), clock(now_s - 60), clock(now_s + 3600)
    scontrol["reservation"] = SHOWN.replace("2090-01-01T08:00:00", late).replace("2090-01-01T09:30:00", ends)
    assert reservations.compare(dataclasses.replace(COURSE, start=began, minutes=180)) is None
    scontrol["reservation"] = "No reservations in the system\n"
    reservations._reservations.cache_clear()
    assert reservations.compare(dataclasses.replace(COURSE, start=began, minutes=119)) is None
    assert reservations.own("course", None, set()) == {"before": False}
    missed = reservations.compare(dataclasses.replace(COURSE, start=began, minutes=180))
    assert missed is not None
    assert missed["exists"] is False


def test_a_controller_that_does_not_answer_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*words: str) -> str:
        raise NodeError("slurm_load_reservations error: Unable to contact slurm controller")

    monkeypatch.setattr(reservations, "_scontrol", silent)
    found = reservations.compare(COURSE)
    assert found is not None
    assert COURSE.line(found) == ("? reservation course: its state is unknown: Slurm's controller does not answer")
    assert not COURSE.drifted({**found, "put": True})


def test_an_answer_of_another_form_is_none(scontrol: dict[str, str]) -> None:
    scontrol["reservation"] = "ReservationName=course Nodes=w01\n"
    found = reservations.compare(COURSE)
    assert found is not None
    assert found["unknown"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"name": "a b"}, "is not a valid reservation name"),
        ({"nodes": "w01 Users=eve"}, "is not a hostlist"),
        ({"start": "now"}, "is not a time"),
        ({"minutes": 0}, "lasts 0 minutes"),
        ({"users": ""}, "needs users or accounts"),
        ({"users": "ada eve"}, "are not names"),
        ({"accounts": "-all"}, "are not names"),
        ({"flags": "maint,daily"}, "unknown flag 'daily'"),
    ],
)
def test_what_scontrol_would_take_for_something_else_is_refused(more: dict[str, object], why: str) -> None:
    assert reservations.obstacle(COURSE, None) is None
    wanted = dataclasses.replace(COURSE, **more)  # type: ignore[arg-type]
    assert why in str(reservations.obstacle(wanted, None))
