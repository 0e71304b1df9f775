"""Unix accounts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypedDict

from hpcforge.kinds.resource import Named, Resource, Said
from hpcforge.wire import Path, Word


@dataclass(frozen=True)
class Account(Resource):
    """A Unix account with a primary group of the same name and number."""

    kind: ClassVar[str] = "accounts"
    does: ClassVar[str] = "account"
    goes: ClassVar[str] = "locks"

    name: Annotated[str, "Its name, and that of its group."]
    uid: Annotated[int, "Its number, and that of its group."]
    home: Annotated[str, "Its home directory, which is made."]
    shell: Annotated[str, "What it logs in to.", Named.PATH] = "/bin/bash"

    def line(self, found: Said) -> str:  # noqa: ARG002
        """With its number."""
        return f"~ account {self.name} (uid {self.uid})"

    @classmethod
    def farewell(cls, name: str) -> str | None:
        """It is locked, never deleted."""
        return f"account {name}: lock"


class Found(TypedDict):
    """An account that is not as wanted."""

    name: Word
    exists: bool
    uid: int | None
    gid: int | None
    home: Path | None
    shell: Path | None


RESOURCE, FOUND = Account, Found
