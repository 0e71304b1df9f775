"""Kernel arguments: a file that grub-mkconfig reads after all others, and a regenerated grub.cfg.

The arguments of the next start count, from any source: the first entry of grub.cfg, or, on a node that does not start
by GRUB, the command line of its kernel. The running kernel's arguments are not compared: each apply would restart a
node whose firmware uses another boot loader than the installed GRUB. The receipt has `{"before": the earlier entry at
the path}`, see `hpcforge.node.backups`.
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
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:/=,-]*")  # a shell reads the file: a word has no special characters
_LINUX = ("linux", "linuxefi", "linux16")  # GRUB's commands that load the kernel of an entry
_TIMEOUT_S = 300  # it may search every disk for other systems


def compare(arguments: KernelArguments) -> Json | None:
    """Return its state, if the next start lacks a word or hpcforge's file has other ones."""
    path = _path(arguments.name)
    exists = written_files.exists(path)
    if (not exists or written_files.is_there(path, _text(arguments))) and _lacks(arguments) == []:
        return None
    return {"name": arguments.name, "exists": exists}


def obstacle(arguments: KernelArguments, record: Known) -> str | None:  # noqa: ARG001
    """Return the obstacle: an invalid word or name, or a node that does not start by GRUB."""
    odd = [word for word in arguments.words.split() if not _WORD.fullmatch(word)]
    if not _NAME.fullmatch(arguments.name):
        return f"{arguments.name!r} cannot be the name of kernel arguments: small letters, digits, _ and -"
    if odd or not arguments.words.split():
        return f"{odd[0] if odd else ''!r} cannot be a kernel argument: letters, digits and _.-=,:/, and first a letter"
    if not _by_grub() and _lacks(arguments):
        return (
            f"this node does not start by GRUB (no {CONFIG}, or no {UPDATE}), and its kernel was started without "
            f"{' '.join(_lacks(arguments))}: add them to the configuration of its boot loader, and restart it"
        )
    return written_files.obstacle(_path(arguments.name))


def put(arguments: KernelArguments) -> str | None:
    """Write the file, regenerate grub.cfg, and check that the words are in it."""
    if compare(arguments) is None:
        return None
    files.put_text(_path(arguments.name), _text(arguments))
    commands.succeed([UPDATE], _TIMEOUT_S)
    missing = _lacks(arguments)
    if missing:
        raise NodeError(
            f"{UPDATE} left {' '.join(missing)} out of the first entry of {CONFIG}: "
            "does another file in /etc/default/grub.d or /etc/grub.d overwrite GRUB_CMDLINE_LINUX?"
        )
    return f"{arguments.words}, from the next start on"


def own(name: str, change: KernelArguments | None, made: set[str]) -> Json | None:  # noqa: ARG001
    """Return the earlier entry in its file's place."""
    return written_files.own(_path(name), change)


def restore(name: str, record: Json, report: EventReporter) -> str | None:  # noqa: ARG001
    """Restore the earlier entry in its file's place, and make grub.cfg again."""
    did, before = written_files.restore(_path(name), record), files.read_text(CONFIG)
    if not _by_grub():
        return did
    commands.succeed([UPDATE], _TIMEOUT_S)  # also with the file unchanged: an interrupted run may have missed it
    return did or ("regenerated" if files.read_text(CONFIG) != before else None)


def is_there(name: str) -> bool:  # noqa: ARG001
    """Return True: the running kernel was started before."""
    return True


def stays(name: str, record: Known) -> KeptItem | None:  # noqa: ARG001
    """Return the words, as long as this kernel runs."""
    return ("kernel arguments", name, "the running kernel still has them: restart the node")


def room(arguments: KernelArguments) -> list[SpaceNeed]:
    """Return the space for its file, and for a new grub.cfg beside the present one."""
    return [
        SpaceNeed(_path(arguments.name), BLOCK, 2),
        SpaceNeed(CONFIG, len(files.read_text(CONFIG) or "") + BLOCK, 1),
    ]


def _by_grub() -> bool:
    return written_files.exists(CONFIG) and shutil.which(UPDATE, path=commands.ENVIRONMENT["PATH"]) is not None


def _lacks(arguments: KernelArguments) -> list[str]:
    """Return the words that the next start would lack."""
    present = _first_entry() if _by_grub() else (files.read_text(RUNNING) or "").split()
    return [word for word in arguments.words.split() if word not in present]


def _first_entry() -> list[str]:
    """Return the words of grub.cfg's line for the first kernel: it starts unless another one is chosen."""
    lines = (line.split() for line in (files.read_text(CONFIG) or "").splitlines())
    return next((words for words in lines if words and words[0] in _LINUX), [])


def _path(name: str) -> str:
    return f"{FOLDER}/zz-hpcforge-{name}.cfg"


def _text(arguments: KernelArguments) -> str:
    return f'# Written by hpcforge.\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(arguments.words.split())}"\n'
