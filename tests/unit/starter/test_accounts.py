"""Accounts of a draft: the numbers that machines have, or none, and who is in the way."""

from __future__ import annotations

import pytest

from hpcforge.starter.accounts import TESTS_NAMES, TESTS_NUMBERS, accounts_of, questions, usual_accounts
from hpcforge.starter.description import Description, UnixAccount
from hpcforge.starter.machines import StarterError


def node(*users: tuple[str, int], groups: dict[str, int] | None = None, home: str = "", shell: str = "") -> Description:
    """A machine with these users, each with a group of its own name and number, and with more groups."""
    accounts = {
        name: UnixAccount(uid, uid, home or f"/home/{name}", shell or "/bin/bash") for name, uid in users
    }  # fmt: skip
    return Description(users=accounts, groups={**dict(users), **(groups or {})})


FRESH = node(("ops", 1000))


def test_the_number_that_all_machines_have_is_written() -> None:
    found = accounts_of("ops", {"n1": FRESH, "n2": FRESH})
    assert (found.login, found.missing, found.notes) == ("ops: {uid: 1000, admin: true}", "", ())
    assert (found.tests, found.tests_number, found.tests_guess) == ("tests", 1901, "")
    assert accounts_of("ops", {"n1": node(("ops", 5001), shell="/bin/zsh")}).login == (
        "ops: {uid: 5001, admin: true, shell: zsh}"
    )


# What one of three machines has, and what is said of it.
UNFIT = {
    "another number": (node(("ops", 1001)), "n3: account ops has number 1001"),
    "a group of all": (
        Description({"ops": UnixAccount(1000, 100, "/home/ops", "/bin/bash")}, {"users": 100}),
        "account ops has uid 1000 and gid 100, and no group of its own name and number",
    ),
    "a number of the system": (node(("ops", 998)), "account ops has number 998, and a blueprint has 1000 to 59999"),
    "a number of a directory": (node(("ops", 70_001)), "account ops has number 70001"),
    "a home elsewhere": (node(("ops", 1000), home="/srv/ops"), "the home of account ops is /srv/ops, not /home/ops"),
    "a shell of its own": (node(("ops", 1000), shell="/bin/tcsh"), "the shell of account ops is /bin/tcsh"),
    "another shell": (node(("ops", 1000), shell="/bin/zsh"), "n3: account ops has number 1000 and shell zsh"),
    "no database": (Description(), "the number of account ops is not known"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_an_account_that_a_blueprint_cannot_have_is_left_out_and_named(case: str) -> None:
    odd, why = UNFIT[case]
    found = accounts_of("ops", {"n1": FRESH, "n2": FRESH, "n3": odd})
    assert found.login is None
    assert why in found.missing and why in found.notes[0]
    assert "groupmod --gid 1000 ops; usermod --uid 1000" in found.notes[0]


# What machines have already, and the account for tests: name, number, comment, note.
TAKEN = {
    "a user's number": ([node(("ops", 1000), ("bob", 1901)), FRESH], "tests", 1902, "", "user bob on n1"),
    "a group's number": ([FRESH, node(("ops", 1000), groups={"lab": 1901})], "tests", 1902, "", "group lab on n2"),
    "two numbers": ([node(("ops", 1000), ("a", 1901)), node(("ops", 1000), ("b", 1902))], "tests", 1903, "", "user a"),
    "the number of the login": ([node(("ops", 1901)), node(("ops", 1901))], "tests", 1902, "", "user ops on n1"),
    "its name, alike": ([node(("ops", 1000), ("tests", 1944)), FRESH], "tests", 1944, "guess: this account", "n1"),
    "its name, unlike": (
        [node(("ops", 1000), ("tests", 1944)), node(("ops", 1000), ("tests", 1945))], "acceptance", 1901, "", "n[1-2]",
    ),
    "its name, a group": ([node(("ops", 1000), groups={"tests": 1200}), FRESH], "acceptance", 1901, "", "tests that"),
    "its name, whose number another has": (
        [node(("ops", 1000), ("tests", 1944)), node(("ops", 1000), ("eve", 1944))], "acceptance", 1901, "", "n1 alre",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN)
def test_tests_get_a_name_and_a_number_that_are_free(case: str) -> None:
    machines, name, number, guess, note = TAKEN[case]
    found = accounts_of("ops", {f"n{place}": each for place, each in enumerate(machines, 1)})
    assert (found.tests, found.tests_number) == (name, number)
    assert found.tests_guess.startswith(guess)
    assert note in " ".join(found.notes)


def test_without_a_free_name_or_number_there_is_no_draft() -> None:
    names = dict.fromkeys(TESTS_NAMES, 1200)
    with pytest.raises(StarterError, match="the machines have them all"):
        accounts_of("ops", {"n1": node(("ops", 1000), groups=names)})
    numbers = {f"g{number}": number for number in TESTS_NUMBERS}
    with pytest.raises(StarterError, match="no number from 1901"):
        accounts_of("ops", {"n1": node(("ops", 1000), groups=numbers)})


def test_root_is_not_a_user_of_a_blueprint_and_tests_is_not_the_login() -> None:
    assert accounts_of("root", {"n1": node(("root", 0), home="/root")}).login is None
    assert accounts_of("root", {"n1": node(("root", 0), home="/root")}).notes == ()
    assert accounts_of("tests", {"n1": node(("tests", 1000))}).tests == "acceptance"
    assert (usual_accounts("root").login, usual_accounts("tests").tests) == (None, "acceptance")
    assert usual_accounts("ops").login == "ops: {uid: 1000, admin: true}"
    assert {"ops", "tests", "1901"} <= {*questions("ops")}
