"""The accounts of a draft: the one that hpcforge logs in with, and the one that runs acceptance jobs. Pure.

hpcforge never renumbers an account, so that a draft has the numbers that machines have, or leaves an account out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpcforge.blueprint.hostlist import fold
from hpcforge.starter.description import Description, UnixAccount
from hpcforge.starter.machines import StarterError

TESTS_NAMES = ("tests", "acceptance", "hpctests")
TESTS_NUMBERS = range(1901, 1960)
_NUMBERS = range(1000, 60_000)  # numbers that a blueprint accepts
_FIRST = 1000  # the number of the first account on Debian, Ubuntu and cloud images
_SHELLS = {"/bin/bash": "bash", "/usr/bin/bash": "bash", "/bin/zsh": "zsh", "/usr/bin/fish": "fish"}


@dataclass(frozen=True)
class SiteAccounts:
    """Accounts as a draft has them; None: the login account is not in `users`, and `missing` says why.

    `guess` and `tests_guess` are comments beside them, `notes` sentences for the operator.
    """

    login: str | None
    tests: str
    tests_number: int = TESTS_NUMBERS[0]
    guess: str = ""
    tests_guess: str = ""
    missing: str = ""
    notes: tuple[str, ...] = ()


def questions(user: str) -> tuple[str, ...]:
    """Return the names and numbers for the question to machines."""
    return (user, *TESTS_NAMES, *map(str, TESTS_NUMBERS))


def usual_accounts(user: str) -> SiteAccounts:
    """Return the accounts where no machine was asked: the login account exists there, and has the first number."""
    tests = next(name for name in TESTS_NAMES if name != user)
    if user == "root":
        return SiteAccounts(None, tests)
    guess = f"guess: the number that {user} has on the nodes: id -u {user}"
    return SiteAccounts(f"{user}: {{uid: {_FIRST}, admin: true}}", tests, guess=guess)


def accounts_of(user: str, described: Mapping[str, Description]) -> SiteAccounts:
    """Return the accounts for machines that described themselves, by name. Raises `StarterError`."""
    if user == "root":
        login, missing, notes = None, "", list[str]()
    else:
        login, missing, notes = _login(user, described)
    tests, number, guess, remarks = _tests(user, described)
    return SiteAccounts(login, tests, number, "", guess, missing, (*notes, *remarks))


def _login(user: str, described: Mapping[str, Description]) -> tuple[str | None, str, list[str]]:
    unfit: dict[str, list[str]] = {}
    numbers: dict[tuple[int, str], list[str]] = {}
    for name, description in described.items():
        account = description.users.get(user)
        if problem := _problem(user, account, description):
            unfit.setdefault(problem, []).append(name)
        elif account:
            numbers.setdefault((account.uid, _SHELLS[account.shell]), []).append(name)
    if not unfit and len(numbers) == 1:
        [(number, shell)] = numbers
        shown = f", shell: {shell}" if shell != "bash" else ""
        return f"{user}: {{uid: {number}, admin: true{shown}}}", "", []
    same_shell = len({shell for _, shell in numbers}) == 1
    for (number, shell), names in numbers.items() if len(numbers) > 1 else ():
        unfit.setdefault(f"account {user} has number {number}" + ("" if same_shell else f" and shell {shell}"), names)
    missing = "; ".join(f"{fold(names)}: {problem}" for problem, names in unfit.items())
    common = max(numbers, key=lambda number: len(numbers[number]))[0] if numbers else _FIRST
    notes = [
        f"{missing}. So {user} is not in `users`, but hpcforge still logs in with it. To manage it, make it equal on "
        f"all nodes (groupmod --gid {common} {user}; usermod --uid {common} --shell /bin/bash {user}), then add: "
        f"users: {{{user}: {{uid: {common}, admin: true}}}}"
    ]
    return None, missing, notes


def _problem(user: str, account: UnixAccount | None, description: Description) -> str:
    """Return why a blueprint cannot have an account in its form; "" if it can."""
    if account is None:
        return f"the number of account {user} is not known"
    if (account.gid, description.groups.get(user)) != (account.uid, account.uid):
        return f"account {user} has uid {account.uid} and gid {account.gid}, and no group of its own name and number"
    if account.uid not in _NUMBERS:
        return f"account {user} has number {account.uid}, and a blueprint has {_NUMBERS[0]} to {_NUMBERS[-1]}"
    if account.home != f"/home/{user}":
        return f"the home of account {user} is {account.home[:80]}, not /home/{user}"
    if account.shell not in _SHELLS:
        return f"the shell of account {user} is {account.shell[:80]}"
    return ""


def _tests(user: str, described: Mapping[str, Description]) -> tuple[str, int, str, list[str]]:
    """Name and number of the account for tests, a comment, and notes: what no machine has, or one that all can have."""
    notes: list[str] = []
    for name in TESTS_NAMES:
        if name == user:
            continue
        holders = {
            node: description
            for node, description in described.items()
            if name in description.users or name in description.groups
        }
        problems = {_problem(name, description.users.get(name), description) for description in holders.values()}
        uids = {account.uid for description in holders.values() if (account := description.users.get(name))}
        if not holders:
            number = _free(described)
            if number != TESTS_NUMBERS[0]:
                owners = "; ".join(_owners(described, TESTS_NUMBERS[0])) or "another name or node"
                notes.append(f"{name} gets number {number}: {TESTS_NUMBERS[0]} is in use: {owners}")
            return name, number, "", notes
        if problems == {""} and len(uids) == 1 and not _is_used(described, holders, *uids):
            number = uids.pop()
            notes.append(f"acceptance jobs run as {name} ({number}), an account that {fold(holders)} already has")
            return name, number, f"guess: this account exists on {fold(holders)}", notes
        notes.append(f"{fold(holders)} already has a user or group {name} that differs or has another form: not used")
    raise StarterError(f"{', '.join(TESTS_NAMES)}: the machines have them all", "free one name for acceptance jobs")


def _free(described: Mapping[str, Description]) -> int:
    for number in TESTS_NUMBERS:
        if not any(_owners(described, number)):
            return number
    raise StarterError(
        f"no number from {TESTS_NUMBERS[0]} to {TESTS_NUMBERS[-1]} is free on all machines",
        "free one for acceptance jobs",
    )


def _is_used(described: Mapping[str, Description], holders: Mapping[str, Description], number: int) -> bool:
    others = {node: description for node, description in described.items() if node not in holders}
    return any(_owners(others, number))


def _owners(described: Mapping[str, Description], number: int) -> Iterator[str]:
    """Yield the owners of a number, with the node: users, then groups of another name."""
    for node, description in described.items():
        names = {name: "user" for name, account in description.users.items() if number in (account.uid, account.gid)}
        names = {**{name: "group" for name, gid in description.groups.items() if gid == number}, **names}
        yield from (f"{kind} {name} on {node}" for name, kind in names.items())
