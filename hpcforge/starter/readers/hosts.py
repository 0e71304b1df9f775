"""/etc/hosts, as a list of machines."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from hpcforge.starter.machines import SiteFile, SiteMachine
from hpcforge.starter.readers.words import at_most, by_name, is_address, lines


def read_hosts(text: str) -> SiteFile:
    """Return the machines of a hosts file: the first name of each address."""
    return SiteFile(at_most(_hosts(text)))


def _hosts(text: str) -> Iterator[SiteMachine]:
    for _, line in lines(text):
        address, *names = line.split()
        if is_address(address) and names and not ipaddress.ip_address(address).is_loopback:
            yield by_name(names[0].partition(".")[0].lower(), address)
