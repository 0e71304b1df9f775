"""Machines without a blueprint: the addresses that answer ssh, with their own descriptions."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hpcforge.blueprint.hostlist import HostlistError, expand
from hpcforge.catalog import load_catalog
from hpcforge.engines import Engines
from hpcforge.engines.host_keys import private_folder
from hpcforge.engines.tasks import Command, Engine, Target
from hpcforge.errors import UsageError
from hpcforge.plan.observation import Observation
from hpcforge.run.fanout import Waits, ask_all
from hpcforge.run.observe import observe_machines
from hpcforge.run.trust import ask_for_keys
from hpcforge.starter.accounts import SiteAccounts, accounts_of, questions, usual_accounts
from hpcforge.starter.description import SCRIPT, Description, clones, parsed, second_addresses
from hpcforge.starter.machines import SiteMachine, StarterError, checked, distinct, of_facts

MOST = 1024  # addresses
_DESCRIBE_S = 60.0
_NO_DESCRIPTION = Description()
_RENAMED = "name, for "  # the guess for a machine with a hostname that is no node name, or not unique


@dataclass(frozen=True)
class Probed:
    """The answering machines, and the reasons for others by address; `notes` are sentences for the operator."""

    machines: list[SiteMachine]
    silent: Mapping[str, str]
    accounts: SiteAccounts
    notes: tuple[str, ...] = ()


def addresses(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the IPv4 addresses of hostlists, in order, each once. Raises UsageError."""
    unique: dict[str, None] = {}
    for text in texts:
        try:
            unique |= dict.fromkeys(str(ipaddress.IPv4Address(address)) for address in expand(text))
        except (HostlistError, ValueError):
            raise UsageError(f"{text[:80]!r} is not a list of IPv4 addresses", "as in 10.20.0.[1-32]") from None
        if len(unique) > MOST:
            raise UsageError(f"more than {MOST} addresses", "name those that have machines")
    return tuple(unique)


def probe(hosts: Sequence[str], user: str, become: Literal["sudo", "none"], say: Callable[[str], None]) -> Probed:
    """Log in to each address as `user`, accept the host key that it shows, and read what the machine is.

    Only public keys of the ssh agent and of the user's files are offered. A machine that does not answer, or
    describes itself as none can be, is in `silent`. Machines of one name are named by their addresses.
    """
    targets = [Target(address, address, user, become) for address in hosts]
    with private_folder() as work:
        shown = ask_for_keys(targets, None, work)
        keys = shown.keys
        trusted = [replace(target, host_keys=(keys[target.name],)) for target in targets if target.name in keys]
        with Engines(trusted, work, work) as engines:
            observed = observe_machines(engines, [target.name for target in trusted], Waits(say, None))
            reached = [target for target in trusted if not observed[target.name].unreachable]
            descriptions = _descriptions(engines, reached, questions(user))
    probed = described(observed, keys, descriptions, user)
    return replace(probed, silent={**shown.refused, **probed.silent})


def _descriptions(engine: Engine, targets: Sequence[Target], words: Sequence[str]) -> dict[str, Description | str]:
    """Return the machines' descriptions of themselves by address; why there is none."""
    tasks = [
        Command(
            f"describe:{target.name}",
            target.name,
            (*(("sudo", "-n") if target.become == "sudo" else ()), "sh", "-s", "--", *words),
            SCRIPT,
            timeout_s=_DESCRIBE_S,
        )
        for target in targets
    ]
    results = (event for event in ask_all(engine, tasks) if event.kind == "result")
    return {
        event.node: parsed(event.data["stdout"]) if event.data["ok"] else str(event.data["error"]) for event in results
    }


