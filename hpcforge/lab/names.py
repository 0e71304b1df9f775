"""Names of labs, their nodes and their objects on the host; their folders and locks.

A lab is known by its name; its *tag* (`hf` and four hexadecimal digits) prefixes every bridge, machine and cgroup,
since interface names end at 15 characters.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcforge.host import paths
from hpcforge.host.paths import Progress
from hpcforge.lab.errors import LabError

_LAB_NAME = re.compile(r"[a-z](?:-?[a-z0-9]){0,31}")
_NODE_NAME = re.compile(r"[a-z](?:-?[a-z0-9]){0,62}")
_SAVE_NAME = re.compile(r"[a-z0-9](?:[-._]?[a-z0-9]){0,31}")
_USER_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


def default_lab_name(blueprint: Path) -> str:
    """Return the fixed name of this user's lab of this blueprint: USER-FILE-DIGEST, e.g. `root-rehearsal-3f2a`."""
    user = os.environ.get("SUDO_USER") or getpass.getuser()
    path = blueprint.resolve()
    digest = hashlib.sha256(f"{user}\0{path}".encode()).hexdigest()[:4]
    words = [_slug(word)[:12].rstrip("-") for word in (user, path.stem)]
    return "-".join([*(word for word in words if word), digest]) if words[0] else f"lab-{digest}"


def _slug(text: str) -> str:
    """Return lower-case letters and digits with single hyphens, beginning with a letter; may be empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).lstrip("-0123456789").rstrip("-")


def check_lab_name(name: str) -> str:
    """Return the name itself; `LabError` if it cannot be a name of directories and processes."""
    if not _LAB_NAME.fullmatch(name) or len(name) > 32:
        raise LabError(
            f"{name!r} is not a valid lab name",
            "use up to 32 of a-z, 0-9 and single hyphens, beginning with a letter, e.g. `my-lab`",
        )
    return name


def check_node_name(name: str) -> str:
    """Return the name itself; `LabError` if it is not a plain lower-case host name."""
    if not _NODE_NAME.fullmatch(name) or len(name) > 63:
        raise LabError(
            f"{name!r} is not a valid node name", "use up to 63 of a-z, 0-9 and hyphens, beginning with a letter"
        )
    return name


def check_save_name(name: str) -> str:
    """Return the name itself; `LabError` if it is not valid for a save."""
    if not _SAVE_NAME.fullmatch(name) or len(name) > 32:
        raise LabError(
            f"{name!r} is not a valid save name",
            "use up to 32 of a-z, 0-9 and single `-`, `_` or `.` in between, e.g. `before-24.11`",
        )
    return name


def check_user_name(name: str) -> str:
    """Return the name itself; `LabError` if it is not a plain login name, or is root: no rehearsal logs in as root."""
    if not _USER_NAME.fullmatch(name) or name == "root":
        raise LabError(
            f"{name!r} cannot be the login user of a lab", "use an ordinary name, e.g. `access: {user: ops, ...}`"
        )
    return name


def tag_for(name: str, used: Collection[str]) -> str:
    """Return a lab's tag: from its name, and different from the tags of other labs."""
    return next(tag for tag in _tags(name) if tag not in used)


def _tags(name: str) -> Iterator[str]:
    if digest := re.search(r"-([0-9a-f]{4})$", name):  # a default name: the same digits show the relation
        yield f"hf{digest[1]}"
    for attempt in range(1000):
        yield f"hf{hashlib.sha256(f'{name}/{attempt}'.encode()).hexdigest()[:4]}"


def machine_name(tag: str, node: str) -> str:
    """Return a node's nspawn machine. At most 12 characters: nspawn's interface on the host is `vb-` and this."""
    plain = f"{tag}-{node}"
    return plain if len(plain) <= 12 else f"{tag}-{hashlib.sha256(node.encode()).hexdigest()[:5]}"


def segment_bridge(tag: str, segment: str) -> str:
    """Return the bridge of a further segment of a lab; at most 15 characters."""
    return f"{tag}s{hashlib.sha256(segment.encode()).hexdigest()[:6]}"


def lab_directory(name: str) -> Path:
    """Return a lab's directory, of mode 0700: it has private keys."""
    return paths.STATE / "labs" / check_lab_name(name)


def lab_names() -> tuple[str, ...]:
    """Return the labs on this host, up or not, of any checkout."""
    labs = paths.STATE / "labs"
    return tuple(sorted(path.name for path in labs.iterdir())) if labs.is_dir() else ()


@contextmanager
def lab_lock(name: str, progress: Progress) -> Iterator[None]:
    """Hold a lab's lock: one run at a time."""
    with paths.run_lock(f"lab-{check_lab_name(name)}", f"another run is active on lab {name}", progress):
        yield


def forget_lab_lock(name: str) -> None:
    """Remove a lab's lock file; for its holder, after the lab is removed."""
    (paths.RUN / f"lab-{check_lab_name(name)}.lock").unlink(missing_ok=True)
