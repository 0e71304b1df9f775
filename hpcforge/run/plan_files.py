"""Plan files: written by `plan -o`, read by `apply --plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hpcforge.atomic import write_atomically
from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.errors import UsageError
from hpcforge.plan.desired import Desired
from hpcforge.plan.plan import Plan
from hpcforge.plan.plan_file import dump_plan, load_plan
from hpcforge.plan.secrets import PLAN_KEY

_MOST_BYTES = 1 << 30  # plans of many nodes are large


def write_plan(path: Path, plan: Plan, desired: Desired, secrets: Mapping[str, bytes]) -> None:
    """Write a plan, sealed with the cluster's own key."""
    write_atomically(path, dump_plan(replace(plan, desired=desired.digest), secrets[PLAN_KEY]))


def read_plan(path: Path, desired: Desired, secrets: Mapping[str, bytes], again: str) -> Plan:
    """A plan that was written for this very blueprint and these roles; `again` is how to make one.

    Raises:
        PlanFileError, UsageError: it must not be applied.
    """
    plan = load_plan(read_named(path, _MOST_BYTES), secrets[PLAN_KEY])
    if plan.desired != desired.digest:
        raise UsageError(
            f"{path} was made for another state of the blueprint, its secrets or hpcforge's roles",
            f"make a new one: {again}",
        )
    return plan
