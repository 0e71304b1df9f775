"""Where labs keep things on the host, and the locks that keep two runs apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcforge.lab.names import check_lab_name
from hpcforge.locks import file_lock

STATE = Path("/var/lib/hpcforge")
RUN = Path("/run/hpcforge")

Progress = Callable[[str], None]


def quiet(_text: str) -> None:
    """Ignore a line of progress."""


def cache() -> Path:
    """Base trees and packages, kept between labs; HPCFORGE_CACHE_DIR moves it (to see a cold run, say)."""
    return Path(os.environ.get("HPCFORGE_CACHE_DIR", "/var/cache/hpcforge")).absolute()


def lab_directory(name: str) -> Path:
    """All that a lab keeps: 0700, for it holds private keys."""
    return STATE / "labs" / check_lab_name(name)


def lab_names() -> tuple[str, ...]:
    """The labs there are on this host, up or not, of any checkout."""
    labs = STATE / "labs"
    return tuple(sorted(path.name for path in labs.iterdir())) if labs.is_dir() else ()


@contextmanager
def lab_lock(name: str, progress: Progress) -> Iterator[None]:
    """One run at a time on one lab."""
    with _lock(f"lab-{check_lab_name(name)}", f"another run is active on lab {name}", progress):
        yield


@contextmanager
def host_lock(progress: Progress) -> Iterator[None]:
    """One run at a time on what labs share: base trees, the choice of subnets, the inotify limit."""
    with _lock("host", "another lab is changing what labs share on this host", progress):
        yield


def forget_lab_lock(name: str) -> None:
    """Remove a lab's lock file; for its holder, when the lab is gone."""
    (RUN / f"lab-{check_lab_name(name)}.lock").unlink(missing_ok=True)


@contextmanager
def _lock(name: str, busy: str, progress: Progress) -> Iterator[None]:
    RUN.mkdir(mode=0o755, parents=True, exist_ok=True)
    with file_lock(RUN / f"{name}.lock", lambda: progress(f"waiting: {busy}")):
        yield
