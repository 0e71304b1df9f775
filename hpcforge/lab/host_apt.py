"""How this host reaches package archives: what trees made on it are built with."""

from __future__ import annotations

import re
from pathlib import Path

from hpcforge.lab.commands import run
from hpcforge.lab.sources import codename, sources_for

_KEYS = ("Acquire::Check-Valid-Until", "Acquire::Check-Date")  # the host's settings that nodes need as well


def sources(release: str) -> str:
    """sources.list for a release."""
    directory = Path("/etc/apt/sources.list.d")
    paths = [Path("/etc/apt/sources.list"), *sorted(directory.glob("*.sources")), *sorted(directory.glob("*.list"))]
    return sources_for(codename(release), {str(path): path.read_text() for path in paths if path.is_file()})


def options() -> tuple[str, ...]:
    """Options of apt that say the host's settings again."""
    said = dict(re.findall(r'^(\S+) "(.*)";$', run("apt-config", "dump", *_KEYS), flags=re.MULTILINE))
    return tuple(f"-o{key}={said[key]}" for key in _KEYS if said.get(key))
