"""What an image is asked to be, by what compile says of the blueprint's nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hpcforge.kinds.pins import Pin
from hpcforge.kinds.sources import Source
from hpcforge.plan.desired import Wanted

# Their installation makes a state of its own, with times and numbers drawn at random, that no two nodes may share.
_MAKES_STATE = frozenset({"mariadb-server", "mysql-server", "postgresql"})


@dataclass(frozen=True)
class Left:
    """A package that is not in the image, and why: the first apply brings it."""

    package: str
    why: str


@dataclass(frozen=True)
class Request:
    """What an image is asked to be; blueprints whose requests are equal share an image."""

    distribution: str
    release: str
    packages: tuple[str, ...]  # of all roles on all nodes, in order of names
    units: tuple[str, ...]  # that roles start where they are wanted: none of them starts by being installed
    left: tuple[Left, ...] = ()


def request_of(distribution: str, release: str, nodes: Mapping[str, Iterable[Wanted]]) -> Request:
    """The request that comes of what each node should have."""
    packages: set[str] = set()
    units: set[str] = set()
    left: dict[str, str] = {}
    for wanted in nodes.values():
        for one in wanted:
            units.update(unit.name for unit in one.units)
            packages.update(one.packages)
            if any(isinstance(resource, Source | Pin) for resource in one.resources):
                left.update(dict.fromkeys(one.packages, f"role {one.role} chooses its source"))
    left.update(dict.fromkeys(packages & _MAKES_STATE, "its installation makes a state of its own"))
    return Request(
        distribution,
        release,
        tuple(sorted(packages - left.keys())),
        tuple(sorted(units)),
        tuple(Left(name, why) for name, why in sorted(left.items())),
    )


def with_packages(request: Request, more: Iterable[str]) -> Request:
    """The same with packages that no role asks for, as a kernel."""
    return replace(request, packages=tuple(sorted({*request.packages, *more})))
