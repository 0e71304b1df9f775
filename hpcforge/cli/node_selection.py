"""The part of a cluster that options select: nodes, roles, tests."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.cluster.select import select
from hpcforge.errors import UsageError
from hpcforge.plan.changes import Scope
from hpcforge.plan.desired import Desired
from hpcforge.plan.test_selection import VERIFY
from hpcforge.run.make_plan import Selection
from hpcforge.run.site import Site


def choose(
    site: Site,
    desired: Desired,
    limit: Sequence[str] | None,
    exclude: Sequence[str] | None,
    only: Sequence[str] | None,
    force: Sequence[str] | None,
    verify: str | None,
) -> Selection:
    """Return the selected nodes, roles and tests. Raises UsageError and SelectionError for unknown names."""
    what = next((choice for choice in VERIFY if choice == (verify or "touched")), None)
    if what is None:
        raise UsageError(f"--verify {verify}: invalid value", f"one of {', '.join(VERIFY)}")
    for role in (*(only or ()), *(force or ())):
        if role not in desired.roles:
            raise UsageError(f"role {role!r} does not exist", f"roles: {', '.join(desired.roles)}")
    return Selection(
        select(site.cluster, limit or (), exclude or ()),
        not (limit or exclude or only),
        Scope(frozenset(only) if only else None, frozenset(force or ())),
        what,
    )


def tests_named(cluster: Cluster, names: Collection[str]) -> list[SmokeTest]:
    """The tests with these names. Raises UsageError for one that the blueprint does not have."""
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    known = list(dict.fromkeys(test.name for test in tests))
    for name in names:
        if name not in known:
            has = f"tests: {', '.join(known)}" if known else "name it under `acceptance.tests`: docs/blueprint.md"
            raise UsageError(f"the blueprint has no test {name!r}", has)
    return [test for test in tests if test.name in names]
