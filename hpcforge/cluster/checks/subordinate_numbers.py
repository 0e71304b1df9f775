"""Check that the subordinate numbers of users' containers can be their own on every node. Pure.

The formula is that of `roles/container_users/users.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.blueprint.validate import Finding
from hpcforge.cluster.model import Cluster

_LAST, _COUNT = 4_294_967_294, 65_536


def subordinate_findings(cluster: Cluster) -> Iterator[Finding]:
    """Yield settings with which a range has the number of a person, or a user of the blueprint has no range."""
    role = _role_with(cluster, "first_number")
    if not (cluster.workers and cluster.container_runtimes and role):
        return
    variables = cluster.variables[role]
    first_user, first_number = variables["first_user"], variables["first_number"]
    if first_user >= first_number:
        yield Finding(
            ("roles", role, "first_user"),
            f"no user has a number from first_user, {first_user}, to below first_number, {first_number}",
            "set first_number above the number of every user",
        )
        return
    yield from _people(cluster, role, first_number)
    for user in cluster.users:
        last = first_number + (user.uid - first_user + 1) * _COUNT - 1
        if user.uid < first_user:
            yield Finding(
                ("users", user.name, "uid"),
                f"user {user.name} gets no subordinate numbers for containers: {user.uid} is below "
                f"roles.{role}.first_user, {first_user}",
                f"give the user a number from {first_user} on, if they run containers",
                severity="warning",
            )
        elif last > _LAST:
            yield Finding(
                ("roles", role, "first_number"),
                f"the subordinate numbers of user {user.name} ({user.uid}) would end above {_LAST}",
                f"set it to {first_number - (last - _LAST)} or lower, or raise first_user",
            )


def _people(cluster: Cluster, role: str, first_number: int) -> Iterator[Finding]:
    """Yield a first number that people of the directory may have."""
    directory, directory_role = cluster.services.get("directory"), _role_with(cluster, "min_id")
    if not directory or not (directory.on or directory.external) or not directory_role:
        return
    min_id = cluster.variables[directory_role]["min_id"]
    if min_id >= first_number:
        yield Finding(
            ("roles", role, "first_number"),
            f"subordinate numbers from {first_number} on include numbers of the directory's users, {min_id} and "
            f"higher (roles.{directory_role}.min_id)",
            f"set it above the number of every person and group of the directory, and first_user to {min_id}",
        )


def _role_with(cluster: Cluster, variable: str) -> str | None:
    """Return the role that declares a variable: Python names no role."""
    return next((role for role, variables in cluster.variables.items() if variable in variables), None)
