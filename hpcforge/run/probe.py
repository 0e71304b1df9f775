"""Machines that no blueprint has yet: those of some addresses that answer ssh, as they describe themselves."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hpcforge.blueprint.hostlist import HostlistError, expand
from hpcforge.engines import Engines
from hpcforge.engines.private_folders import private_folder
from hpcforge.engines.tasks import Target
from hpcforge.errors import UsageError
from hpcforge.plan.observation import Observation
from hpcforge.run.observe import CPU_TOPOLOGY, observe_machines
from hpcforge.run.trust import ask_for_keys
from hpcforge.run.wait_messages import Waits
from hpcforge.starter.machines import SiteMachine, StarterError, checked, distinct, of_facts

MOST = 1024  # addresses


@dataclass(frozen=True)
class Probed:
    """The machines that answered, and why others are left out, by address."""

    machines: list[SiteMachine]
    silent: Mapping[str, str]


def addresses(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the IPv4 addresses of hostlists, in order, each once. Raises UsageError."""
    found: dict[str, None] = {}
    for text in texts:
        try:
            found |= dict.fromkeys(str(ipaddress.IPv4Address(address)) for address in expand(text))
        except (HostlistError, ValueError):
            raise UsageError(f"{text[:80]!r} is not a list of IPv4 addresses", "as in 10.20.0.[1-32]") from None
        if len(found) > MOST:
            raise UsageError(f"more than {MOST} addresses", "name those that have machines")
    return tuple(found)


def probe(asked: Sequence[str], user: str, become: Literal["sudo", "none"], say: Callable[[str], None]) -> Probed:
    """Log in to each address as `user`, accept the host key that it shows, and read what the machine is.

    Only public keys of the ssh agent and of the user's files are offered. A machine that does not answer, or
    describes itself as none can be, is in `silent`. Machines of one name are named by their addresses.
    """
    targets = [Target(address, address, user, become) for address in asked]
    with private_folder() as work:
        shown = ask_for_keys(targets, None, work)
        keys = shown.keys
        known = [replace(target, host_keys=(keys[target.name],)) for target in targets if target.name in keys]
        with Engines(known, work, work) as engines:
            seen = observe_machines(engines, [target.name for target in known], Waits(say, None))
    found = described(seen, keys)
    return Probed(found.machines, {**shown.refused, **found.silent})


def described(seen: Mapping[str, Observation], keys: Mapping[str, str]) -> Probed:
    """Return the machines as they describe themselves; one without a usable description is in `silent`."""
    machines, silent = [], {}
    for address, found in seen.items():
        if found.unreachable or not found.python:
            silent[address] = found.unreachable or "it has no Python 3"
            continue
        try:
            machines.append(of_facts(address, found.facts, found.answers.get(CPU_TOPOLOGY, ""), (keys[address],)))
        except StarterError as error:
            silent[address] = str(error)
    return Probed(checked(distinct(machines)), silent)
