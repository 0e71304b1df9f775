"""Reservations of a blueprint: names, nodes and times."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.slurm import ReservationSection, over, overlapping, reservation_findings
from hpcforge.blueprint.validate import Draft, Finding
from tests.unit.blueprint.drafts import ACCOUNTED, draft, errors, places

PARTITION = "    main: {nodes: all, default: true}\n"


def reserved(*reservations: str) -> Draft:
    listed = "".join(f"    r{number}: {{{text}}}\n" for number, text in enumerate(reservations, 1))
    accounts = "  accounts: {vision: {users: {ada: {}}}}\n"
    return draft(ACCOUNTED, (PARTITION, f"{PARTITION}{accounts}  reservations:\n{listed}"))


def no_findings(_loc: Loc, _text: str) -> Iterator[Finding]:
    return iter(())


@pytest.mark.parametrize(
    ("reservation", "wrong"),
    [
        ("nodes: w01, start: 2027-03-01T08:00, duration: 01:00:00, users: [ada]", []),
        ("nodes: w01, start: 2027-03-01T08:00, duration: 00:00:59", ["duration"]),
        ("nodes: w01, start: 2027-03-01T08:00, duration: 00:01:00", []),
        ("nodes: w01, start: 2027-03-01T08:00, duration: infinite", ["duration"]),
        ("nodes: w01, start: 2027-03-01T08:00, duration: 01:00:00, users: [ada, eve]", ["users.1"]),
        ("nodes: w01, start: 2027-03-01T08:00, duration: 01:00:00, accounts: [vison]", ["accounts.0"]),
        ("nodes: w01, start: 2027-03-01T08:00, duration: 01:00:00, accounts: [vision]", []),
    ],
)
def test_a_reservation_has_an_end_users_and_accounts(reservation: str, wrong: list[str]) -> None:
    findings = reservation_findings(reserved(reservation), no_findings)
    assert places(findings) == errors(*(f"slurm.reservations.r1.{key}" for key in wrong))


def test_nodes_of_reservations_are_checked_at_their_place() -> None:
    checked: list[tuple[Loc, str]] = []

    def workers(loc: Loc, text: str) -> Iterator[Finding]:
        checked.append((loc, text))
        return iter(())

    list(reservation_findings(reserved("nodes: all!w01, start: 2027-03-01T08:00, duration: 01:00:00"), workers))
    assert checked == [(("slurm", "reservations", "r1", "nodes"), "all!w01")]


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        ("w01, start: 2027-03-01T08:00, duration: 01:00:00", "w01, start: 2027-03-01T08:59, duration: 01:00:00", True),
        ("w01, start: 2027-03-01T08:00, duration: 01:00:00", "w01, start: 2027-03-01T09:00, duration: 01:00:00", False),
        ("w01, start: 2027-03-01T09:00, duration: 01:00:00", "w01, start: 2027-03-01T08:00, duration: 01:00:00", False),
        ("w01, start: 2027-03-01T08:00, duration: 01:00:00", "w02, start: 2027-03-01T08:00, duration: 01:00:00", False),
        ("w01, start: 2027-02-28T08:00, duration: 2-00:00:00", "w01, start: 2027-03-01T08:00, duration: 1:00:00", True),
        ("w01, start: 2027-03-01T08:00, duration: 01:00:00, flags: [maint]",
         "w01, start: 2027-03-01T08:00, duration: 01:00:00", False),
    ],
)  # fmt: skip
def test_reservations_of_the_same_nodes_at_a_time_overlap(first: str, second: str, overlap: bool) -> None:
    findings = overlapping(reserved(f"nodes: {first}", f"nodes: {second}"), lambda text: (text,))
    assert places(findings) == errors(*["slurm.reservations.r2.nodes"] * overlap)


@pytest.mark.parametrize(("moment", "ended"), [("2027-03-01T08:59", False), ("2027-03-01T09:00", True)])
def test_a_reservation_is_over_at_its_end(moment: str, ended: bool) -> None:
    reservation = ReservationSection.model_validate(
        {"nodes": "w01", "start": "2027-03-01T08:00", "duration": "01:00:00"}
    )
    wrong = [("slurm.reservations.course.start", "warning")] * ended
    assert places(over({"course": reservation}, moment)) == wrong
