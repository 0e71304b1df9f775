"""The text of a first blueprint and of its inventory. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import groupby
from typing import Literal

import yaml
from jinja2 import Environment, StrictUndefined
from pydantic import TypeAdapter, ValidationError

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.hardware import Server
from hpcforge.blueprint.hostlist import expand, fold
from hpcforge.catalog import Catalog, load_catalog
from hpcforge.catalog.nvidia import bare_name
from hpcforge.starter.accounts import SiteAccounts, usual_accounts
from hpcforge.starter.machines import SiteFile, SiteMachine, StarterError, guessed_head

OF_MACHINES = "machines"  # the template that has the machines of a file
_HEAD_AT, _WORKERS_AT = 10, 101  # where addresses begin in the network
_KINDS = {"name": v.ClusterName, "domain": v.DomainName, "user": v.LoginName, "network": v.Cidr}
_USUAL_CPU = {"sockets": 2, "cores_per_socket": 32, "threads_per_core": 2, "memory_gib": 256}


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


def templates() -> dict[str, ClusterTemplate]:
    """Return the shipped templates by name."""
    files = resources.files(__package__).joinpath("templates").iterdir()
    return {template.name: template for template in sorted(map(_template, files), key=lambda found: found.name)}


def _template(file: resources.abc.Traversable) -> ClusterTemplate:
    front, _, text = file.read_text(encoding="utf-8").partition("---\n")
    about = yaml.safe_load(front)
    return ClusterTemplate(
        file.name.removesuffix(".yaml"), about["description"], about["workers"], about["server"], text
    )


def _check(answers: Answers) -> None:
    """Raise `StarterError` for an answer that a blueprint does not accept."""
    for name, kind in _KINDS.items():
        try:
            TypeAdapter(kind).validate_python(getattr(answers, name))
        except ValidationError as error:
            [first, *_] = error.errors()
            raise StarterError(f"{name}: {first['msg']}", str(first.get("ctx", {}).get("hint") or "")) from error
    servers = load_catalog().servers
    if answers.server and answers.server not in servers and answers.server not in _own_models():
        raise StarterError(f"the catalog has no server {answers.server}", did_you_mean(answers.server, servers) or "")


def _own_models() -> set[str]:
    """Servers that templates describe themselves."""
    return {template.server for template in templates().values()}


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
    _check(answers)
    machines: Sequence[SiteMachine] = site.machines if site else ()
    gpus = not machines or any(machine.gpus for machine in machines)
    system, sure = _system(machines)
    words: dict[str, object] = {**vars(answers), "inventory": inventory, "gpus": gpus}
    words |= {"pytorch": _pytorch(gpus, system), "os": system, "os_known": sure}
    words |= {"accounts": accounts or usual_accounts(answers.user), "become": become(answers.user)}
    if machines:
        machines = _with_head(machines)
        words |= _words_of(machines)
    else:
        width = max(2, len(str(answers.workers)))
        words["workers"] = fold(f"g{number:0{width}d}" for number in range(1, answers.workers + 1))
    environment = Environment(  # noqa: S701 - YAML; answers are checked
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    text = environment.from_string(template.text).render(words)
    return text, _inventory(text, ipaddress.IPv4Network(answers.network), machines)


def become(user: str) -> Literal["sudo", "none"]:
    """Return how a login account becomes root."""
    return "none" if user == "root" else "sudo"


def _system(machines: Sequence[SiteMachine]) -> tuple[tuple[str, str], bool]:
    """The distribution that most machines have, if hpcforge supports it, and whether that is sure; else Debian 12."""
    known = load_catalog().distributions
    counts = Counter(machine.system for machine in machines if machine.system and machine.system in known)
    for found, count in counts.most_common(1):
        return found, count == len(machines)
    return ("debian", "12"), False


def _pytorch(gpus: bool, system: tuple[str, str]) -> str | None:
    """The first build of PyTorch that the catalog pins for a distribution: the one that its drivers run.

    Without GPUs, a distribution that has no pinned build brings its own package in place of Debian 12's version. None:
    there is neither.
    """
    catalog = load_catalog()
    known = catalog.distributions
    builds = catalog.pytorch_builds("cuda" if gpus else "cpu", known[system])
    if not builds and not gpus and known[system].pytorch:
        builds = catalog.pytorch_builds("cpu", known["debian", "12"])
    return builds[0].version if builds else None


def _inventory(
    blueprint: str,
    network: ipaddress.IPv4Network,
    machines: Sequence[SiteMachine],
) -> str:
    """An inventory line for each node: the address that is known, or the next free one."""
    known = {machine.name: machine for machine in machines}
    nodes = yaml.load(blueprint, Loader=yaml.CSafeLoader)["nodes"]
    taken = {machine.address for machine in machines if machine.address}
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
            remarks = "; ".join((*([] if given else ["guess"]), *machine.remarks))
            lines.append(f"  {name}: {{address: {address}{shown}}}" + (f"   # {remarks}" if remarks else ""))
    return "\n".join(lines) + "\n"


def _with_head(machines: Sequence[SiteMachine]) -> list[SiteMachine]:
    """The machines with a head: the first of them runs the services if no name says which."""
    if any("head" in machine.functions for machine in machines):
        return list(machines)
    guesses = dict.fromkeys(("functions", *machines[0].guesses))
    first = replace(machines[0], functions=("head", *machines[0].functions), guesses=tuple(guesses))
    return [first, *machines[1:]]


def _words_of(machines: Sequence[SiteMachine]) -> dict[str, object]:
    catalog = load_catalog()
    hardware: dict[str, str] = {}
    nodes: list[str] = []
    for (functions, entry, guess), group in groupby(machines, lambda each: (each.functions, *_hardware(each, catalog))):
        hardware.update([entry])
        names = fold(machine.name for machine in group)
        comment = f"   # {guess}" if guess else ""
        nodes.append(f'"{names}": {{functions: [{", ".join(functions)}], hardware: {entry[0]}}}{comment}')
    return {
        "hardware": [f"{name}: {text}" for name, text in hardware.items() if text] or ["{}"],
        "nodes": nodes,
        "head": guessed_head(machines).name,
        "head_known": "functions" not in guessed_head(machines).guesses,
        "reserve": _reserve(machines),
        "container": next((machine.container for machine in machines if machine.container), ""),
        "nvswitch": any(catalog.servers[name].nvswitch for name, text in hardware.items() if not text),
    }


def _reserve(machines: Sequence[SiteMachine]) -> str:
    """What is kept from jobs: 2 cores and 8 GiB, less where a worker has little."""
    workers = [machine for machine in machines if "worker" in machine.functions] or machines
    cores = min((each.sockets or 1) * (each.cores_per_socket or _USUAL_CPU["cores_per_socket"]) for each in workers)
    memory_gib = min(each.memory_gib or _USUAL_CPU["memory_gib"] for each in workers)
    return f"{{cores: {min(2, cores // 2)}, memory_gib: {min(8, memory_gib // 4)}}}"


def _hardware(machine: SiteMachine, catalog: Catalog) -> tuple[tuple[str, str], str]:
    """Name and text of the hardware of a machine (no text: a model of the catalog), and what was guessed."""
    values = {name: getattr(machine, name) or usual for name, usual in _USUAL_CPU.items()}
    guesses = [*machine.guesses, *(["hardware"] if any(getattr(machine, name) is None for name in _USUAL_CPU) else [])]
    facts = ", ".join(f"{name}: {value}" for name, value in values.items())
    if machine.gpus:
        model, sure = _gpu(machine, catalog)
        if not sure:
            guesses.append("GPU model")
        for whole, server in _with_gpus(catalog, model, machine.gpus):
            if _agrees(machine, server):
                return (whole, ""), _guess(guesses)
        chassis = next(_that_take(catalog, model, machine.gpus), "supermicro-421ge-tnrt")
        text = f"{{like: {chassis}, {facts}, gpus: {{model: {model}, count: {machine.gpus}}}}}"
        name = f"gpu-{machine.gpus}x-{model}-{_size(values)}"
        return (name, text), _guess([*guesses, "chassis"])
    return (f"cpu-{_size(values)}", f"{{like: generic-2u, {facts}}}"), _guess(guesses)


def _size(values: Mapping[str, int]) -> str:
    """A name for processors and memory, so that machines that differ have models that do."""
    return f"{values['sockets']}x{values['cores_per_socket']}x{values['threads_per_core']}-{values['memory_gib']}"


def _agrees(machine: SiteMachine, server: Server) -> bool:
    """Whether a model has the processors that a file states, and about its memory."""
    cores = machine.cores_per_socket in (None, server.cores_per_socket) and machine.sockets in (None, server.sockets)
    known, stated = server.memory_gib, machine.memory_gib
    return cores and (stated is None or known is None or abs(stated - known) <= known * 0.1)


def _guess(guesses: Sequence[str]) -> str:
    return f"guess: {', '.join(guesses)}" if guesses else ""


def _gpu(machine: SiteMachine, catalog: Catalog) -> tuple[str, bool]:
    """The catalog's model for a GPU's type, and whether the name leaves no choice."""
    told = {bare_name(called): name for name, gpu in catalog.gpus.items() for called in gpu.driver_names or ()}
    if (called := bare_name(machine.gpu or "")) in told:
        return told[called], True
    said = re.sub(r"[^a-z0-9]+", "-", (machine.gpu or "").lower()).strip("-")
    if said in catalog.gpus:
        return said, True
    alike = [name for name in catalog.gpus if said and (name.startswith(said) or name.split("-")[0] in said.split("-"))]
    whole = [name for name in alike if any(_with_gpus(catalog, name, machine.gpus))]
    return next(iter(whole or alike), "h100-pcie"), len(alike) == 1


def _with_gpus(catalog: Catalog, model: str, count: int) -> Iterator[tuple[str, Server]]:
    for name, server in catalog.servers.items():
        if server.gpus and (server.gpus.model, server.gpus.count) == (model, count):
            yield name, server


def _that_take(catalog: Catalog, model: str, count: int) -> Iterator[str]:
    form = catalog.gpus[model].form_factor
    for name, server in catalog.servers.items():
        if form in (server.gpu_form_factors or ()) and (server.gpus_max or 0) >= count:
            yield name
