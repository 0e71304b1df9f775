"""Readers of a site's own files: a hosts file, an Ansible inventory, slurm.conf. Pure.

Each reader takes the whole text and returns a `SiteFile`. It evaluates nothing, and drops nothing silently: the parts
that it cannot use are in `left_out`, with their lines. Readers may import the types of `hpcforge.starter`,
`hpcforge.blueprint` and `hpcforge.catalog`. They choose no hardware and write no blueprint: `hpcforge.starter` does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from hpcforge.starter.machines import SiteFile, StarterError, checked
from hpcforge.starter.readers.ansible import read_ansible
from hpcforge.starter.readers.hosts import read_hosts
from hpcforge.starter.readers.slurm import read_slurm
from hpcforge.starter.readers.slurm_words import is_slurm
from hpcforge.starter.readers.words import Beside, is_address, is_ipv6, lines
from hpcforge.starter.site_networks import on_one_network

_MARK = "\ufeff"  # mark of UTF-8 on Windows
_LONGEST = 300  # length of an omitted part
_SHOWN = 3  # omitted lines that are shown for a file without a machine

Source = Literal["hosts", "ansible", "slurm"]


def source_of(text: str) -> Source:
    """Return which kind of file a text is."""
    text = text.removeprefix(_MARK)
    for _, line in lines(text):
        if is_slurm(line):
            return "slurm"
        if line.startswith("[") or line.endswith(":"):
            return "ansible"
    address, *names = next((line for _, line in lines(text)), "-").split()
    has_address = names and "=" not in names[0] and (is_address(address) or is_ipv6(address))
    return "hosts" if has_address else "ansible"


def read(text: str, source: Source | None = None, read_sibling: Beside | None = None) -> SiteFile:
    """Return what a file says. `read_sibling` returns the text of a file in the same folder by its name, or None.

    Raises `StarterError` where it has no machines, too many, or the same name twice.
    """
    text = text.removeprefix(_MARK)
    if not text.strip():
        raise StarterError("the file is empty, and has no machine", "name a file with machines")
    kind = source or source_of(text)
    site = (
        read_slurm(text, read_sibling)
        if kind == "slurm"
        else read_hosts(text)
        if kind == "hosts"
        else read_ansible(text, read_sibling)
    )
    if not site.machines:
        reasons = [f"line {entry.line}: {entry.text[:80]}: {entry.reason}" for entry in site.left_out[:_SHOWN]]
        message = "; ".join([f"this file has no machine, read as {kind}", *reasons])
        raise StarterError(message, "--from-format hosts|ansible|slurm")
    checked(list(site.machines))
    left_out = tuple(replace(entry, text=_cut(entry.text), reason=_cut(entry.reason)) for entry in site.left_out)
    return replace(site, machines=on_one_network(site.machines), left_out=left_out)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
