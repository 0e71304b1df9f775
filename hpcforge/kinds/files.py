"""Regular files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from hpcforge.kinds import directories
from hpcforge.kinds.resource import ActualState, LocalName, Resource
from hpcforge.wire_types import Word

HIDDEN = "(secret)"  # replaces a secret in a shown text


@dataclass(frozen=True, slots=True)
class File(Resource):
    """A regular file. `digest` is the SHA-256 of its content; of one that holds secrets an HMAC, or made of such.

    None: a secret is not there yet.
    """

    kind: ClassVar[str] = "files"

    path: Annotated[str, LocalName.PATH]
    mode: str  # octal
    owner: Annotated[str, LocalName.ACCOUNT]
    group: Annotated[str, LocalName.ACCOUNT]
    digest: Optional[str]
    secret: Optional[str]  # name of the secret that is its content; such content never enters a plan
    early: bool  # must exist before packages are installed
    # must succeed before the file gets its name; the word "{file}" is the new content's path
    verify: Annotated[tuple[str, ...], LocalName.COMMAND] = ()
    fills: tuple[tuple[int, str], ...] = ()  # secrets to fill into its text: offsets in characters, and names
    unfilled: Optional[str] = None  # SHA-256 of that text without them

    @property
    def holds(self) -> tuple[str, ...]:
        """The secrets in it, each once."""
        return (self.secret,) if self.secret else tuple(dict.fromkeys(name for _, name in self.fills))

    @property
    def text(self) -> str | None:
        """SHA-256 of its text, without its secrets; None if its whole content is a secret."""
        return None if self.secret else self.unfilled or self.digest

    def filled(self, text: str, value: Callable[[str], str]) -> str:
        """Return its text, filled with the value of each secret by name."""
        pieces, at = [], 0
        for offset, name in self.fills:
            pieces += [text[at:offset], value(name)]
            at = offset
        return "".join([*pieces, text[at:]])

    def shown(self, text: str) -> str:
        """Return its text with hidden secrets."""
        return self.filled(text, lambda _: HIDDEN)

    def same_content(self, actual: ActualState) -> bool:
        """Return whether only mode or owner differ."""
        return bool(actual["exists"]) and actual.get("digest") == self.digest

    def drifted(self, actual: ActualState) -> bool:
        """Return True if it is not what hpcforge last wrote: another program changed or removed it."""
        return drifted(self.digest, actual)

    def input_changed(self, actual: ActualState) -> bool:  # noqa: ARG002
        """Return True: any difference that is not drift."""
        return True


def drifted(digest: str | None, actual: ActualState) -> bool:
    """Return whether a file differs from hpcforge's last write; `digest` is the desired SHA-256."""
    written = actual.get("written")
    return written is not None and (actual.get("digest") != written or written == digest)


@dataclass(frozen=True, slots=True)
class FileWithContent(File):
    """A file with its new content; None: only mode or owner are to be changed."""

    content_base64: Optional[str] = None


class FileState(directories.DirectoryState):
    """A file that is not as desired, with its content.

    `text` is null for a secret, for invalid UTF-8 and for more than 256 KiB; `written`: digest of the last write. For a
    file with secrets, `hpcforge.secrets.secret_files` filters the text before it is stored.
    """

    digest: Word | None
    text: str | None
    written: Word | None


RESOURCE, FOUND, SENT = File, FileState, FileWithContent
