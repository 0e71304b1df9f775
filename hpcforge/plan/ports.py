"""Ports on which a node answers hosts outside the cluster: roles declare them, a firewall opens no others. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hpcforge.plan.render import Template
from hpcforge.plan.role_spec import PortSpec

_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_LAST = 65535


@dataclass(frozen=True)
class PortRange:
    """One port, or several in a row: `22`, `30000-30100`."""

    port: str
    protocol: str  # tcp, udp
    why: str


def port(spec: PortSpec, render: Callable[[Template], str]) -> PortRange:
    """Return a port from its rendered fields. Raises ValueError for an invalid port."""
    text = render(spec.port)
    found = _PORTS.fullmatch(text)
    first, last = (int(digits) for digits in (found[1], found[2] or found[1])) if found else (0, 0)
    if not 0 < first <= last <= _LAST:
        raise ValueError(f"{text!r} is neither a port nor a range FIRST-LAST of ports from 1 to {_LAST}")
    return PortRange(text, spec.protocol, spec.why)
