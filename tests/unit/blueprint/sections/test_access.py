"""Users, groups and the way in."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.access import people_findings, unknown_user
from tests.unit.blueprint.drafts import draft, errors, places

USERS = "  ada: {uid: 2001}\n"


def test_a_jump_host_may_be_its_name_alone() -> None:
    sections = draft(("access: {user: ops}", "access: {user: ops, via: gate.example.org}")).sections
    assert sections["access"].via.model_dump() == {"host": "gate.example.org", "user": None, "host_keys": ()}


@pytest.mark.parametrize(
    ("users", "groups", "wrong"),
    [
        ("ada: {uid: 2001}, bob: {uid: 2001}", "", errors("users.bob.uid")),
        ("ada: {uid: 2001, groups: [vision]}", "vision: {gid: 3001}", []),
        ("ada: {uid: 2001, groups: [vison]}", "vision: {gid: 3001}", errors("users.ada.groups.0")),
        ("ada: {uid: 2001}", "vision: {gid: 2001}", errors("groups.vision.gid")),
        ("ada: {uid: 2001}", "vision: {gid: 3001}, speech: {gid: 3001}", errors("groups.speech.gid")),
        ("ada: {uid: 2001}", "ada: {gid: 3001}", errors("groups.ada")),
    ],
)
def test_numbers_and_groups_of_people(users: str, groups: str, wrong: list[tuple[str, str]]) -> None:
    written = f"  {{{users}}}\n" + (f"groups: {{{groups}}}\n" if groups else "")
    assert places(people_findings(draft((USERS, written)))) == wrong


@pytest.mark.parametrize(
    ("user", "wrong"),
    [
        ("{uid: 2001, expires: 2030-01-01}", errors("users.ops.expires")),
        ("{uid: 2001, shell: nologin}", errors("users.ops.shell")),
        ("{uid: 2001, keys: [keys/ops.pub]}", [("users.ops.keys", "warning")]),
        ("{uid: 2001, admin: true}", []),
    ],
)
def test_the_login_account_is_not_locked_out(user: str, wrong: list[tuple[str, str]]) -> None:
    assert places(people_findings(draft((USERS, f"  ops: {user}\n")))) == wrong


@pytest.mark.parametrize(
    ("changes", "user", "wrong"),
    [
        ((), "ada", []),
        ((), "adda", errors("here")),
        ((("time: {on: head}", "time: {on: head}, directory: {external: [ldap.example.org]}"),), "adda", []),
        ((("uid: 2001", "uid: x"),), "adda", errors("here")),
        (((USERS, "  [ada]\n"),), "adda", []),  # users are not known
    ],
)
def test_a_user_may_be_of_the_directory(
    changes: tuple[tuple[str, str], ...], user: str, wrong: list[tuple[str, str]]
) -> None:
    assert places(unknown_user(draft(*changes), ("here",), user)) == wrong
