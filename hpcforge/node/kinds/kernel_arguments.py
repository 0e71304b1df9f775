"""Kernel arguments: a file that grub-mkconfig reads after all others, and grub.cfg made anew.

What counts is what the next start will have, whoever said so: the first entry of grub.cfg, or, on a node that does not
start by GRUB, what its kernel was started with. What the kernel runs with is not compared: a node whose firmware takes
another boot loader than the GRUB that is there would be restarted by every apply. The receipt has
`{"before": what was at the path}`, see `hpcforge.node.backups`.
"""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from hpcforge.node import commands, files, written_files
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import BLOCK, KeptItem, Known, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.kernel_arguments import KernelArguments

FOLDER = "/etc/default/grub.d"
CONFIG = "/boot/grub/grub.cfg"
RUNNING = "/proc/cmdline"
UPDATE = "update-grub"
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:/=,-]*")  # a shell reads the file: nothing in a word means anything to it
_LINUX = ("linux", "linuxefi", "linux16")  # commands of GRUB's by which an entry says its kernel
_TIMEOUT_S = 300  # it may look for other systems on every disk


def compare(wanted: KernelArguments) -> Json | None:
    """Whether the next start has the words, and our file, if there is one, says no others."""
    path = _path(wanted.name)
    exists = written_files.exists(path)
    if (not exists or written_files.is_there(path, _text(wanted))) and _lacks(wanted) == []:
        return None
    return {"name": wanted.name, "exists": exists}


def obstacle(wanted: KernelArguments, known: Known) -> str | None:  # noqa: ARG001
    """Return the obstacle: an invalid word or name, or a node that does not start by GRUB."""
    odd = [word for word in wanted.words.split() if not _WORD.fullmatch(word)]
    if not _NAME.fullmatch(wanted.name):
        return f"{wanted.name!r} cannot be the name of kernel arguments: small letters, digits, _ and -"
    if odd or not wanted.words.split():
        return f"{odd[0] if odd else ''!r} cannot be a kernel argument: letters, digits and _.-=,:/, and first a letter"
    if not _by_grub() and _lacks(wanted):
        return (
            f"this node does not start by GRUB (no {CONFIG}, or no {UPDATE}), and its kernel was started without "
            f"{' '.join(_lacks(wanted))}: say that where its boot loader is configured, and restart it"
        )
    return written_files.obstacle(_path(wanted.name))


def put(wanted: KernelArguments) -> str | None:
    """Write the file, have grub.cfg made anew, and see that the words are in it."""
    if compare(wanted) is None:
        return None
    files.put_text(_path(wanted.name), _text(wanted))
    commands.succeed([UPDATE], _TIMEOUT_S)
    left = _lacks(wanted)
    if left:
        raise NodeError(
            f"{UPDATE} left {' '.join(left)} out of the first entry of {CONFIG}: "
            "does another file in /etc/default/grub.d or /etc/grub.d overwrite GRUB_CMDLINE_LINUX?"
        )
    return f"{wanted.words}, from the next start on"


def own(name: str, change: KernelArguments | None, made: set[str]) -> Json | None:  # noqa: ARG001
    """Return the earlier entry in its file's place."""
    return written_files.own(_path(name), change)


def restore(name: str, known: Json, report: EventReporter) -> str | None:  # noqa: ARG001
    """Restore the earlier entry in its file's place, and make grub.cfg again."""
    did, before = written_files.restore(_path(name), known), files.read_text(CONFIG)
    if not _by_grub():
        return did
    commands.succeed([UPDATE], _TIMEOUT_S)  # whatever was done to the file: one that was cut off here has that to do
    return did or ("regenerated" if files.read_text(CONFIG) != before else None)


def is_there(name: str) -> bool:  # noqa: ARG001
    """Return True: the running kernel was started before."""
    return True


def stays(name: str, known: Known) -> KeptItem | None:  # noqa: ARG001
    """Return the words, as long as this kernel runs."""
    return ("kernel arguments", name, "the kernel that runs was started with them: restart the node")


def room(wanted: KernelArguments) -> list[SpaceNeed]:
    """Its file, and another grub.cfg beside the one that is there."""
    return [SpaceNeed(_path(wanted.name), BLOCK, 2), SpaceNeed(CONFIG, len(files.read_text(CONFIG) or "") + BLOCK, 1)]


def _by_grub() -> bool:
    return written_files.exists(CONFIG) and shutil.which(UPDATE, path=commands.ENVIRONMENT["PATH"]) is not None


def _lacks(wanted: KernelArguments) -> list[str]:
    """Return the words that the next start would lack."""
    given = _first_entry() if _by_grub() else (files.read_text(RUNNING) or "").split()
    return [word for word in wanted.words.split() if word not in given]


def _first_entry() -> list[str]:
    """Return the words of grub.cfg's line for the first kernel: it starts unless another one is chosen."""
    lines = (line.split() for line in (files.read_text(CONFIG) or "").splitlines())
    return next((words for words in lines if words and words[0] in _LINUX), [])


def _path(name: str) -> str:
    return f"{FOLDER}/zz-hpcforge-{name}.cfg"


def _text(wanted: KernelArguments) -> str:
    return f'# Written by hpcforge.\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(wanted.words.split())}"\n'
