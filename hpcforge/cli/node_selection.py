"""The part of a cluster that options select: nodes, roles, tests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hpcforge.blueprint.hostlist import HostlistError, expand
from hpcforge.cli.options import SelectOptions
from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.cluster.select import select
from hpcforge.errors import UsageError
from hpcforge.plan.changes import Scope
from hpcforge.plan.test_selection import VERIFY
from hpcforge.run.site import Goal, Site


def choose(site: Site, goal: Goal, options: SelectOptions) -> Goal:
    """Return the goal for the selected nodes, roles and tests. Raises UsageError and SelectionError."""
    tests = next((choice for choice in VERIFY if choice == (options.verify or "touched")), None)
    if tests is None:
        raise UsageError(f"--verify {options.verify}: invalid value", f"one of {', '.join(VERIFY)}")
    for role in (*(options.only or ()), *(options.force or ())):
        if role not in goal.desired.roles:
            raise UsageError(f"role {role!r} does not exist", f"roles: {', '.join(goal.desired.roles)}")
    return replace(
        goal,
        nodes=select(site.cluster, options.limit or (), options.exclude or ()),
        whole=not (options.limit or options.exclude or options.only),
        scope=Scope(frozenset(options.only) if options.only else None, frozenset(options.force or ())),
        verify=tests,
    )


def tests_named(cluster: Cluster, names: Collection[str]) -> list[SmokeTest]:
    """Return the tests with these names. Raises UsageError for a name that the blueprint does not have."""
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    declared = list(dict.fromkeys(test.name for test in tests))
    for name in names:
        if name not in declared:
            hint = (
                f"tests: {', '.join(declared)}" if declared else "name it under `acceptance.tests`: docs/blueprint.md"
            )
            raise UsageError(f"the blueprint has no test {name!r}", hint)
    return [test for test in tests if test.name in names]


def expanded(text: str) -> tuple[str, ...]:
    """Return the names of a hostlist. Raises UsageError."""
    try:
        return expand(text)
    except HostlistError as error:
        raise UsageError(f"{text!r} {error}", error.hint or "write it like w[01-03]") from error
