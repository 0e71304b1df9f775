"""Accounts that have another number on a node than on the head. Pure.

Two kinds of accounts matter. Packages make some (the catalog's `package_accounts`): Slurm's daemons identify each other
by the number of `slurm`; `munge` may have any number of the system's own, but with a person's number, that person can
read munge's key on the cluster. Other accounts own files in shared folders: files have numbers, no names. The head's
numbers count; for an account that the head lacks, its package's number counts. A node's answer decides that node alone.
A file server's names of owners count, their numbers only if it is the head.

Accounts of the blueprint are resources of roles, see `hpcforge.kinds.accounts`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.catalog.distribution import PackageAccount
from hpcforge.cluster.model import Cluster
from hpcforge.cluster.storage import FileSystem
from hpcforge.kinds.directories import Directory
from hpcforge.kinds.mounts import Mount
from hpcforge.plan.desired import Desired, DesiredRole
from hpcforge.plan.observation import Accounts, Observation
from hpcforge.plan.plan import Obstacle

_PEOPLE = range(1000, 60_000)  # people's numbers (FIRST_UID and LAST_UID of adduser.conf)
_SYSTEM = range(999, 99, -1)  # a node's numbers for system accounts, in the order of adduser(8)
_OF_SYSTEMD = "systemd-"  # its accounts may differ, also the temporary ones of running services


def shared_folders(cluster: Cluster, node: str) -> list[str]:
    """Return the folders of a node where file owners matter to other nodes."""
    served = [system.path for system in cluster.storage if node == system.server and system.path]
    mounted = [system.mount for system in cluster.storage if not system.drives and node == _reader(cluster, system)]
    return [*served, *mounted]


def _reader(cluster: Cluster, system: FileSystem) -> str | None:
    """Return the node that reads a mounted file system: the head, else the first where no node serves it."""
    head = cluster.slurm.controller
    if head in system.known:
        return head if head != system.server else None
    return next(iter(system.on), None) if system.server is None else None


def number_conflicts(
    cluster: Cluster, desired: Desired, reachable: Mapping[str, Observation], head: Observation | None
) -> Iterator[Obstacle]:
    """Yield an obstacle for each account with another number than on the head; without the head's answer, none."""
    if head is None or head.accounts is None:
        return
    owners = _owners(reachable, head.accounts)
    for node, observation in reachable.items():
        if observation.accounts is None:
            continue
        roles = desired.nodes[node]
        own = {resource.named for role in roles for resource in role.resources if resource.kind in _ACCOUNTS}
        for name, account in cluster.os_of(node).package_accounts.items():
            role = _role_with(cluster, node, roles, account)
            if role and name not in own:
                yield from _package_account(
                    _Host(node, role, observation.accounts, head.node, head.accounts), name, account
                )
        role = _role_with_files(cluster, node, roles)
        if role:
            host = _Host(node, role, observation.accounts, head.node, head.accounts)
            for name, kind, number in owners:
                local = host.numbers(kind).get(name)
                if name not in own and local is not None and local != number:
                    reason = f"{_differs(host, name, local, number)}, where it owns files that this node shares"
                    yield host.obstacle(kind, name, reason, _renumber(host, kind, name, number))


_ACCOUNTS = ("accounts", "groups")


@dataclass(frozen=True)
class _Host:
    """A node with its accounts, the head's accounts, and the role that needs them."""

    node: str
    role: str
    accounts: Accounts
    head: str
    of_head: Accounts

    def numbers(self, kind: str) -> Mapping[str, int]:
        """Return the node's numbers of users ("account") or groups."""
        return self.accounts.users if kind == "account" else self.accounts.groups

    def head_numbers(self, kind: str) -> Mapping[str, int]:
        """Return the head's numbers of users or groups."""
        return self.of_head.users if kind == "account" else self.of_head.groups

    def obstacle(self, kind: str, name: str, reason: str, commands: Sequence[str]) -> Obstacle:
        """Return the obstacle of an account or a group."""
        return Obstacle(self.node, self.role, kind, name, reason, tuple(commands))


def _owners(reachable: Mapping[str, Observation], of_head: Accounts) -> list[tuple[str, str, int]]:
    """Return name, kind and the head's number of each owner of shared files."""
    users = {name: uid for name, uid in of_head.users.items() if _owns(reachable, "owner_users", name, uid)}
    groups = {name: gid for name, gid in of_head.groups.items() if _owns(reachable, "owner_groups", name, gid)}
    users |= of_head.owner_users  # also owners from a directory service
    groups |= of_head.owner_groups
    owners = [(name, "account", number) for name, number in users.items()]
    owners += [(name, "group", number) for name, number in groups.items()]
    return [(name, kind, number) for name, kind, number in owners if number and not name.startswith(_OF_SYSTEMD)]


def _owns(reachable: Mapping[str, Observation], which: str, name: str, number: int) -> bool:
    """Return whether a node has files of that name, or of that number if it has no name there."""
    owners = (getattr(observation.accounts, which, {}) for observation in reachable.values())
    return any(name in owner or str(number) in owner for owner in owners)


