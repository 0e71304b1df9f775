"""What an image is asked to be, by what compile says of the blueprint's nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hpcforge.kinds.pins import Pin
from hpcforge.kinds.sources import PackageSource
from hpcforge.plan.desired import DesiredRole

# Their installation makes a state of its own, with times and numbers drawn at random, that no two nodes may share.
_MAKES_STATE = frozenset({"mariadb-server", "mysql-server", "postgresql"})


@dataclass(frozen=True)
class LeftPackage:
    """A package that is not in the image, and why: the first apply brings it."""

    package: str
    why: str


@dataclass(frozen=True)
class ImageRequest:
    """What an image is asked to be; blueprints whose requests are equal share an image."""

    distribution: str
    release: str
    packages: tuple[str, ...]  # of all roles on all nodes, in order of names
    units: tuple[str, ...]  # that roles start where they are wanted: none of them starts by being installed
    left: tuple[LeftPackage, ...] = ()


def request_of(distribution: str, release: str, nodes: Mapping[str, Iterable[DesiredRole]]) -> ImageRequest:
    """The request that comes of what each node should have."""
    packages: set[str] = set()
    units: set[str] = set()
    left: dict[str, str] = {}
    for wanted in nodes.values():
        for role in wanted:
            units.update(unit.name for unit in role.units)
            packages.update(role.packages)
            if any(isinstance(resource, PackageSource | Pin) for resource in role.resources):
                left.update(dict.fromkeys(role.packages, f"role {role.role} chooses its source"))
    left.update(dict.fromkeys(packages & _MAKES_STATE, "its installation makes a state of its own"))
    return ImageRequest(
        distribution,
        release,
        tuple(sorted(packages - left.keys())),
        tuple(sorted(units)),
        tuple(LeftPackage(name, why) for name, why in sorted(left.items())),
    )


def with_packages(request: ImageRequest, more: Iterable[str]) -> ImageRequest:
    """The same with packages that no role asks for, as a kernel."""
    return replace(request, packages=tuple(sorted({*request.packages, *more})))
