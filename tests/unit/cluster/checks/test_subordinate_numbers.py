"""Settings of subordinate numbers that cannot hold are refused, with file, line and hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster.load import load

TEXT = """\
schema: 1
name: numbers
domain: numbers.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.1.0.1}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, addresses: "10.1.0.[11-12]"}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}, directory: {external: [ldap.example.org]}}
software: {os: {name: debian, release: "12"}, containers: {runtimes: [podman]}}
slurm: {controller: head, partitions: {main: {nodes: all, default: true}}}
users: {last: {uid: 59999}}
roles:
  ldap_client: {min_id: MIN_ID}
  container_users: {first_user: FIRST_USER, first_number: FIRST_NUMBER}
"""


def _text(first_user: int = 1000, first_number: int = 100_000, min_id: int = 1000) -> str:
    numbers = {"MIN_ID": min_id, "FIRST_USER": first_user, "FIRST_NUMBER": first_number}
    text = TEXT
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return text


def _said(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "numbers.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        found = load(path).found
    except InvalidInput as error:
        found = tuple(error.diagnostics)
    return [f"{entry.mark.line} {entry.severity}: {entry.message}; {entry.hint}" for entry in found if entry.mark]


def test_the_defaults_hold(tmp_path: Path) -> None:
    assert _said(tmp_path, _text()) == []
    assert _said(tmp_path, _text(first_number=428_343_295)) == []


@pytest.mark.parametrize(
    ("numbers", "line", "message", "hint"),
    [
        (
            {"min_id": 200_000},
            15,
            "include numbers of the directory's users, 200000 and higher",
            "first_user to 200000",
        ),
        ({"first_user": 100_000}, 15, "no user has a number from first_user", "above the number of every user"),
        ({"first_number": 428_343_296}, 15, "of user last (59999) would end above", "set it to 428343295 or lower"),
        ({"first_user": 60_000}, 12, "user last gets no subordinate numbers", "from 60000 on"),
    ],
)
def test_settings_that_cannot_hold_are_refused(
    tmp_path: Path, numbers: dict[str, int], line: int, message: str, hint: str
) -> None:
    [said] = _said(tmp_path, _text(**numbers))
    assert said.startswith(f"{line} ")
    assert message in said
    assert hint in said


def test_without_containers_there_is_nothing_to_refuse(tmp_path: Path) -> None:
    assert _said(tmp_path, _text(min_id=200_000).replace(", containers: {runtimes: [podman]}", "")) == []
