"""What Slurm is told around tests on a cluster in use, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from hpcforge.verify.head import Completed
from hpcforge.verify.heartbeat import Owner
from hpcforge.verify.reservation import NotDrainedError, ReservationError, drain, drained_unless_passed, reserved


class TellingHead:
    """Takes commands, and refuses those that begin with some words."""

    owner = Owner("cafe12345678", "ada@desk", {"where": "0" * 16, "pid": 1, "started": 2})

    def __init__(self, refuses: str = "-", stdout: str = "") -> None:
        self.told, self.refuses, self.stdout = list[str](), refuses, stdout

    def stop(self) -> bool:
        return False

    def tell(self, argv: Sequence[str], *, timeout_s: float) -> None:
        raise AssertionError

    def pause(self, seconds: float, meanwhile: Callable[[], None]) -> None:
        raise AssertionError

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        user: str | None = None,
        timeout_s: float,
        aside: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Completed:
        self.told.append(" ".join(argv))
        refused = self.told[-1].startswith(self.refuses)
        return Completed(1, "", "Requested nodes are busy\n") if refused else Completed(0, self.stdout, "")


def test_a_reservation_is_removed_whatever_happens() -> None:
    head = TellingHead()
    with pytest.raises(KeyboardInterrupt), reserved(head, ["w01", "w02"], "tests", 30, print) as name:
        assert name == "hpcforge-cafe1234"
        raise KeyboardInterrupt
    assert head.told == [
        "scontrol create reservation ReservationName=hpcforge-cafe1234 StartTime=now Duration=30 Nodes=w[01-02] "
        "Users=tests Flags=PURGE_COMP=3",
        "scontrol delete ReservationName=hpcforge-cafe1234",
    ]


def test_the_reservation_of_a_node_that_must_not_return_untested_is_not_purged() -> None:
    head = TellingHead()
    with reserved(head, ["w01"], "tests", 30, print, purge=False):
        assert "PURGE" not in head.told[0]


def test_nodes_that_are_in_use_are_not_reserved() -> None:
    head = TellingHead("scontrol create")
    refused = pytest.raises(ReservationError, match=r"did not reserve w01: Requested nodes are busy")
    with refused, reserved(head, ["w01"], "tests", 30, print):
        raise AssertionError
    assert head.told[1:] == ["scontrol delete ReservationName=hpcforge-cafe1234"]  # Slurm may have made it, too late


def test_the_reservation_of_a_node_that_could_not_be_drained_stays() -> None:
    head = TellingHead("scontrol update NodeName=w03 State=DRAIN")
    with (
        pytest.raises(NotDrainedError),
        reserved(head, ["w03"], "tests", 30, print, purge=False),
        drained_unless_passed(head, "w03", "bad fan", 600),
    ):
        pass
    assert not any("scontrol delete" in told for told in head.told)
    assert head.told[-1].startswith("scontrol update NodeName=w03 State=DRAIN")


def test_a_timer_that_still_runs_is_an_error() -> None:
    head = TellingHead("systemctl stop")
    with pytest.raises(ReservationError, match="not be stopped"), drained_unless_passed(head, "w03", "x", 600) as ends:
        ends("")


@pytest.mark.parametrize(
    ("says", "drains"),
    [("", []), ("smoke test copy missed", ["smoke test copy missed"]), (None, ["bad fan"])],
)
def test_a_node_stays_in_service_only_if_it_passed(says: str | None, drains: list[str]) -> None:
    head = TellingHead()
    with drained_unless_passed(head, "w03", "bad fan", 600) as ends:
        if says is not None:
            ends(says)
    timer = head.told.index(next(told for told in head.told if told.startswith("systemd-run")))
    assert head.told[timer].endswith("scontrol update NodeName=w03 State=DRAIN Reason=bad fan")
    resumed = head.told.index("scontrol update NodeName=w03 State=RESUME")
    assert timer < resumed  # should this run be killed from here on
    assert head.told[resumed + 1 : -1] == [f"scontrol update NodeName=w03 State=DRAIN Reason={why}" for why in drains]
    assert head.told[-1] == "systemctl stop hpcforge-gate-w03.timer"


def test_without_a_timer_nothing_is_resumed() -> None:
    head = TellingHead("systemd-run")
    with pytest.raises(ReservationError), drained_unless_passed(head, "w03", "bad fan", 600):
        raise AssertionError
    assert not any("RESUME" in told for told in head.told)


def test_what_is_not_one_node_of_the_test_is_not_drained() -> None:
    head = TellingHead()
    for node in ("ALL", "w[01-02]", "w01,w02", "w03"):
        with pytest.raises(ReservationError, match="is not a node of the test"):
            drain(head, node, ("w01", "w02"), "slow")
    assert head.told == []
