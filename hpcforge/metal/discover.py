"""Query machines through their management controllers, and add missing data to the inventory."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.blueprint.inventory import BmcsSection, Inventory
from hpcforge.errors import UsageError
from hpcforge.metal.bmc import BmcError, Login
from hpcforge.metal.bmc.https import certificate
from hpcforge.metal.bmc.read_machine import read_machine, read_service
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.machine_matching import Machine, MachineDifference, MachineMatches, additions, differences
from hpcforge.metal.power import password_of, side_by_side
from hpcforge.run.site import Site, Values, add_values
from hpcforge.tally import Tallies, silent

MOST = 4096  # addresses of one search
MACHINE_S = 180.0  # limit for all requests to one controller, including a restart (quirks.yaml: 90 s)
INTERRUPTED = "interrupted"  # reason of an address without an answer at Ctrl-C
EMPTY = Inventory.model_construct()
_USUAL = BmcsSection.model_construct()


@dataclass(frozen=True)
class Silent:
    """An address without a machine, and why; `reason` as `BmcError` has it."""

    address: str
    why: str
    reason: str


@dataclass(frozen=True)
class Search:
    """Addresses to ask. `named` are those of nodes and hostlists; the others are of subnets, and get no password."""

    addresses: tuple[str, ...]
    named: frozenset[str]


def search(site: Site, texts: Sequence[str]) -> Search:
    """Return the addresses to ask: hostlists and subnets; without any, those of the nodes. Raises UsageError."""
    nodes = [node.bmc.address for node in site.cluster.nodes if node.bmc and node.bmc.address]
    targets = dict.fromkeys(address for text in texts for address in _expanded(text)) if texts else dict.fromkeys(nodes)
    if not targets:
        raise UsageError(
            "the inventory has no address of a management controller", "name some, as in 10.10.0.[1-32] or 10.10.0.0/24"
        )
    if len(targets) > MOST:
        raise UsageError(f"{len(targets)} addresses are more than {MOST}", "name fewer addresses")
    hostlists = (address for text in texts if "/" not in text for address in _expanded(text))
    return Search(tuple(targets), frozenset(targets) & {*nodes, *hostlists})


def _expanded(text: str) -> Sequence[str]:
    try:
        if "/" in text:
            network = ipaddress.IPv4Network(text)
            if network.num_addresses > MOST:
                raise UsageError(f"{text} has more than {MOST} addresses", "name fewer addresses")
            return [str(address) for address in network.hosts()]
        return [str(ipaddress.IPv4Address(address)) for address in expand(text)]
    except (ValueError, HostlistError):
        raise UsageError(
            f"{text} is neither IPv4 addresses nor a subnet", "as in 10.10.0.[1-32] or 10.10.0.0/24"
        ) from None


def ask(
    site: Site, search: Search, trust_new: bool, say: Callable[[Machine | Silent], None], tallies: Tallies = silent
) -> tuple[list[Machine], list[Silent]]:
    """Ask every address, side by side; `say` gets each as it answers, `tallies` the counts. A bad one fails alone.

    `trust_new`: a named controller without a recorded certificate is believed, and gets the password once it has shown
    a service root. Ctrl-C ends the wait: what had not answered has the reason `INTERRUPTED`.

    Raises UsageError where user or password is not known.
    """
    logins = _accesses(site, search)
    machines: list[Machine] = []
    failed: list[Silent] = []
    try:
        with tallies("reading controllers", logins.keys()) as tally:

            def counted(access: Login) -> Machine | Silent:
                with tally.part(access.address):
                    return _ask(access, trust_new)

            for answer in side_by_side(counted, list(logins.values())):
                say(answer)
                if isinstance(answer, Machine):
                    machines.append(answer)
                else:
                    failed.append(answer)
    except KeyboardInterrupt:
        answered = {machine.address for machine in machines} | {failure.address for failure in failed}
        failed += [Silent(address, "interrupted", INTERRUPTED) for address in logins if address not in answered]
    order = {address: place for place, address in enumerate(logins)}
    return (
        sorted(machines, key=lambda machine: order[machine.address]),
        sorted(failed, key=lambda failure: order[failure.address]),
    )


def _ask(access: Login, trust_new: bool) -> Machine | Silent:
    machine = Redfish(access, limit_s=MACHINE_S)  # the limit starts here, before the first request
    try:
        if access.certificate is None:
            shown = certificate(access)
            if access.verified and access.password and not trust_new:
                reason = f"its certificate is not recorded; it shows {shown}"
                return Silent(access.address, reason, "certificate")
            pinned = replace(access, certificate=shown, password="")
            make = read_service(machine.with_access(pinned))
            if not access.password:
                reason = f"a controller ({make or 'unknown make'}) that no node has: no password was sent"
                return Silent(access.address, f"{reason}; its certificate: {shown}", "certificate")
            machine.access = replace(access, certificate=shown if access.verified else None)
        return read_machine(machine, machine.access.certificate)
    except BmcError as error:
        if access.certificate is None and error.reason == "certificate":
            reason = (
                "it shows a new certificate at each connection, and none is recorded: no password was sent to another"
            )
            return Silent(access.address, reason, "answer")
        return Silent(access.address, str(error).removeprefix(f"{access.address}: "), error.reason)
    except Exception as error:  # as in power: an odd controller must not end the others
        return Silent(access.address, f"its controller cannot be used: {type(error).__name__}", "answer")


def _accesses(site: Site, search: Search) -> Mapping[str, Login]:
    inventory = site.loaded.inventory or EMPTY
    bmcs = inventory.bmcs or _USUAL
    if bmcs.protocol != "redfish":
        raise UsageError("IPMI does not describe machines", "`bmcs: {protocol: redfish}` in the inventory, to discover")
    if bmcs.user is None:
        raise UsageError("the user of management controllers is not known", "in the inventory: `bmcs: {user: admin}`")
    by_address = {node.bmc.address: node for node in site.cluster.nodes if node.bmc and node.bmc.address}
    password = password_of(site)
    logins = {}
    for address in search.addresses:
        node = by_address.get(address)
        bmc = node.bmc if node else None
        logins[address] = Login(
            address,
            (bmc.user if bmc else None) or bmcs.user,
            password(node.name if node else address) if address in search.named else "",
            bmcs.port or 443,
            bmc.certificate if bmc else None,
            verified=bmcs.tls == "pinned",
        )
    return logins


def record(site: Site, matches: MachineMatches) -> Values:
    """Write what the inventory lacks by now, all or nothing; return it by (node, key). Raises as `add_values` does."""
    return add_values(site.loaded, lambda loaded: additions(matches, loaded.cluster.nodes, loaded.inventory or EMPTY))


def remarks_of(site: Site, matches: MachineMatches) -> list[MachineDifference]:
    """Return what differs between machines and the nodes that they are."""
    remarks = list(matches.remarks)
    for node in site.cluster.nodes:
        if machine := matches.nodes.get(node.name):
            remarks += differences(node, machine)
    return remarks


def to_ask_again(
    site: Site, search: Search, machines: Sequence[Machine], silent: Sequence[Silent], trust_new: bool
) -> Sequence[str]:
    """Return the hostlist of all controllers that answered, if some of them wait for --trust-new or to be named."""
    pinned = {node.bmc.address for node in site.cluster.nodes if node.bmc and node.bmc.certificate}
    refused = {
        failure.address for failure in silent if failure.reason == "certificate" and failure.address not in pinned
    }
    new = refused - search.named if trust_new else refused
    answered = new | {machine.address for machine in machines}
    return [fold([address for address in search.addresses if address in answered])] if new else ()
