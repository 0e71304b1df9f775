"""Accounts and QOS of a blueprint as sacctmgr takes them: each a name (`user ada account=research`) and settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from hpcforge.blueprint.sections.slurm import TESTS_ACCOUNT, AccountSection, Billing, Limits, Qos, Tres
from hpcforge.blueprint.values import limit_s

_TRES = {
    "cpu": "cpu={}",
    "memory_gib": "mem={}G",
    "node": "node={}",
    "gpu": "gres/gpu={}",
    "shard": "gres/shard={}",
    "billing": "billing={}",
}
_WEIGHTS = {
    "cpu": ("CPU", "{:g}"),
    "memory_gib": ("Mem", "{:g}G"),
    "gpu": ("GRES/gpu", "{:g}"),
    "shard": ("GRES/shard", "{:g}"),
}


def with_tests(accounts: Mapping[str, AccountSection], user: str | None) -> Mapping[str, AccountSection]:
    """Return the accounts and, if there are any, the account of the tests for their user."""
    if not accounts or user is None:
        return accounts
    declared = accounts.get(TESTS_ACCOUNT) or AccountSection.model_validate({})
    users = {user: Limits.model_validate({}), **declared.users}
    return {**accounts, TESTS_ACCOUNT: declared.model_copy(update={"users": users})}


def associations(accounts: Mapping[str, AccountSection], qos: Mapping[str, Qos]) -> Iterator[tuple[str, str]]:
    """Yield all of it in an order in which it can be made: QOS first, an account after its parent, then users."""
    for name in _before(qos, {name: level.preempt for name, level in qos.items()}):
        yield f"qos {name}", _settings(qos[name])
    for name in _before(
        accounts, {name: (account.parent,) if account.parent else () for name, account in accounts.items()}
    ):
        yield f"account {name}", _settings(accounts[name])
    of_user: dict[str, list[str]] = {}
    for name, account in accounts.items():
        for user in account.users:
            of_user.setdefault(user, []).append(name)
    for name, account in accounts.items():
        for user, limits in account.users.items():
            # A user with several accounts gets the first as default, for jobs that name none.
            default = f"defaultaccount={name}" if of_user[user][0] == name and len(of_user[user]) > 1 else ""
            yield f"user {user} account={name}", " ".join(filter(None, (_settings(limits), default)))


def _before(names: Mapping[str, object], first: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield names in their order, each after its predecessors; names in a circle are omitted."""
    visited: set[str] = set()

    def visit(name: str, under_way: tuple[str, ...]) -> Iterator[str]:
        if name in visited or name in under_way or name not in names:
            return
        for predecessor in first[name]:
            yield from visit(predecessor, (*under_way, name))
        visited.add(name)
        yield name

    for name in names:
        yield from visit(name, ())


def billing_weights(billing: Billing | None) -> Iterator[tuple[str, str]]:
    """Yield what TRESBillingWeights has, by TRES."""
    for key, (tres, weight) in _WEIGHTS.items():
        value = getattr(billing, key, None)
        if value is not None:
            yield tres, weight.format(value)


def _settings(section: Limits | Qos) -> str:
    """Return all settings in the order of the schema."""
    by_key = {key: getattr(section, key) for key in type(section).model_fields if key != "users"}
    values = {key: _value(key, value) for key, value in by_key.items() if value is not None}
    return " ".join(f"{key.replace('_', '')}={value}" for key, value in values.items() if value)


def _value(key: str, value: object) -> str:
    if isinstance(value, Tres):
        amounts = {tres: getattr(value, tres) for tres in _TRES}
        return ",".join(_TRES[tres].format(amount) for tres, amount in amounts.items() if amount is not None)
    if isinstance(value, tuple):
        return ",".join(value)
    return _clock(value) if key == "max_wall" else str(value)


def _clock(max_wall: object) -> str:
    """Return a time as sacctmgr shows it: whole minutes, with days if there are any; -1 is no limit."""
    seconds = limit_s(str(max_wall))
    if math.isinf(seconds):
        return "-1"
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:00" if days else f"{hours:02}:{minutes:02}:00"
