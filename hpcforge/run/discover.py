"""Machines are asked by their management controllers, and the inventory gets what it lacks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace

from hpcforge.blueprint.hostlist import HostlistError, expand
from hpcforge.blueprint.inventory import BmcsSection, Inventory
from hpcforge.cluster.discovered import Machine, MachineMatches, additions
from hpcforge.errors import UsageError
from hpcforge.power import BmcError, Login
from hpcforge.power.https import certificate
from hpcforge.power.read_machine import read_machine
from hpcforge.power.redfish import Redfish
from hpcforge.run.power import password_of
from hpcforge.run.site import Site
from hpcforge.run.site_files import Values, add_values

MOST = 4096  # addresses of one search
MACHINE_S = 180.0  # for all requests to one controller, with one that restarts meanwhile (quirks.yaml: 90 s)
_AT_ONCE = 32
_EMPTY = Inventory.model_construct()
_USUAL = BmcsSection.model_construct()


@dataclass(frozen=True)
class Silent:
    """An address without a machine, and why; `reason` as `BmcError` has it."""

    address: str
    why: str
    reason: str


def addresses(site: Site, given: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses to ask: hostlists and subnets; without any, those of the nodes. Raises UsageError."""
    found: dict[str, None] = {}
    for text in given:
        found.update(dict.fromkeys(_expanded(text)))
    if not given:
        found = {node.bmc.address: None for node in site.cluster.nodes if node.bmc and node.bmc.address}
    if not found:
        raise UsageError(
            "no address of a management controller is known", "name some, as in 10.10.0.[1-32] or 10.10.0.0/24"
        )
    if len(found) > MOST:
        raise UsageError(f"{len(found)} addresses are more than {MOST}", "ask a part of them at a time")
    return tuple(found)


def _expanded(text: str) -> Sequence[str]:
    try:
        if "/" in text:
            network = ipaddress.IPv4Network(text)
            if network.num_addresses > MOST:
                raise UsageError(f"{text} has more than {MOST} addresses", "ask a part of it at a time")
            return [str(address) for address in network.hosts()]
        return [str(ipaddress.IPv4Address(address)) for address in expand(text)]
    except (ValueError, HostlistError):
        raise UsageError(
            f"{text} is neither IPv4 addresses nor a subnet", "as in 10.10.0.[1-32] or 10.10.0.0/24"
        ) from None


def ask(
    site: Site, asked: Sequence[str], trust_new: bool, say: Callable[[Machine | Silent], None]
) -> tuple[list[Machine], list[Silent]]:
    """Ask every address, side by side; `say` gets each as it answers. A bad controller fails alone.

    `trust_new`: a controller without a recorded certificate is believed, and gets the password.
    Raises UsageError where user or password is not known.
    """
    of = _accesses(site, asked)
    machines: list[Machine] = []
    silent: list[Silent] = []
    with ThreadPoolExecutor(min(_AT_ONCE, len(asked))) as pool:
        waiting = [pool.submit(_ask, of[address], trust_new) for address in asked]
        try:
            for ready in as_completed(waiting):
                found = ready.result()
                say(found)
                if isinstance(found, Machine):
                    machines.append(found)
                else:
                    silent.append(found)
        finally:
            for future in waiting:
                future.cancel()
    order = {address: place for place, address in enumerate(asked)}
    return (
        sorted(machines, key=lambda machine: order[machine.address]),
        sorted(silent, key=lambda other: order[other.address]),
    )


def _ask(access: Login, trust_new: bool) -> Machine | Silent:
    try:
        if access.verified and access.certificate is None:
            shown = certificate(access)
            if not trust_new:
                why = f"its certificate is not recorded; it shows {shown}"
                return Silent(access.address, why, "certificate")
            access = replace(access, certificate=shown)
        return read_machine(Redfish(access, limit_s=MACHINE_S), access.certificate)
    except BmcError as error:
        return Silent(access.address, str(error).removeprefix(f"{access.address}: "), error.reason)
    except Exception as error:  # as of power: one odd controller ends nothing for others
        return Silent(access.address, f"its controller cannot be used: {type(error).__name__}", "answer")


def _accesses(site: Site, asked: Sequence[str]) -> Mapping[str, Login]:
    inventory = site.loaded.inventory or _EMPTY
    bmcs = inventory.bmcs or _USUAL
    if bmcs.protocol != "redfish":
        raise UsageError("IPMI does not describe machines", "`bmcs: {protocol: redfish}` in the inventory, to discover")
    if bmcs.user is None:
        raise UsageError("the user of management controllers is not known", "in the inventory: `bmcs: {user: admin}`")
    of = {node.bmc.address: node for node in site.cluster.nodes if node.bmc and node.bmc.address}
    password = password_of(site)
    found = {}
    for address in asked:
        node = of.get(address)
        bmc = node.bmc if node else None
        found[address] = Login(
            address,
            (bmc.user if bmc else None) or bmcs.user,
            password(node.name if node else address),
            bmcs.port or 443,
            bmc.certificate if bmc else None,
            verified=bmcs.tls == "pinned",
        )
    return found


def record(site: Site, matches: MachineMatches) -> Values:
    """Write what the inventory lacks by now, all or nothing; return it by (node, key). Raises as `add_values` does."""
    return add_values(site.loaded, lambda now: additions(matches, now.cluster.nodes, now.inventory or _EMPTY))
