"""Regular files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Optional

from hpcforge.kinds import directories
from hpcforge.kinds.resource import Resource, Said
from hpcforge.wire import Word


@dataclass(frozen=True)
class File(Resource):
    """A regular file. `digest` is the SHA-256 of its content; None: a secret that is not generated yet."""

    kind: ClassVar[str] = "files"

    path: str
    mode: str  # octal
    owner: str
    group: str
    digest: Optional[str]
    secret: Optional[str]  # name of the secret that is its content; such content never enters a plan
    early: bool  # must be there before packages are installed
    verify: tuple[str, ...] = ()  # must succeed before it gets its name; the word "{file}" is the new content's path

    def same_content(self, found: Said) -> bool:
        """Only mode or owner differ."""
        return bool(found["exists"]) and found.get("digest") == self.digest

    def drifted(self, found: Said) -> bool:
        """It is not what hpcforge last wrote: somebody else changed or removed it."""
        return drifted(self.digest, found)

    def is_news(self, found: Said) -> bool:  # noqa: ARG002
        """Whatever is not drift."""
        return True


def drifted(wanted: str | None, found: Said) -> bool:
    """Whether a file is not what hpcforge last wrote there; `wanted` is the SHA-256 that it should have."""
    written = found.get("written")
    return written is not None and (found.get("digest") != written or written == wanted)


@dataclass(frozen=True)
class Sent(File):
    """A file with its new content; None: only mode or owner are to be changed."""

    content_base64: Optional[str] = None


class Found(directories.Found):
    """A file that is not as wanted, with what is in it.

    `text` is null for a secret, for what is not UTF-8 and for more than 256 KiB; `written`: digest of what we last
    wrote.
    """

    digest: Word | None
    text: str | None
    written: Word | None


RESOURCE, FOUND, SENT = File, Found, Sent
