"""Readers of files that a site has: a hosts file, an Ansible inventory, slurm.conf. Pure.

Each takes the whole text and returns a `SiteFile`. Nothing of a file is evaluated, and nothing is dropped silently:
what a reader does not take is in `left_out`, with its line.
"""

from __future__ import annotations

import re
from typing import Literal

from hpcforge.starter.machines import SiteFile, StarterError, checked
from hpcforge.starter.readers.ansible import read_ansible
from hpcforge.starter.readers.hosts import read_hosts
from hpcforge.starter.readers.slurm import read_slurm
from hpcforge.starter.readers.words import Beside, is_address, lines

Source = Literal["hosts", "ansible", "slurm"]


def source_of(text: str) -> Source:
    """Return which kind of file a text is."""
    for _, line in lines(text):
        if re.match(r"(NodeName|ClusterName|SlurmctldHost)\s*=", line, re.IGNORECASE):
            return "slurm"
        if line.startswith("[") or line.endswith(":"):
            return "ansible"
    first = next((line for _, line in lines(text)), "").split()
    return "hosts" if first and is_address(first[0]) else "ansible"


def read(text: str, source: Source | None = None, beside: Beside | None = None) -> SiteFile:
    """Return what a file says. `beside` returns the text of a file in the same folder by its name, or None.

    Raises `StarterError` where it has no machines, too many, or the same name twice.
    """
    kind = source or source_of(text)
    site = read_slurm(text, beside) if kind == "slurm" else read_hosts(text) if kind == "hosts" else read_ansible(text)
    if not site.machines:
        raise StarterError(f"no machine was found in this file, read as {kind}", "--from-format hosts|ansible|slurm")
    checked(list(site.machines))
    return site
