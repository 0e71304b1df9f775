"""Where packages come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpcforge.kinds.resource import Resource, Said, Told
from hpcforge.wire import Word


@dataclass(frozen=True)
class Source(Resource):
    """A source of packages in apt's deb822 form, trusted for what its own key signs and for nothing else."""

    kind: ClassVar[str] = "sources"
    does: ClassVar[str] = "package source"

    name: str  # of its file below /etc/apt/sources.list.d, without .sources
    uris: tuple[str, ...]
    suites: tuple[str, ...]  # one that ends in / has no components
    signed_by: str  # the public key in ASCII armour, or the absolute path of a keyring that is there before packages
    components: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()  # none: the node's

    def line(self, found: Said) -> str:
        """With its address."""
        return f"{'~' if found['exists'] else '+'} package source {self.name}: {' '.join((*self.uris, *self.suites))}"


class Found(Told):
    """A source that is not as wanted."""

    name: Word
    exists: bool


RESOURCE, FOUND = Source, Found
