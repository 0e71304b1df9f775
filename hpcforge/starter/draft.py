"""The text of a first blueprint and of its inventory. Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import groupby
from typing import Literal

import yaml
from jinja2 import Environment, StrictUndefined
from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.hostlist import expand, fold
from hpcforge.catalog import load_catalog
from hpcforge.starter.accounts import SiteAccounts, usual_accounts
from hpcforge.starter.drivers import installed_driver, present_driver, pytorch_version
from hpcforge.starter.gpus import own_models
from hpcforge.starter.hardware import USUAL_CPU, TemplateFabric, machine_hardware, server_hardware
from hpcforge.starter.machines import USUAL_SYSTEM, SiteAccess, SiteFile, SiteMachine, StarterError, guessed_head
from hpcforge.starter.site_networks import inventory_parts, way_in, with_networks
from hpcforge.starter.slurm_lines import node_keys, slurm_words

OF_MACHINES = "machines"  # the template that has the machines of a file
_FUNCTIONS = ("head", "login", "storage", "worker")
_HEAD_AT, _WORKERS_AT = 10, 101  # where addresses begin in the network
_KINDS = {"name": v.ClusterName, "domain": v.DomainName, "user": v.LoginName, "network": v.Cidr}


@dataclass(frozen=True)
class Answers:
    """What a template asks. `network` is a CIDR; `workers` a number of nodes; `server` a model of the catalog."""

    name: str
    domain: str
    user: str
    network: str
    workers: int
    server: str
    network_guessed: bool = False


@dataclass(frozen=True)
class ClusterTemplate:
    """A kind of cluster to begin with."""

    name: str
    description: str
    workers: int
    server: str
    text: str
    hardware: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # servers that it describes itself
    fabric: TemplateFabric | None = None


def templates() -> dict[str, ClusterTemplate]:
    """Return the shipped templates by name."""
    files = resources.files(__package__).joinpath("templates").iterdir()
    return {template.name: template for template in sorted(map(_template, files), key=lambda found: found.name)}


def _template(file: resources.abc.Traversable) -> ClusterTemplate:
    front, _, text = file.read_text(encoding="utf-8").partition("---\n")
    about = yaml.load(front, Loader=yaml.CSafeLoader)
    fabric = TemplateFabric(**about.pop("fabric")) if "fabric" in about else None
    return ClusterTemplate(name=file.name.removesuffix(".yaml"), text=text, fabric=fabric, **about)


def _check(answers: Answers, template: ClusterTemplate) -> None:
    """Raise `StarterError` for an answer that a blueprint does not accept."""
    for name, kind in _KINDS.items():
        try:
            TypeAdapter(kind).validate_python(getattr(answers, name))
        except ValidationError as error:
            [first, *_] = error.errors()
            raise StarterError(f"{name}: {first['msg']}", str(first.get("ctx", {}).get("hint") or "")) from error
    catalog = load_catalog().servers
    servers = (*template.hardware, *catalog)
    if answers.server and answers.server not in servers:
        hint = did_you_mean(answers.server, servers) or "hpcforge catalog list servers"
        raise StarterError(f"the catalog has no server {answers.server}", hint)
    if answers.server in catalog and catalog[answers.server].nvlink_domain:
        message = f"nodes of {answers.server} share an NVLink domain in their rack, and a template has no racks"
        raise StarterError(message, "begin with another server, then add `site.racks`, and `rack` to the nodes")


def draft(
    template: ClusterTemplate,
    answers: Answers,
    inventory: str,
    site: SiteFile | None = None,
    accounts: SiteAccounts | None = None,
) -> tuple[str, str]:
    """Return the texts of a blueprint and of its inventory. `inventory`: the file's name, as the blueprint has it.

    `accounts` are those of machines that were asked for them.

    Raises `StarterError` for answers or machines that make no blueprint.
    """
    _check(answers, template)
    machines: Sequence[SiteMachine] = site.machines if site else ()
    words: dict[str, object] = {**vars(answers), "inventory_file": quoted(inventory)}
    words |= slurm_words(site)
    words |= {"accounts": accounts or usual_accounts(answers.user), "become": become(answers.user)}
    if machines:
        networks, machines = with_networks(_with_head(machines), answers.network)
        words |= _words_of(machines)
        boot = any("external" not in network for network in networks)
        prefix = answers.network_guessed
        words |= {"other_networks": networks, "boot": boot}
        words["network_guess"] = ", ".join(["boot"] * boot + ["the prefix length"] * prefix)
        words |= _access_words(site.access if site else SiteAccess(), answers.user, machines)
    else:
        width = max(2, len(str(answers.workers)))
        words["workers"] = fold(f"g{number:0{width}d}" for number in range(1, answers.workers + 1))
        words |= _words_of_server(template, answers.server)
    environment = Environment(  # noqa: S701 - YAML; answers are checked
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    text = environment.from_string(template.text).render(words)
    return text, _inventory(text, ipaddress.IPv4Network(answers.network), machines)


def _access_words(access: SiteAccess, user: str, machines: Sequence[SiteMachine]) -> dict[str, str]:
    """The way in, and what of it is a guess: an account by an option is none."""
    guesses = [guess for guess in access.guesses if user == access.user or not guess.startswith("user")]
    way = become(user) if access.become else "none"
    return {"become": way, "via": way_in(access, user, machines), "access_guess": ", ".join(guesses)}


def become(user: str) -> Literal["sudo", "none"]:
    """Return how a login account becomes root."""
    return "none" if user == "root" else "sudo"


def _system(machines: Sequence[SiteMachine]) -> tuple[tuple[str, str], bool]:
    """The distribution that most machines have, if hpcforge supports it, and whether that is sure; else Debian 12."""
    known = load_catalog().distributions
    counts = Counter(machine.system for machine in machines if machine.system and machine.system in known)
    for found, count in counts.most_common(1):
        return found, count == len(machines)
    return USUAL_SYSTEM, False


def _inventory(
    blueprint: str,
    network: ipaddress.IPv4Network,
    machines: Sequence[SiteMachine],
) -> str:
    """An inventory line for each node: the address that is known, or the next free one."""
    known = {machine.name: machine for machine in machines}
    nodes = yaml.load(blueprint, Loader=yaml.CSafeLoader)["nodes"]
    taken = {address for machine in machines for address in (machine.address, machine.bmc) if address}
    heads = (str(network[number]) for number in range(_HEAD_AT, network.num_addresses - 1))
    workers = (str(network[number]) for number in range(_WORKERS_AT, network.num_addresses - 1))
    lines = [
        "# Also, where you know them: mac, serial, host_keys, bmc: {address: ..., mac: ...}",
        "schema: 1",
        "nodes:",
    ]
    for names, node in nodes.items():
        free = workers if node["functions"] == ["worker"] else heads
        for name in expand(names):
            machine = known.get(name, SiteMachine(name))
            given = machine.address
            address = given or next((address for address in free if address not in taken), None)
            if address is None:
                raise StarterError(f"network: {network} has no address left for {name}", "choose a shorter prefix")
            taken.add(address)
            shown = f", host_keys: {quoted(machine.host_keys)}" if machine.host_keys else ""
            shown += inventory_parts(machine)
            remarks = "; ".join((*([] if given else ["guess"]), *machine.remarks))
            lines.append(f"  {name}: {{address: {address}{shown}}}" + (f"   # {remarks}" if remarks else ""))
    return "\n".join(lines) + "\n"


def _with_head(machines: Sequence[SiteMachine]) -> list[SiteMachine]:
    """The machines with a head and a worker: the first runs the services, and the head jobs, if nothing says which."""
    result = list(machines)
    for function, position in (("head", 0), ("worker", machines.index(guessed_head(machines)))):
        if not any(function in machine.functions for machine in result):
            chosen = result[position]
            functions = sorted((function, *chosen.functions), key=_FUNCTIONS.index)
            guesses = tuple(dict.fromkeys(("functions", *chosen.guesses)))
            result[position] = replace(chosen, functions=tuple(functions), guesses=guesses)
    return result


def _words_of(machines: Sequence[SiteMachine]) -> dict[str, object]:
    catalog, (system, sure) = load_catalog(), _system(machines)
    hardware = {machine.name: machine_hardware(machine, catalog) for machine in machines}
    entries = {each.name: each.entry for each in hardware.values() if each.entry}
    nodes: list[str] = []
    for (functions, keys, name, guesses), group in groupby(
        machines, lambda each: (each.functions, node_keys(each), hardware[each.name].name, hardware[each.name].guesses)
    ):
        comment = f"   # guess: {', '.join(guesses)}" if guesses else ""
        names = fold(machine.name for machine in group)
        nodes.append(f'"{names}": {{functions: [{", ".join(functions)}], hardware: {name}{keys}}}{comment}')
    every = list(hardware.values())
    return {
        "hardware": [f"{name}: {text}" for name, text in entries.items()] or ["{}"],
        "parts": [f"{name}: {text}" for name, text in own_models(each.choice for each in every if each.choice)],
        "nodes": nodes,
        "head": guessed_head(machines).name,
        "head_known": "functions" not in guessed_head(machines).guesses,
        "reserve": _reserve(machines),
        "container": next((machine.container for machine in machines if machine.container), ""),
        "gpus": any(each.choice for each in every),
        "driver": present_driver(every, system, catalog),
        "pytorch": pytorch_version(every, system, catalog),
        "os": system,
        "os_known": sure,
    }


def _words_of_server(template: ClusterTemplate, name: str) -> dict[str, object]:
    catalog, (system, _) = load_catalog(), _system(())
    hardware, server, ports = server_hardware(name, template.hardware.get(name, {}), template.fabric, catalog)
    return {
        "hardware": hardware.entry and f"{name}:{hardware.entry}",
        "fabric": ports,
        "gpus": hardware.choice is not None,
        "driver": present_driver([hardware], system, catalog),
        "installed_driver": installed_driver([hardware], system, catalog),
        "pytorch": pytorch_version([hardware], system, catalog),
        "cores": (server.sockets or 1) * (server.cores_per_socket or 1),
        "memory_gib": server.memory_gib,
    }


def _reserve(machines: Sequence[SiteMachine]) -> str:
    """What is kept from jobs: 2 cores and 8 GiB, less where a worker has little."""
    workers = [machine for machine in machines if "worker" in machine.functions] or machines
    cores = min((each.sockets or 1) * (each.cores_per_socket or USUAL_CPU["cores_per_socket"]) for each in workers)
    memory_gib = min(each.memory_gib or USUAL_CPU["memory_gib"] for each in workers)
    return f"{{cores: {min(2, cores // 2)}, memory_gib: {min(8, memory_gib // 4)}}}"