def described(
    observed: Mapping[str, Observation],
    keys: Mapping[str, str],
    descriptions: Mapping[str, Description | str],
    user: str,
) -> Probed:
    """Return the machines as they describe themselves; one without a usable description is in `silent`.

    One machine at two addresses is listed once. Copies of one disk are machines, and are named.
    """
    machines: list[SiteMachine] = []
    silent: dict[str, str] = {}
    notes: list[str] = []
    for address, observation in observed.items():
        try:
            machines.append(_machine(address, observation, descriptions.get(address, _NO_DESCRIPTION), keys[address]))
        except StarterError as error:
            silent[address] = str(error)
            continue
        if not observation.python:
            notes.append(f"{address} has no Python 3: `apply` installs it")
    if not machines:
        return Probed([], silent, usual_accounts(user))
    read = {address: _description(descriptions, address) for address in (machine.address or "" for machine in machines)}
    second = second_addresses(read)
    notes += [f"{alias} and {first} are one machine: it is listed once, at {first}" for alias, first in second.items()]
    read = {address: description for address, description in read.items() if address not in second}
    machines = distinct([machine for machine in machines if machine.address not in second])
    machines, of_clones = _with_remarks(machines, second, clones(read, keys))
    notes += [*of_clones, *_of_names(machines), *_of_systems(machines)]
    accounts = _accounts(user, {machine.name: read[machine.address or ""] for machine in machines})
    return Probed(checked(machines), silent, accounts, (*notes, *accounts.notes))


def _description(descriptions: Mapping[str, Description | str], address: str) -> Description:
    description = descriptions.get(address)
    return description if isinstance(description, Description) else _NO_DESCRIPTION


def _accounts(user: str, read: Mapping[str, Description]) -> SiteAccounts:
    answered = any(description.users for description in read.values())
    return accounts_of(user, read) if answered else usual_accounts(user)


def _machine(address: str, observation: Observation, description: Description | str, key: str) -> SiteMachine:
    """Return a machine; raise `StarterError` with the reason where it is left out."""
    if observation.unreachable or isinstance(description, str):
        raise StarterError(observation.unreachable or str(description))
    facts = observation.facts
    if not observation.python:
        if (facts["os_id"], facts["os_release"]) not in load_catalog().distributions:
            system = f"{facts['os_id']} {facts['os_release']}"
            raise StarterError(f"it has no Python 3, and hpcforge does not configure {system}: install python3")
        facts = {**facts, "gpus": description.gpus}
    machine = of_facts(address, facts, description.topology, (key,))
    return replace(machine, network=description.networks.get(address), container=description.container)


def _with_remarks(
    machines: Sequence[SiteMachine], second: Mapping[str, str], copies: Mapping[tuple[str, ...], str]
) -> tuple[list[SiteMachine], list[str]]:
    """Return the machines with comments on second addresses and on copies, and notes on the copies."""
    remarks: dict[str, list[str]] = {}
    for address, first in second.items():
        remarks.setdefault(first, []).append(f"also at {address}")
    notes = []
    for addresses_, shared in copies.items():
        listed = ", ".join(addresses_[:8]) + (", ..." if len(addresses_) > 8 else "")
        notes.append(
            f"{listed} are clones: different machines with the same {shared}. Give each its own before `apply`: "
            "rm /etc/machine-id; systemd-machine-id-setup; rm /etc/ssh/ssh_host_*; ssh-keygen -A; then run this again"
        )
        for address in addresses_:
            remarks.setdefault(address, []).append(f"a clone: {len(addresses_)} machines have the same {shared}")
    return [replace(machine, remarks=tuple(remarks.get(machine.address or "", ()))) for machine in machines], notes


def _of_names(machines: Sequence[SiteMachine]) -> list[str]:
    """Return notes on machines whose hostname is not a node name, or not unique: `apply` gives them another."""
    return [
        f"{machine.address} calls itself {guess.removeprefix(_RENAMED)}: it is {machine.name} here, and `apply` makes "
        "that its hostname"
        for machine in machines
        for guess in machine.guesses
        if guess.startswith(_RENAMED)
    ]


def _of_systems(machines: Sequence[SiteMachine]) -> list[str]:
    """Return notes on distributions that a blueprint cannot have, or not for these machines."""
    distributions = load_catalog().distributions
    counts = Counter(machine.system for machine in machines)
    (most, _), *others = counts.most_common()
    listed = {system: ", ".join(machine.name for machine in machines if machine.system == system) for system in counts}
    shown = {system: " ".join(system) if system else "an unknown distribution" for system in counts}
    supported = ", ".join(" ".join(key) for key in distributions)
    notes = [
        f"{listed[system]}: hpcforge does not configure {shown[system]}, but {supported}; `software.os` is a guess"
        for system in counts
        if system not in distributions
    ]
    return notes + [
        f"{listed[system]}: {shown[system]}, others {shown[most]}; write for each: overrides: "
        f'{{NODE: {{release: "{system[1]}", reason: ...}}}}'
        for system, _ in others
        if system in distributions and most in distributions and system and most and system[0] == most[0]
    ]
