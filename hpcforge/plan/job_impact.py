"""Which changes jobs can feel: only those call for smoke tests. Pure.

On a worker that is every change but of roles that say `affects_jobs: false`. On other nodes it is what workers need of
them, as roles say with `needs`, and what that needs in turn: scheduler, names, time; not the files of a login node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hpcforge.kinds.accounts import Account
from hpcforge.plan.admission import DrainOrder
from hpcforge.plan.desired import Desired, DesiredRole
from hpcforge.plan.plan import Change, Removal, Step

Part = tuple[str, str]  # a node and one of its roles


def nodes_affecting_jobs(
    desired: Desired,
    workers: Sequence[str],
    run_as: str | None,
    steps: Iterable[Step],
    removals: Mapping[str, Sequence[Removal]],
    drains: Iterable[DrainOrder],
) -> frozenset[str]:
    """The nodes with a change that jobs can feel. `run_as` is the account of the tests' own jobs."""
    reach = _Reach(desired, frozenset(workers))
    found = {drain.node for drain in drains if drain.action == "resume"}
    for step in steps:
        for node, change in step.changes.items():
            if node not in found and (
                (reach(node, step.role) and _does(change))
                or run_as in [account.name for account, _ in change.of(Account)]
            ):
                found.add(node)
    found |= {node for node, gone in removals.items() if any(reach(node, removal.role) for removal in gone)}
    return frozenset(found)


def _does(change: Change) -> bool:
    """Whether the change does anything: updating only the receipt does not affect jobs."""
    return bool(
        change.packages or change.resources or change.units or change.opaque or change.failed_checks or change.reboot
    )


class _Reach:
    """Whether jobs can feel a role on a node."""

    def __init__(self, desired: Desired, workers: frozenset[str]) -> None:
        self.workers = workers
        self.unfelt = {wanted.role for wanted in desired.distinct if not wanted.jobs_feel}
        self.needed = _needed(desired, workers)

    def __call__(self, node: str, role: str) -> bool:
        return role not in self.unfelt if node in self.workers else (node, role) in self.needed


def _needed(desired: Desired, workers: frozenset[str]) -> set[Part]:
    """Roles of other nodes that roles of workers need, near or far."""
    on_workers = {id(role): role for node in workers for role in desired.nodes.get(node, ())}
    waiting = [part for role in on_workers.values() if role.jobs_feel for part in _needs(role, "")]
    by_part = {(n, role.role): role for n, roles in desired.nodes.items() if n not in workers for role in roles}
    found: set[Part] = set()
    while waiting:
        part = waiting.pop()
        wanted = by_part.get(part)
        if wanted is not None and wanted.jobs_feel and part not in found:
            found.add(part)
            waiting += _needs(wanted, part[0])
    return found


def _needs(wanted: DesiredRole, node: str) -> Iterator[Part]:
    for need in wanted.needs:
        yield from ((other, need.role) for other in need.nodes or (node,))
