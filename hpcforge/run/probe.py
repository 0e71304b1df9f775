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
from hpcforge.run.observe import CPU_TOPOLOGY, observe_machines
from hpcforge.run.trust import ask_for_keys
from hpcforge.run.wait_messages import Waits
from hpcforge.starter.machines import FoundMachine, checked, of_facts

MOST = 1024  # addresses


@dataclass(frozen=True)
class Probed:
    """The machines that answered, and why others did not, by address."""

    machines: list[FoundMachine]
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

    Only public keys of the ssh agent and of the user's files are offered. A machine that does not answer is in
    `silent`. Raises `StarterError` where two machines have the same name.
    """
    targets = {address: Target(f"a-{address.replace('.', '-')}", address, user, become) for address in asked}
    address_of = {target.name: address for address, target in targets.items()}
    with private_folder() as work:
        shown = ask_for_keys([*targets.values()], None, work)
        known = [replace(target, host_keys=(shown.keys[target.name],)) for target in targets.values()
                 if target.name in shown.keys]  # fmt: skip
        with Engines(known, work, work) as engines:
            seen = observe_machines(engines, [target.name for target in known], Waits(say, None))
    silent = {address_of[name]: why for name, why in shown.refused.items()}
    silent |= {address_of[name]: found.unreachable for name, found in seen.items() if found.unreachable}
    machines = [
        of_facts(address_of[name], found.facts, found.answers.get(CPU_TOPOLOGY, ""), (shown.keys[name],))
        for name, found in seen.items()
        if found.unreachable is None and found.python
    ]
    silent |= {address_of[name]: "it has no Python 3" for name, found in seen.items() if not found.python}
    return Probed(checked(machines), silent)
