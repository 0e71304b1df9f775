"""The line that sets a keyword of sshd, in sshd_config and the files that it includes.

By sshd_config(5) and sshd's servconf.c, an included file is read at its Include, files of a pattern in the order of
their names. Lines after a Match apply to some connections only, up to the next Match or the end of the file, and `sshd
-T` without -C does not print them. The first line of a keyword counts; for MaxStartups the last one, up to OpenSSH 10.0
at least. So a line with the value that sshd prints is preferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CONFIG = "/etc/ssh/sshd_config"
_FOLDER = "/etc/ssh"  # base of relative patterns
_DEPTH = 16  # the limit of nested includes, as in servconf.c
_READ_BYTES = 1 << 20
_LINE = re.compile(r"([A-Za-z0-9]+)(?:[ \t]*=[ \t]*|[ \t]+)(.*)")
_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_ALIASES = {  # older names, which sshd still accepts
    "challengeresponseauthentication": "kbdinteractiveauthentication",
    "skeyauthentication": "kbdinteractiveauthentication",
    "dsaauthentication": "pubkeyauthentication",
    "hostbasedacceptedkeytypes": "hostbasedacceptedalgorithms",
    "keepalive": "tcpkeepalive",
    "pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms",
}


class Setting(NamedTuple):
    """A keyword as `sshd -T` prints it, its value as written, and their line."""

    keyword: str
    value: str
    path: str
    number: int


def source(keyword: str, value: str, root: Path = Path("/")) -> str:
    """Return the place of the line that sets a keyword to the value that sshd prints, for a message."""
    lines = [setting for setting in _settings(_CONFIG, root, _DEPTH) if setting.keyword == keyword.lower()]
    if not lines:
        return f"no line of {_CONFIG} and of the files that it includes sets it"
    same = [line for line in lines if f"{value.lower()}:".startswith(f"{line.value.lower()}:")]
    line = (same or lines)[0]
    return f"{line.path} line {line.number}"


def _settings(path: str, root: Path, depth: int) -> Iterator[Setting]:
    """Yield the settings for all connections, in sshd's order."""
    matches = True
    for number, line in enumerate(_text(root / path[1:]).splitlines(), 1):
        match = _LINE.match(line.strip())
        if match is None:
            continue
        keyword, words = match[1].lower(), [quoted or plain for quoted, plain in _WORD.findall(match[2])]
        if keyword == "match":
            matches = [word.lower() for word in words] == ["all"]
        elif matches and keyword == "include" and depth:
            for pattern in words:
                for file in _files(pattern, root):
                    yield from _settings(file, root, depth - 1)
        elif matches:
            yield Setting(_ALIASES.get(keyword, keyword), " ".join(words), path, number)


def _files(pattern: str, root: Path) -> list[str]:
    absolute = pattern if pattern.startswith("/") else f"{_FOLDER}/{pattern}"
    return [f"/{place.relative_to(root)}" for place in sorted(root.glob(absolute.lstrip("/"))) if place.is_file()]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
