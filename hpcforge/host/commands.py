"""Execution of the host's programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hpcforge.errors import ExpectedError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = ("http_proxy", "https_proxy", "no_proxy")  # this host's access to package archives

# A program started with this prefix ends with hpcforge, however that ends, with its children and mounts. Needs root.
WITH_US = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


class HostError(ExpectedError):
    """This machine cannot do what a lab or an image needs."""


def environment() -> dict[str, str]:
    """Return the environment of programs: of the caller's only its proxies."""
    proxies = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {"PATH": PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **proxies}


def run(*argv: str | Path, cwd: Path | None = None, with_us: bool = False) -> str:
    """Return the standard output of a program; `HostError` with the end of its output if it fails.

    `with_us`: see WITH_US.
    """
    words = [str(word) for word in argv]
    completed = subprocess.run(
        [*(WITH_US if with_us else ()), *words],
        env=environment(),
        cwd=cwd,
        umask=0o022,  # trees must not inherit a strict one
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if completed.returncode:
        output = "\n".join((completed.stderr.strip() or completed.stdout.strip()).splitlines()[-15:])
        raise HostError(f"`{' '.join(words)}` failed with exit code {completed.returncode}\n{output}")
    return completed.stdout


def tried(*argv: str | Path) -> bool:
    """Return whether a program succeeded, for example for removals of things that may be missing."""
    try:
        run(*argv)
    except HostError:
        return False
    return True


def require_root() -> None:
    """Raise `HostError` unless this process is root's."""
    if os.geteuid() != 0:
        raise HostError("this needs root: it mounts file systems and starts containers", "run the same with sudo")


def daemon(argv: list[str], log: Path) -> None:
    """Start a program that outlives hpcforge, in its own session, writing to `log`."""
    with log.open("ab") as out:
        subprocess.run(
            ["setsid", "--fork", *argv],
            env={"PATH": PATH, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd="/",
            check=True,
        )
