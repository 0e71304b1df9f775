"""Check that the subordinate numbers of users' containers can be their own on every node. Pure.

The formula is that of `roles/container_users/users.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.blueprint.validate import Finding
from hpcforge.cluster.model import Cluster

_LAST, _COUNT = 4_294_967_294, 65_536
_ROLE = ("roles", "container_users")


def subordinate_findings(cluster: Cluster) -> Iterator[Finding]:
    """Yield settings with which a range has the number of a person, or a user of the blueprint has no range."""
    variables = cluster.variables.get("container_users")
    if not (cluster.workers and cluster.container_runtimes and variables):
        return
    first_user, first_number = variables["first_user"], variables["first_number"]
    if first_user >= first_number:
        yield Finding(
            (*_ROLE, "first_user"),
            f"no user has a number from first_user, {first_user}, to below first_number, {first_number}",
            "set first_number above the number of every user",
        )
        return
    directory = cluster.services["directory"]
    min_id = cluster.variables["ldap_client"]["min_id"]
    if (directory.on or directory.external) and min_id >= first_number:
        yield Finding(
            (*_ROLE, "first_number"),
            f"subordinate numbers from {first_number} on include those of the directory's people, who have {min_id} "
            "or a higher number (roles.ldap_client.min_id)",
            "set first_number above the number of every person and group of the directory, "
            f"and first_user to {min_id}",
        )
    yield from _without_range(cluster, first_user, first_number)


def _without_range(cluster: Cluster, first_user: int, first_number: int) -> Iterator[Finding]:
    for user in cluster.users:
        if user.uid < first_user:
            yield Finding(
                ("users", user.name, "uid"),
                f"user {user.name} gets no subordinate numbers for containers: {user.uid} is below "
                f"roles.container_users.first_user, {first_user}",
                f"give the user a number from {first_user} on, if they run containers",
                severity="warning",
            )
        elif first_number + (user.uid - first_user + 1) * _COUNT - 1 > _LAST:
            yield Finding(
                (*_ROLE, "first_number"),
                f"the subordinate numbers of user {user.name} ({user.uid}) would end above {_LAST}",
                f"set it to {_LAST + 1 - (user.uid - first_user + 1) * _COUNT} or lower, or raise first_user",
            )