def _role_with(cluster: Cluster, node: str, roles: Sequence[DesiredRole], account: PackageAccount) -> str | None:
    """Return the first role of a node that installs one of an account's packages."""
    names = cluster.os_of(node).names.packages
    packages = {package for name in account.packages for package in names.get(name, (name,))}
    return next((role.role for role in roles if packages.intersection(role.packages)), None)


def _role_with_files(cluster: Cluster, node: str, roles: Sequence[DesiredRole]) -> str | None:
    """Return the first role of a node that mounts or serves a shared folder."""
    systems = [s for s in cluster.storage if not s.drives and (node in s.known or node == s.server)]
    paths = {path for system in systems for path in (system.mount, system.path)}
    names = (role.role for role in roles if any(item.named in paths for item in (*role.of(Mount), *role.of(Directory))))
    return next(names, None)


def _package_account(host: _Host, name: str, account: PackageAccount) -> Iterator[Obstacle]:
    uid, gid = host.accounts.users.get(name), host.accounts.groups.get(name)
    if uid is None and gid is None:
        yield from _made_by_package(host, name, account)
    elif uid is not None and gid is None:
        yield host.obstacle(
            "group", name, f"account {name} is there, and no such group", _add_group(host, name, account)
        )
    elif account.number is not None:
        yield from _other_number(host, name, account.number)
    elif uid in _PEOPLE and uid != host.of_head.users.get(name):
        reason = f"it has number {uid}, one of people's: who has it on the cluster could read the files of {name}"
        yield host.obstacle("account", name, reason, _renumber(host, "account", name, _free_number(host)))


def _other_number(host: _Host, name: str, number: int) -> Iterator[Obstacle]:
    """Compare both numbers with the head's, or with the package's if the head lacks the account."""
    differs = {
        kind: (local, expected)
        for kind in ("account", "group")
        if (expected := host.head_numbers(kind).get(name, number)) != (local := host.numbers(kind).get(name, expected))
    }
    commands = [command for kind, (_, expected) in differs.items() for command in _renumber(host, kind, name, expected)]
    for kind, (local, expected) in differs.items():
        text = (
            _differs(host, name, local, expected)
            if name in host.head_numbers(kind)
            else f"{name} is {local} here and {expected} on other nodes"
        )
        yield host.obstacle(kind, name, text, list(dict.fromkeys(commands)))
        commands = []  # once


def _made_by_package(host: _Host, name: str, account: PackageAccount) -> Iterator[Obstacle]:
    """Compare the number that the package would give with the head's number and the node's used numbers."""
    if account.number is None:
        return
    number = host.of_head.users.get(name, account.number)
    holder = next((holder for holder, uid in host.accounts.users.items() if uid == number), None)
    if holder is not None:
        reason = f"its number {number} is that of {name} on the other nodes"
        yield host.obstacle("account", holder, reason, _renumber(host, "account", holder, _free_number(host)))
    if number != account.number:
        reason = f"its package makes it {account.number} here, and it is {number} on {host.head}"
        yield host.obstacle(
            "account", name, reason, [*_add_group(host, name, account), *_add_user(host, name, account)]
        )


def _differs(host: _Host, name: str, local: int, at_head: int) -> str:
    return f"{name} is {local} here and {at_head} on {host.head}"


def _add_group(host: _Host, name: str, account: PackageAccount) -> list[str]:
    number = host.of_head.groups.get(name, account.number) if account.number is not None else None
    return [f"groupadd --system {f'--gid {number} ' if number is not None else ''}{shlex.quote(name)}"]


def _add_user(host: _Host, name: str, account: PackageAccount) -> list[str]:
    word = shlex.quote(name)
    uid = host.of_head.users.get(name, account.number)
    return [f"useradd --system --uid {uid} --gid {word} {_CLOSED} {word}"]


_CLOSED = "--home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin"


def _renumber(host: _Host, kind: str, name: str, number: int) -> list[str]:
    """Return the commands that give an account or group and its local files another number."""
    word, old = shlex.quote(name), host.numbers(kind)[name]
    holder = next((holder for holder, used in host.numbers(kind).items() if used == number), None)
    before = _renumber(host, kind, holder, _free_number(host)) if holder is not None else []
    stop = f"systemctl stop {shlex.quote(f'{name}*.service')}"
    if kind == "account":
        files = f"find / /var -xdev -uid {old} -exec chown -h {word} {{}} +"
        return [*before, stop, f"usermod --uid {number} {word}", files]
    files = f"find / /var -xdev -gid {old} -exec chgrp -h {word} {{}} +"
    return [*before, stop, f"groupmod --gid {number} {word}", files]


def _free_number(host: _Host) -> int:
    """Return a system number that no account of the node or the head uses."""
    used = {n for a in (host.accounts, host.of_head) for numbers in (a.users, a.groups) for n in numbers.values()}
    return next((number for number in _SYSTEM if number not in used), _PEOPLE.stop)
