"""Units of systemd's that a kind of resource writes of its own accord: their files, and one of them that runs.

The receipt has `{"before": null, "made": [directories made for it]}`: the names are ours, nobody's file is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcforge.node import files, originals, texts, units

FOLDER = "/etc/systemd/system"
MARK = "# written by hpcforge\n"


def is_there(wanted: Mapping[str, str], unit: str) -> bool:
    """Whether these files (text by name) are as wanted, and the unit is enabled and runs."""
    if not all(texts.is_there(f"{FOLDER}/{name}", MARK + text) for name, text in wanted.items()):
        return False
    found = units.query([unit])[unit]
    return found.enabled and found.runs


def any_there(wanted: Mapping[str, str]) -> bool:
    """Whether there is any of these files."""
    return any(texts.exists(f"{FOLDER}/{name}") for name in wanted)


def obstacle(names: Mapping[str, str]) -> str | None:
    """A file of somebody else's by one of these names."""
    for name in names:
        path = f"{FOLDER}/{name}"
        text = files.read_text(path)
        if text is not None and not text.startswith(MARK):
            return f"{path} is another program's unit; remove it, or choose another name"
        why = texts.obstacle(path)
        if why:
            return why
    return None


def put(wanted: Mapping[str, str], unit: str) -> str | None:
    """Write the files, and have the unit enabled and running with them; what was changed, or None."""
    written = [name for name, text in wanted.items() if files.put_text(f"{FOLDER}/{name}", MARK + text)]
    if written:
        units.reload()
    found = units.query([unit])[unit]
    if found.enabled and found.runs and not written:
        return None
    return units.bring_up(unit, ["enable", "restart" if found.runs else "start"]) or "content"


def put_back(names: list[str], unit: str) -> str | None:
    """Stop the unit, and remove the files."""
    did = units.take_down(unit, stop=True, disable=True)
    ours = [name for name in names if (files.read_text(f"{FOLDER}/{name}") or "").startswith(MARK)]
    gone = [name for name in ours if originals.put_back(f"{FOLDER}/{name}", None)]
    if gone:
        units.reload()
    return did or ("removed" if gone else None)


def escaped(path: str) -> str:
    """A path as systemd names units after it."""
    plain = path.strip("/")
    letters = (("-" if one == "/" else one) if _is_plain(one, at) else _hexed(one) for at, one in enumerate(plain))
    return "".join(letters) or "-"


def _is_plain(one: str, at: int) -> bool:
    return one == "/" or (one.isascii() and (one.isalnum() or one in ":_" or (one == "." and at > 0)))


def _hexed(one: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in one.encode())
