"""Print docs/roles.md: the keys of role.yaml, and the names in expressions, templates and Ansible tasks.

python -m tools.role_reference
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from hpcforge import bundled
from hpcforge.cluster import load
from hpcforge.cluster.machines import variables
from hpcforge.cluster.model import Cluster, Node
from hpcforge.design.fabric.topology_conf import Topology
from hpcforge.design.facility.design import PowerFeed
from hpcforge.plan.roles.role import Role, load_roles
from hpcforge.plan.roles.spec import json_schema
from tools.blueprint_reference import reference

_OF_DESIGN = {"PowerFeed": PowerFeed, "Topology": Topology}  # the model imports them for type checkers alone
_MADE_BY = "python -m tools.role_reference"
_PAGE = Path(__file__).with_name("roles.md")
_FIELD = re.compile(r"    (\w+): [^#\n]*?(?:  # (.*))?")


def page() -> str:
    """Return the page, with a worker of the shipped rehearsal as the example."""
    rehearsal = load(bundled.root() / "blueprints" / "rehearsal.yaml").cluster
    return role_reference(rehearsal, rehearsal.workers[0], load_roles(bundled.roles()))


def role_reference(cluster: Cluster, node: Node, roles: Iterable[Role]) -> str:
    """Return Markdown; variables have the values of a node of this cluster, kinds are those that `roles` accept."""
    table = reference(json_schema(), _MADE_BY)
    values = "".join(f"| `{name}` | `{value}` |\n" for name, value in variables(cluster, node).items())
    models = "\n".join(_models())
    table = table[table.index("| key |") :]
    page, kinds = _PAGE.read_text("utf-8"), "".join(_kinds(roles))
    return page.format(made_by=_MADE_BY, models=models, node=node.name, variables=values, table=table, kinds=kinds)


def _kinds(roles: Iterable[Role]) -> Iterator[str]:
    """Yield a row for each kind of contributions."""
    for role in roles:
        for name, kind in role.spec.accepts.items():
            fields = ", ".join(f"`{field}`" for field in (*kind.fields, *(["text"] if kind.text else ())))
            yield f"| `{name}` | {role.name} | {fields} | {kind.description} |\n"


def _models() -> Iterator[str]:
    """Yield a table for each type that a cluster contains, in the order of its first use."""
    models: list[type[Any]] = [Cluster]
    for model in models:
        names = {Cluster: " (`cluster`)", Node: " (`node`)"}
        rows = "".join(f"| `{name}` | {kind} | {meaning} |\n" for name, kind, meaning in _rows(model))
        doc = inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        yield f"### {model.__name__}{names.get(model, '')}\n\n{doc}\n\n| name | type | meaning |\n|---|---|---|\n{rows}"
        for hint in get_type_hints(model, localns=_OF_DESIGN).values():
            models += [model for model in dict.fromkeys(_dataclasses(hint)) if model not in models]


def _dataclasses(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for argument in get_args(hint):
        yield from _dataclasses(argument)


def _rows(model: type[Any]) -> Iterator[tuple[str, str, str]]:
    """Yield fields with the comments beside them, then properties with their docstrings."""
    lines = map(_FIELD.fullmatch, inspect.getsource(model).split("\n"))
    comments = {match[1]: match[2] or "" for match in lines if match}
    for field in dataclasses.fields(model):
        yield field.name, f"`{field.type}`".replace("|", "\\|"), comments.get(field.name, "").replace("|", "\\|")
    for name, value in vars(model).items():
        code = value.fget if isinstance(value, property) else getattr(value, "func", None)
        if code is not None and not name.startswith("_"):  # a template reaches no such name
            kind = inspect.signature(code).return_annotation
            yield name, f"`{kind}`".replace("|", "\\|"), inspect.cleandoc(value.__doc__ or "").partition("\n")[0]


if __name__ == "__main__":
    sys.stdout.write(page())
