"""A blueprint's values of roles' variables, for templates, and required values that are missing. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from hpcforge.blueprint.role_declarations import RoleDeclarations
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.validate import Finding
from hpcforge.cluster.model import Cluster


def role_context(cluster: Cluster, role: str) -> dict[str, Any]:
    """Return the variables of all expressions and templates of a role; `vars` raises where it lacks a name."""
    return {"cluster": cluster, "vars": SimpleNamespace(**cluster.variables.get(role, {}))}


# A pattern avoids the import of Jinja, which `validate` does not need otherwise.
_BY_SERVICE = re.compile(r"node\.name in cluster\.services\.(\w+)\.on")


def missing_variables(blueprint: Blueprint, declared: RoleDeclarations, cluster: Cluster) -> Iterator[Finding]:
    """Yield variables without value and default, of roles that run on a node of this cluster."""
    is_set = "roles" in blueprint.model_fields_set  # False: the finding belongs to the setting that selects the role
    for role, name, variable in blueprint.roles.missing():
        loc, key = (("roles", role, name), False) if is_set else (("role_folders",), True)
        try:
            if not runs(role, declared.on[role], cluster):
                continue
        except ValueError as error:
            yield Finding(("role_folders",), f"the role `{role}`: on: {error}", "its role.yaml says that", key=True)
            continue
        yield Finding(
            loc,
            f"the role `{role}` runs here, and its variable `{name}` is missing",
            f"write `roles: {{{role}: {{{name}: ...}}}}`. {variable.description}",
            key=key,
        )


def runs(role: str, on: str, cluster: Cluster) -> bool:
    """Return whether a role runs on any node; True where that is not known: the expression may need a missing value.

    Raises ValueError for an expression that no role may have.
    """
    by_service = _BY_SERVICE.fullmatch(on)
    if by_service and by_service[1] in cluster.services:
        return bool(cluster.services[by_service[1]].on)

    from jinja2 import TemplateError  # noqa: PLC0415 - few blueprints have something missing

    from hpcforge.plan.roles import sandbox  # noqa: PLC0415
    from hpcforge.plan.roles.render import evaluate, forbidden  # noqa: PLC0415

    try:
        with sandbox.counted(len(cluster.nodes)):
            return any(evaluate(on, {**role_context(cluster, role), "node": node}) for node in cluster.nodes)
    except (TemplateError, TypeError, ValueError) as error:
        if forbidden(error):
            raise ValueError(str(error)) from error
        return True
