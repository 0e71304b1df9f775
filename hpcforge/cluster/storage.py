"""The file systems that nodes of a cluster share."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class FileSystem:
    """Files that several nodes reach at the same place."""

    name: str
    kind: str
    what: str  # as mount(8) names it on those nodes
    type: str  # for mount(8)
    options: str  # of mount(8), with commas between
    mount: str  # where nodes find it
    on: tuple[str, ...]  # the nodes that do
    server: str | None = None  # the node that has the files; None: the site has them
    path: str | None = None  # where they are on it
    packages: tuple[str, ...] = ()  # that a node needs for it, by Debian 12's names
    mounted_by: str = ""  # what mounts it on nodes; "": hpcforge

    @property
    def unit(self) -> str:
        """The systemd unit that mounts it."""
        return f"{self.mount[1:].replace('-', chr(92) + 'x2d').replace('/', '-')}.mount"

    def at(self, node: str) -> FileSystem:
        """As a node mounts it: the server binds its own folder, since none is to be its own client."""
        if node != self.server or self.path is None:
            return self
        return replace(self, what=self.path, type="none", options="bind,nosuid,nodev", packages=())
