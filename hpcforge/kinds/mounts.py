"""Mounted file systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, LocalName, Resource, ResourceState
from hpcforge.wire_types import NotRequired, Path, PrintableLine

_Words = Annotated[str, PrintableLine(4096)]


@dataclass(frozen=True)
class Mount(Resource):
    """A file system that is mounted at a path, now and after a restart of the node."""

    kind: ClassVar[str] = "mounts"
    apply_verb: ClassVar[str] = "mounts"
    remove_verb: ClassVar[str] = "unmounts"

    path: Annotated[str, "Where it is mounted.", LocalName.PATH]
    what: Annotated[str, "A device, an export (`server:/path`) or `tmpfs`."]
    type: Annotated[str, "Type of the file system, as in `nfs4`."]
    options: Annotated[str, "As mount(8) has them. Plans and units show them: a key is in a file."] = "defaults"
    retry_s: Annotated[
        int,
        "If its server may be away: limit of an attempt, and the pause after a failed one, seconds; the node starts "
        "without waiting. 0: one attempt, which the start of the node waits for.",
    ] = 0
    try_s: Annotated[
        int,
        "With `retry_s`, a longer limit of an attempt, seconds: drives may have to recover first.",
    ] = 0
    fuse: Annotated[
        bool,
        "With `retry_s`, whether a program on the node serves it (FUSE): it is mounted again if that program has "
        "ended.",
    ] = False

    def line(self, actual: ActualState) -> str:
        """Return the line with the file system and its options, or with their changes."""
        sign = "~" if actual["exists"] else "+"
        return f"{sign} mount {self.what} ({self.type}) at {self.path}  {self._news(actual) or self.options}"

    def _news(self, actual: ActualState) -> str:
        """Describe the difference from the present mount."""
        if "what" not in actual:
            return ""
        was, desired = actual["options"].split(","), self.options.split(",")
        words = [f"{actual['what']} ({actual['type']}) until now"]
        if (actual["what"], actual["type"]) == (self.what, self.type):
            words = []
        words += [f"-{option}" for option in was if option not in desired] + [
            f"+{option}" for option in desired if option not in was
        ]
        return " ".join(words)

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal: its files stay there."""
        return f"mount {name}: unmounted; its files stay there"


class MountState(ResourceState):
    """A mount that is not as desired; `exists`: it is mounted. The other fields are of the earlier unit."""

    path: Path
    exists: bool
    what: NotRequired[_Words]
    type: NotRequired[_Words]
    options: NotRequired[_Words]


RESOURCE, FOUND = Mount, MountState
