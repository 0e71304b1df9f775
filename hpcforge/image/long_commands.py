"""Programs that run for minutes, with progress."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hpcforge.host.commands import WITH_US, environment
from hpcforge.image.errors import ImageError

_LOOK_S = 1.0
_NO_ROOM = "No space left on device"
_FULL = 1 << 20  # bytes: not every program reports a full disk, or ends on it
NO_ROOM_HINT = "make room there, or move images and base systems: HPCFORGE_CACHE_DIR; then run it again"


def watched(
    argv: Sequence[str | Path],
    place: Path,
    tick: Callable[[], None],
    more: Mapping[str, str] | None = None,
    pass_on: Sequence[int] = (),
    *,
    with_us: bool = False,
) -> None:
    """Run a program that writes in `place` to its end; `tick` is called every second.

    `pass_on` are file handles that it keeps open. `with_us`: see WITH_US. Raises ImageError with the end of its output
    if it fails.
    """
    words = [str(word) for word in argv]
    with os.fdopen(os.memfd_create("said"), "w+b") as out:  # not a file: the disk may be full
        process = subprocess.Popen(
            [*(WITH_US if with_us else ()), *words],
            env={**environment(), **(more or {})},
            cwd="/",
            umask=0o022,  # trees must not inherit a strict one
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            pass_fds=pass_on,
        )
        try:
            while process.poll() is None:
                tick()
                if shutil.disk_usage(place).free < _FULL:  # apt, for example, waits for ever if it cannot write
                    raise _no_room(words[0], place)
                try:
                    process.wait(_LOOK_S)
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            process.kill()
            process.wait()
            raise
        out.seek(0)
        output = out.read().decode(errors="replace").strip()
    if process.returncode:
        if _NO_ROOM in output or shutil.disk_usage(place).free < _FULL:
            raise _no_room(words[0], place)
        last = "\n".join(output.splitlines()[-15:])
        raise ImageError(f"`{words[0]}` failed with exit code {process.returncode}\n{last}")


def ensure_room(place: Path, needed_mib: int, purpose: str) -> None:
    """Raise ImageError unless that much is free in a place; `purpose` begins the message."""
    free_mib = shutil.disk_usage(place).free >> 20
    if free_mib < needed_mib:
        raise ImageError(f"{purpose} about {needed_mib} MiB in {place}, and {free_mib} MiB are free", NO_ROOM_HINT)


def _no_room(program: str, place: Path) -> ImageError:
    return ImageError(f"`{program}` has no room to write in {place}", NO_ROOM_HINT)
