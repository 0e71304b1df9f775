"""File systems that are mounted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import Named, Resource, Said, Told
from hpcforge.wire import Line, NotRequired, Path

_Words = Annotated[str, Line(4096)]


@dataclass(frozen=True)
class Mount(Resource):
    """A file system that is mounted at a path, now and after a restart of the node."""

    kind: ClassVar[str] = "mounts"
    does: ClassVar[str] = "mounts"
    goes: ClassVar[str] = "unmounts"

    path: Annotated[str, "Where it is mounted.", Named.PATH]
    what: Annotated[str, "A device, an export (`server:/path`) or `tmpfs`."]
    type: Annotated[str, "Of the file system, as in `nfs4`."]
    options: Annotated[str, "As mount(8) has them. Plans and units show them: a key is in a file."] = "defaults"
    retry_s: Annotated[
        int,
        "For one whose server may be away: how long a try may take, and how long after one that failed the next comes, "
        "seconds; nothing waits for it when the node starts. 0: one try, which the start of the node waits for.",
    ] = 0
    try_s: Annotated[
        int,
        "With `retry_s`, how long a try may take where that is longer, seconds: drives may have to recover first.",
    ] = 0
    fuse: Annotated[
        bool,
        "With `retry_s`, whether a program on the node serves it (FUSE): it is mounted again if that program has "
        "ended.",
    ] = False

    def line(self, found: Said) -> str:
        """With what is mounted and how, or what of that is news."""
        sign = "~" if found["exists"] else "+"
        return f"{sign} mount {self.what} ({self.type}) at {self.path}  {self._news(found) or self.options}"

    def _news(self, found: Said) -> str:
        """What differs from what was to be mounted there until now."""
        if "what" not in found:
            return ""
        was, now = found["options"].split(","), self.options.split(",")
        words = [f"{found['what']} ({found['type']}) until now"]
        if (found["what"], found["type"]) == (self.what, self.type):
            words = []
        words += [f"-{one}" for one in was if one not in now] + [f"+{one}" for one in now if one not in was]
        return " ".join(words)

    @classmethod
    def farewell(cls, name: str) -> str | None:
        """What is on it stays there."""
        return f"mount {name}: unmounted; what is on it stays there"


class Found(Told):
    """A mount that is not as wanted; `exists`: it is mounted. The rest is what was wanted of it until now."""

    path: Path
    exists: bool
    what: NotRequired[_Words]
    type: NotRequired[_Words]
    options: NotRequired[_Words]


RESOURCE, FOUND = Mount, Found
