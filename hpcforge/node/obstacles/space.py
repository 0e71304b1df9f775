"""File systems without room for the changes, and read-only ones.

`hpcforge.node.disk_space` judges them, and refuses the same when a change begins. Here the sizes of new files are not
known yet: each counts as large as the old one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hpcforge.node import disk_space, package_manager
from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.kinds import BLOCK, SpaceNeed, handler
from hpcforge.node.unit_files import FOLDER

if TYPE_CHECKING:
    from hpcforge.node.requests import DesiredRoleRequest


_DAEMONS = ("/var/lib/", "/var/log/")  # folders of daemons; users fill others
_DAEMON_BYTES, _DAEMON_INODES = 4 * 1024**2, 16


def search(inspection: Inspection) -> Iterator[Conflict]:
    """Yield each file system without room for the roles' files, or for their daemons'."""
    short = list(_for_changes(inspection)) if inspection.roles else []
    yield from short
    devices = {os.stat(conflict.name).st_dev for conflict in short}  # noqa: PTH116
    yield from _for_daemons(inspection, devices)


def _for_changes(inspection: Inspection) -> Iterator[Conflict]:
    roles: dict[str, str] = {}  # first role by the path that it writes to
    needs = disk_space.own_needs()
    for role in inspection.roles:
        for need in role_needs(role, inspection):
            roles.setdefault(disk_space.existing(need.path), role["role"])
            needs.append(need)
    packages = inspection.packages()
    for need in disk_space.package_needs(sorted(packages)):
        roles.setdefault(disk_space.existing(need.path), next(iter(packages.values())))
        needs.append(need)
    for path, state, detail, commands in disk_space.shortages(needs):
        reason = f"the file system of {path} {state}: {detail}"
        yield Conflict(roles.get(path, inspection.roles[0]["role"]), "disk", path, reason, commands)


def _for_daemons(inspection: Inspection, devices: set[int]) -> Iterator[Conflict]:
    """Yield the file systems, except these devices, on which a role's daemon cannot write its state or its log."""
    for role in inspection.all_roles:
        for folder in role.get("leaves", ()):
            path = disk_space.existing(folder["path"])
            configured = role["role"] in inspection.receipt.roles
            if not folder["path"].startswith(_DAEMONS) or not (configured or path == folder["path"]):
                continue
            device = os.stat(path).st_dev  # noqa: PTH116
            need = SpaceNeed(path, _DAEMON_BYTES, _DAEMON_INODES)
            for _, state, detail, commands in disk_space.shortages([need]) if device not in devices else ():
                devices.add(device)
                reason = f"the file system of {path}, where a daemon writes, {state}: {detail}"
                yield Conflict(role["role"], "disk", path, reason, commands)


def role_needs(role: DesiredRoleRequest, inspection: Inspection) -> Iterator[SpaceNeed]:
    """Yield the space that a role needs: for changed resources, its own code, packages, and links of units."""
    difference = inspection.differences.get(role["role"], {})
    for kind, item in inspection.resources(role):
        yield from handler(kind.name).room(item)
    if difference.get("opaque"):
        yield from (SpaceNeed(tree["path"], BLOCK, 1) for tree in role.get("trees", ()))
    if difference.get("packages"):
        yield from package_manager.of_node().base_needs
    if difference.get("units"):
        yield SpaceNeed(FOLDER, BLOCK, 1)
