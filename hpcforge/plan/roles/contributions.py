"""Contributions to other roles: items of a kind that the receiving role declares by `accepts`. Pure.

A role that runs a service contributes, for example, the ports to open or lines of `slurm.conf`; the firewall's and
Slurm's templates use them as `contributions.KIND`. So the two roles are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.cluster.model import Node
from hpcforge.plan.roles.render import Template
from hpcforge.plan.roles.role import Role
from hpcforge.plan.roles.spec import AcceptSpec, ContributionSpec, RestartSpec

# Values for templates by kind: for `scope: cluster` a list of items, for `scope: node` such a list by node.
Contributions = Mapping[str, object]
Item = Mapping[str, Any]  # the typed fields of a kind, with `role`, `nodes` and perhaps `text`, for templates


@dataclass(frozen=True)
class Kind:
    """A kind of contributions, and the role that accepts it. `known`: the values that `unique` may have, None: any."""

    name: str
    role: Role
    spec: AcceptSpec
    known: tuple[str, ...] | None = None

    def check(self, role: Role, loc: tuple[str | int, ...], contribution: ContributionSpec) -> None:
        """Raise `RoleError` for a contribution with other fields than this kind has."""
        for name in contribution.fields:
            if name not in self.spec.fields:
                hint = did_you_mean(name, self.spec.fields) or f"there are: {', '.join(self.spec.fields)}"
                raise role.wrong(f"{self.name} has no field {quote(name)}", (*loc, name), hint)
        for name, variable in self.spec.fields.items():
            if variable.required and name not in contribution.fields:
                raise role.wrong(f"{self.name}: {name} is missing", loc, variable.description)
        if self.spec.text != (contribution.source is not None):
            hint = "its `source` names a file of the role" if self.spec.text else "remove `source`"
            raise role.wrong(f"{self.name} has {'a' if self.spec.text else 'no'} text", loc, hint)

    def item(self, contribution: ContributionSpec, render: Callable[[Template], str]) -> Item:
        """Return the fields of a contribution, rendered and typed. Raise ValueError for a wrong type."""
        fields: dict[str, object] = {}
        for name, variable in self.spec.fields.items():
            text = contribution.fields.get(name)
            try:
                fields[name] = variable.given(variable.usual if text is None else variable.typed(render(text)))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        self._check_known(fields)
        return fields

    def _check_known(self, item: Item) -> None:
        name = self.spec.unique[0] if self.spec.unique else ""
        if self.known is not None and str(item[name]).lower() not in self._folded:
            hint = did_you_mean(str(item[name]), self.known)
            raise ValueError(f"{name}: there is no {quote(str(item[name]))}" + (f"; {hint}" if hint else ""))

    @cached_property
    def _folded(self) -> frozenset[str]:
        return frozenset(map(str.lower, self.known or ()))


@dataclass(frozen=True)
class Contribution:
    """An item, its role and place in role.yaml, and the nodes where that role runs."""

    role: Role
    loc: tuple[str | int, ...]
    item: Item
    nodes: tuple[Node, ...]


def kinds_of(roles: Iterable[Role], values_of: Callable[[Role, AcceptSpec], tuple[str, ...] | None]) -> dict[str, Kind]:
    """Return the kinds that roles accept, by name.

    Raise `RoleError` if two roles accept one kind, if no role accepts an item's kind, or if an item has other fields
    than its kind.
    """
    roles, kinds = tuple(roles), dict[str, Kind]()
    for role in roles:
        for name, spec in role.spec.accepts.items():
            if name in kinds:
                message = f"accepts.{name}: role {kinds[name].role.name} accepts it, too"
                raise role.wrong(message, ("accepts", name), "contribute to that role, or choose another name")
            kinds[name] = Kind(name, role, spec, values_of(role, spec))
    for role in roles:
        for name, contributions in role.spec.contributes.items():
            if name not in kinds:
                hint = did_you_mean(name, kinds) or f"there are: {', '.join(kinds)}"
                raise role.wrong(f"no role accepts {quote(name)}", ("contributes", name), hint)
            for place, contribution in enumerate(contributions):
                kinds[name].check(role, ("contributes", name, place), contribution)
    return kinds


def merged(kind: Kind, contributions: Iterable[Contribution]) -> tuple[Item, ...]:
    """Merge the items of a kind that agree in the `unique` fields. Raise `RoleError` for a conflict."""
    by_key: dict[object, tuple[Contribution, Item]] = {}
    for contribution in contributions:
        item: Item = {**contribution.item, "role": contribution.role.name, "nodes": contribution.nodes}
        unique = tuple(contribution.item[name] for name in kind.spec.unique) or (contribution.role.name, len(by_key))
        first, before = by_key.get(unique, (contribution, None))
        by_key[unique] = (first, item if before is None else _merged(kind, first, before, contribution))
    return tuple(item for _, item in by_key.values())


def contributed_names(items: object, unique: Sequence[str]) -> tuple[str, ...]:
    """Return the names of all items of a kind: their unique fields, joined by `/`."""
    lists = items.values() if isinstance(items, Mapping) else [items]
    every = (item for several in lists for item in cast("Sequence[Item]", several))
    return tuple(dict.fromkeys("/".join(str(item[field]) for field in unique) for item in every))


def _merged(kind: Kind, first: Contribution, before: Item, contribution: Contribution) -> Item:
    item, joined = contribution.item, kind.spec.joined
    if not joined or not (_is_list(kind, first.item) and _is_list(kind, item)):
        joined = None
    for name in kind.spec.fields:
        if name != joined and item[name] != before[name]:
            label = ", ".join(str(item[field]) for field in kind.spec.unique)
            message = f"{kind.name}: {label} has {name} {item[name]}, and {before[name]} in role {first.role.name}"
            raise contribution.role.wrong(message, contribution.loc)
    more = {}
    if joined:
        words = dict.fromkeys((*before[joined].split(","), *item[joined].split(",")))
        more = {joined: ",".join(words)}
    return {**before, **more, "nodes": tuple(dict.fromkeys((*before["nodes"], *contribution.nodes)))}


def _is_list(kind: Kind, item: Item) -> bool:
    return kind.spec.joined_if is None or bool(item[kind.spec.joined_if])


# The order of roles, and checks across all roles.


Needs = Mapping[str, tuple[str, ...]]  # role -> its needs, as written in role.yaml


def all_needs(roles: Sequence[Role]) -> Needs:
    """Return the needs of each role: the declared ones, and roles that restart one of its units, on the same node.

    A role with artifacts needs the role that serves them. Raise `RoleError` if there is none, or if a role restarts a
    unit that no other role has.
    """
    depot = the_depot(roles)
    needs = {role.name: role.spec.needs for role in roles}
    for role in roles:
        if role.spec.artifacts and depot is None:
            raise role.wrong("has artifacts, but no role offers a service with `serves_artifacts`", ("artifacts",))
        if role.spec.artifacts and depot is not None:
            needs[role.name] = tuple(dict.fromkeys((*needs[role.name], f"{depot.name}@cluster")))
        for restart in role.spec.restarts:
            owners = [owner for owner in roles if owner is not role and _owns(owner, restart, role)]
            if not owners and "{{" not in restart.name:
                raise role.wrong(f"restarts {restart.name!r}, but no other role has such a unit", ("restarts",))
            for owner in owners:
                needs[owner.name] = tuple(dict.fromkeys((*needs[owner.name], role.name)))
    return needs


def in_order(roles: Sequence[Role], needs: Needs) -> list[Role]:
    """Return the roles, each after its needs. Raise `RoleError` for a circle."""
    by_name = {role.name: role for role in roles}
    graph = {name: sorted(need.partition("@")[0] for need in needs[name]) for name in by_name}
    for name, needed in graph.items():
        for need in needed:
            if need not in by_name:
                raise by_name[name].wrong(
                    f"needs {need!r}, but there is no such role", ("needs",), did_you_mean(need, by_name)
                )
    try:
        return [by_name[name] for name in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise by_name[error.args[1][0]].wrong(f"needs itself: {' -> '.join(error.args[1])}", ("needs",)) from error


def the_scheduler(roles: Sequence[Role]) -> str | None:
    """Return the role that installs Slurm's controller. Raise `RoleError` for two."""
    schedulers = [role for role in roles if role.spec.scheduler]
    if len(schedulers) > 1:
        raise schedulers[1].wrong(f"provides the scheduler, as does {schedulers[0].name}", ("scheduler",))
    return schedulers[0].name if schedulers else None


def the_depot(roles: Sequence[Role]) -> Role | None:
    """Return the role that serves artifacts. Raise `RoleError` for two."""
    depots = [role for role in roles if any(offer.serves_artifacts for offer in role.spec.services.values())]
    if len(depots) > 1:
        raise depots[1].wrong(f"serves artifacts, as does {depots[0].name}", ("services",))
    return depots[0] if depots else None


def _owns(owner: Role, restart: RestartSpec, role: Role) -> bool:
    """Return whether a role has the unit. A unit with a variable name belongs to a role that contributes to `role`."""
    if "{{" in restart.name:
        return not role.spec.accepts.keys().isdisjoint(owner.spec.contributes)
    return restart.name in {unit.name for unit in owner.spec.units}
