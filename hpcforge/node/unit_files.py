"""systemd units that a kind of resource needs: their files, and one unit that runs.

The receipt has `{"before": null, "made": [directories made for it]}`: the names are hpcforge's own, no other file is
replaced.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcforge.node import backups, files, units, written_files

FOLDER = "/etc/systemd/system"
MARK = "# written by hpcforge\n"


def is_there(texts: Mapping[str, str], unit: str) -> bool:
    """Return whether these files (text by name) are as desired, and the unit is enabled and runs."""
    if not all(written_files.is_there(f"{FOLDER}/{name}", MARK + text) for name, text in texts.items()):
        return False
    status = units.query([unit])[unit]
    return status.enabled and status.runs


def any_there(texts: Mapping[str, str]) -> bool:
    """Return whether any of these files exists."""
    return any(written_files.exists(f"{FOLDER}/{name}") for name in texts)


def obstacle(names: Mapping[str, str]) -> str | None:
    """Return the obstacle: a file by one of these names that is not hpcforge's."""
    for name in names:
        path = f"{FOLDER}/{name}"
        text = files.read_text(path)
        if text is not None and not text.startswith(MARK):
            return f"{path} is another program's unit; remove it, or choose another name"
        reason = written_files.obstacle(path)
        if reason:
            return reason
    return None


def put(texts: Mapping[str, str], unit: str) -> str | None:
    """Write the files, enable the unit and start it with them; return the change, or None."""
    written = [name for name, text in texts.items() if files.put_text(f"{FOLDER}/{name}", MARK + text)]
    if written:
        units.reload()
    status = units.query([unit])[unit]
    if status.enabled and status.runs and not written:
        return None
    return units.bring_up(unit, ["enable", "restart" if status.runs else "start"]) or "content"


def restore(names: list[str], unit: str) -> str | None:
    """Stop the unit, and remove the files."""
    did = units.take_down(unit, stop=True, disable=True)
    ours = [name for name in names if (files.read_text(f"{FOLDER}/{name}") or "").startswith(MARK)]
    removed = [name for name in ours if backups.restore(f"{FOLDER}/{name}", None)]
    if removed:
        units.reload()
    return did or ("removed" if removed else None)


def escaped(path: str) -> str:
    """Return a path in the form of systemd's unit names."""
    plain = path.strip("/")
    letters = (
        ("-" if letter == "/" else letter) if _is_plain(letter, at) else _hexed(letter)
        for at, letter in enumerate(plain)
    )
    return "".join(letters) or "-"


def _is_plain(letter: str, at: int) -> bool:
    return letter == "/" or (letter.isascii() and (letter.isalnum() or letter in ":_" or (letter == "." and at > 0)))


def _hexed(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())
