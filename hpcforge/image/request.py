"""The request for an image, from the compiled blueprint's nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hpcforge.kinds.pins import Pin
from hpcforge.kinds.sources import PackageSource
from hpcforge.plan.desired import DesiredRole

KERNELS = "linux-image-"  # prefix of kernel packages
# Their installation makes unique state, with times and random numbers, that nodes must not share.
_MAKES_STATE = frozenset({"mariadb-server", "mysql-server", "postgresql"})


@dataclass(frozen=True)
class LeftPackage:
    """A package that is not in the image, with the reason: the first apply installs it."""

    package: str
    why: str


@dataclass(frozen=True)
class ImageRequest:
    """The request for an image; blueprints with equal requests share an image."""

    distribution: str
    release: str
    packages: tuple[str, ...]  # packages of all roles on all nodes, in order of names
    units: tuple[str, ...]  # units of roles: their packages must not start them
    left: tuple[LeftPackage, ...] = ()


def request_of(distribution: str, release: str, nodes: Mapping[str, Iterable[DesiredRole]]) -> ImageRequest:
    """Return the request from each node's desired packages."""
    packages: set[str] = set()
    units: set[str] = set()
    omitted: dict[str, str] = {}
    for roles in nodes.values():
        for role in roles:
            units.update(unit.name for unit in role.units)
            packages.update(role.packages)
            if any(isinstance(resource, PackageSource | Pin) for resource in role.resources):
                omitted.update(dict.fromkeys(role.packages, f"role {role.role} chooses its source"))
    omitted.update(dict.fromkeys(packages & _MAKES_STATE, "its installation makes a state of its own"))
    return ImageRequest(
        distribution,
        release,
        tuple(sorted(packages - omitted.keys())),
        tuple(sorted(units)),
        tuple(LeftPackage(name, reason) for name, reason in sorted(omitted.items())),
    )


def with_packages(request: ImageRequest, more: Iterable[str]) -> ImageRequest:
    """Return the request with packages that the image needs, also if a role leaves them to the first apply."""
    needed = set(more)
    omitted = tuple(left_package for left_package in request.left if left_package.package not in needed)
    return replace(request, packages=tuple(sorted({*request.packages, *needed})), left=omitted)


def with_kernel(request: ImageRequest, kernel: str) -> ImageRequest:
    """Return the request with a kernel, and with its headers if a role has some.

    The first apply would install headers of the newest kernel, which may differ from the image's kernel.
    """
    headers = kernel.replace(KERNELS, "linux-headers-", 1)
    return with_packages(request, {kernel, headers} & {kernel, *(omitted.package for omitted in request.left)})
