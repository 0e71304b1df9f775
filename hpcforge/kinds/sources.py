"""Package sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, LocalName, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class PackageSource(Resource):
    """A source of packages in apt's deb822 form, trusted for what its own key signs and for nothing else."""

    kind: ClassVar[str] = "sources"
    apply_verb: ClassVar[str] = "package source"

    name: Annotated[str, "Name of its file in /etc/apt/sources.list.d, without .sources."]
    uris: Annotated[tuple[str, ...], "Where it is."]
    suites: Annotated[tuple[str, ...], "Its suites; a suite that ends in / has no components."]
    signed_by: Annotated[
        str, "The public key in ASCII armour, or the path of a keyring that is there before packages.", LocalName.PATH
    ]
    components: Annotated[tuple[str, ...], "Which of its components."] = ()
    architectures: Annotated[tuple[str, ...], "The architectures; none: the node's own."] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a name or a password in an address: every user on the node can read its file."""
        if any("@" in uri.partition("://")[2].partition("/")[0] for uri in self.uris):
            raise ValueError(
                "uris: a name or a password in an address would be readable by every user of the node: leave it out; "
                "apt reads it from a file of mode 0600 in /etc/apt/auth.conf.d, which a role can write from a secret"
            )

    def line(self, actual: ActualState) -> str:
        """Return the line with its address."""
        return f"{'~' if actual['exists'] else '+'} package source {self.name}: {' '.join((*self.uris, *self.suites))}"


class SourceState(ResourceState):
    """A source that is not as desired."""

    name: Word
    exists: bool


RESOURCE, FOUND = PackageSource, SourceState
