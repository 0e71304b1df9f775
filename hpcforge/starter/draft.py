"""The text of a first blueprint and of its inventory. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import groupby
from typing import Literal

import yaml
from jinja2 import Environment, StrictUndefined
from pydantic import TypeAdapter, ValidationError

from hpcforge import bundled
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean
from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.hostlist import expand, fold
from hpcforge.blueprint.node_sets import EACH_PARTITION
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.acceptance import asked_min
from hpcforge.blueprint.sections.hardware import Gpu
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.blueprint.values import limit_s, minutes
from hpcforge.catalog import Catalog, load_catalog
from hpcforge.catalog.compatibility import Component, load_compatibility
from hpcforge.catalog.nvidia import archive_name
from hpcforge.software.solve import MATCHED, StatedComponent, is_error, judge
from hpcforge.starter.accounts import SiteAccounts, usual_accounts
from hpcforge.starter.gpus import own_models
from hpcforge.starter.hardware import USUAL_CPU, HardwareChoice, TemplateFabric, machine_hardware, server_hardware
from hpcforge.starter.machines import (
    ALL,
    USUAL_SYSTEM,
    SiteAccess,
    SiteFile,
    SiteMachine,
    SitePartition,
    StarterError,
    guessed_head,
)
from hpcforge.starter.site_networks import inventory_parts, way_in, with_networks

# Slurm in a draft: keys of nodes, partitions, settings, and the nodes of acceptance tests.
_USUAL = 'main: {nodes: all, default: true, max_time: "2-00:00:00"}'
_NUMBER = re.compile("0|[1-9][0-9]{0,17}")
_TESTS = ("memory_copy", "allreduce", "train_ddp")


def slurm_words(site: SiteFile | None) -> dict[str, object]:
    """Return the words of the template that say how Slurm is: one partition of all nodes where a site has none."""
    partitions = site.partitions if site else ()
    settings = dict(site.settings) if site else {}
    return {
        "partitions": [partition_line(partition) for partition in partitions] or [_USUAL],
        "settings": _settings(settings) if settings else "",
        **_tests(partitions),
    }


def _tests(partitions: Sequence[SitePartition]) -> dict[str, object]:
    """Return the lines of acceptance tests, and the tests too long for every partition, with the minutes that they
    need.

    A test of all nodes is one job, which needs a partition of all of them; without one, each partition has a job.
    """
    lines: list[str] = []
    too_long: dict[str, int] = {}
    for name in _TESTS:
        needed = _minutes(name) if any(partition.max_time for partition in partitions) else 0
        fitting = [partition for partition in partitions if limit_s(partition.max_time or "infinite") >= needed * 60]
        nodes: str | list[str] = list(dict.fromkeys(fold(partition.nodes) for partition in fitting))
        if not partitions or any(partition.nodes == ALL for partition in fitting):
            nodes = "all"
        elif len(fitting) == len(partitions):
            nodes = EACH_PARTITION
        if nodes:
            lines.append(f"{name}: {{nodes: {quoted(nodes)}}}")
        else:
            too_long[name] = needed
    return {"tests": lines, "too_long": too_long}


def _minutes(test: str) -> int:
    """Return the minutes that a job of a smoke test may take."""
    return asked_min(minutes(load_smoke_tests(bundled.smoke_tests())[test].spec.time_limit) * 60)


def partition_line(partition: SitePartition) -> str:
    """Return the line of a partition, with a comment where a value is a guess."""
    nodes = "all" if partition.nodes == ALL else fold(partition.nodes)
    keys = [f"nodes: {quoted(nodes)}"]
    if partition.default:
        keys.append("default: true")
    if partition.max_time:
        keys.append(f"max_time: {quoted(partition.max_time)}")
    if partition.settings:
        keys.append(f"settings: {_settings(dict(partition.settings))}")
    guess = "default, max_time" if partition.default else "max_time"
    comment = "" if partition.max_time else f"   # guess: {guess}"
    return f"{quoted(partition.name)}: {{{', '.join(keys)}}}{comment}"


def _settings(settings: Mapping[str, str]) -> str:
    """Return settings of slurm.conf on one line; a plain number is bare."""
    return quoted({key: int(value) if _NUMBER.fullmatch(value) else value for key, value in settings.items()})


def node_keys(machine: SiteMachine) -> str:
    """Return the keys of a node that are Slurm's, to follow others."""
    keys = ""
    if machine.features:
        keys += f", features: {quoted(machine.features)}"
    if machine.weight is not None:
        keys += f", weight: {machine.weight}"
    return keys


# Driver and PyTorch of a first blueprint: the first offered versions that its GPUs support.
System = tuple[str, str]  # name and release of a distribution
_NO_PLACE: Loc = ()  # rules are checked before a blueprint exists


def pytorch_version(hardware: Sequence[HardwareChoice], system: System, catalog: Catalog) -> str | None:
    """Return the first build of PyTorch that the catalog pins for a distribution and its GPUs.

    Without GPUs, a distribution that has no pinned build brings its own package in place of Debian 12's version. None:
    there is neither.
    """
    vendors = {gpu.vendor for gpu in _models(hardware)}
    device = "cuda" if "nvidia" in vendors else "rocm" if "amd" in vendors else "cpu"
    systems = catalog.distributions
    builds = catalog.pytorch_builds(device, systems[system])
    if not builds and device == "cpu" and systems[system].pytorch:
        builds = catalog.pytorch_builds("cpu", systems["debian", "12"])
    return builds[0].version if builds else None


def present_driver(hardware: Sequence[HardwareChoice], system: System, catalog: Catalog) -> str | None:
    """Return `software.preinstalled` for these nodes: the oldest driver offered that all their GPUs run with.

    None: they have no GPUs of NVIDIA, or no driver is for all of them.
    """
    return _driver(hardware, _facts(hardware, system, catalog), ("", "open"))


def installed_driver(hardware: Sequence[HardwareChoice], system: System, catalog: Catalog) -> str | None:
    """Return `software.nvidia` for these nodes: the oldest driver that the distribution has for all their GPUs."""
    source = StatedComponent("source", archive_name(*system, nvidias=False), _NO_PLACE, installed=True)
    if any(chosen.nvswitch for chosen in hardware):
        return None  # the distribution lacks Fabric Manager
    return _driver(hardware, [*_facts(hardware, system, catalog), source], ("open", "closed"))


def _models(hardware: Iterable[HardwareChoice]) -> Iterator[Gpu]:
    yield from (chosen.choice.gpu for chosen in hardware if chosen.choice)


def _facts(hardware: Sequence[HardwareChoice], system: System, catalog: Catalog) -> list[StatedComponent]:
    """Return the facts that no choice of a driver changes: GPUs, NVSwitches, and the CUDA of the pinned PyTorch."""
    facts: list[tuple[Component, str]] = [
        ("gpu", gpu.architecture) for gpu in _models(hardware) if gpu.vendor == "nvidia" and gpu.architecture
    ]
    version = pytorch_version(hardware, system, catalog)
    build = catalog.pytorch_build(version, "cuda", catalog.distributions[system]) if version else None
    if build and build.cuda:
        facts.append(("pytorch_cuda", build.cuda))
    if any(chosen.nvswitch for chosen in hardware):
        facts += [("nvswitch", "true"), ("fabric_manager", MATCHED)]
    return [StatedComponent(component, value, _NO_PLACE, fixed=True) for component, value in facts]


def _driver(hardware: Sequence[HardwareChoice], facts: Sequence[StatedComponent], modules: Sequence[str]) -> str | None:
    if not any(gpu.vendor == "nvidia" for gpu in _models(hardware)):
        return None
    table = load_compatibility()
    installed = any(fact.installed for fact in facts)
    matched = any(fact.component == "fabric_manager" for fact in facts)
    for version in table.offered["driver"]:
        for kind in modules:
            stated: list[tuple[Component, str]] = [("driver", version)]
            stated += [("modules", kind)] if kind else []
            chosen = [StatedComponent(name, value, _NO_PLACE, installed=installed) for name, value in stated]
            if not any(is_error(broken) for broken in judge([*facts, *chosen], table.rules)):
                text = f'driver: "{version}"' + (f", modules: {kind}" if kind else "")
                return f"{{{text}{', fabric_manager: matched' if matched else ''}}}"
    return None


OF_MACHINES = "machines"  # the template for the machines of a file
_FUNCTIONS = ("head", "login", "storage", "worker")
_HEAD_AT, _WORKERS_AT = 10, 101  # offsets of the first addresses in the network
_KINDS = {"name": v.ClusterName, "domain": v.DomainName, "user": v.LoginName, "network": v.Cidr}


@dataclass(frozen=True)
class Answers:
    """Answers for a template. `network` is a CIDR; `workers` a number of nodes; `server` a model of the catalog."""

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
    hardware: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # the template's own servers
    fabric: TemplateFabric | None = None


def templates() -> dict[str, ClusterTemplate]:
    """Return the shipped templates by name."""
    files = resources.files(__package__).joinpath("templates").iterdir()
    return {template.name: template for template in sorted(map(_template, files), key=lambda template: template.name)}


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
    """Return the texts of a blueprint and of its inventory. `inventory`: the file's name, for the blueprint.

    `accounts` are the accounts of machines, if they were read.

    Raises `StarterError` for answers or machines without a valid blueprint.
    """
    _check(answers, template)
    machines: Sequence[SiteMachine] = site.machines if site else ()
    words: dict[str, object] = {**vars(answers), "inventory_file": quoted(inventory)}
    words |= slurm_words(site)
    words |= {"accounts": accounts or usual_accounts(answers.user), "become": become(answers.user)}
    if machines:
        networks, machines = with_networks(_with_head(machines), answers.network)
        words |= _machine_words(machines)
        boot = any("external" not in network for network in networks)
        prefix = answers.network_guessed
        words |= {"other_networks": networks, "boot": boot}
        words["network_guess"] = ", ".join(["boot"] * boot + ["the prefix length"] * prefix)
        words |= _access_words(site.access if site else SiteAccess(), answers.user, machines)
    else:
        width = max(2, len(str(answers.workers)))
        words["workers"] = fold(f"g{number:0{width}d}" for number in range(1, answers.workers + 1))
        words |= _server_words(template, answers.server)
    environment = Environment(  # noqa: S701 - YAML; answers are checked
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    text = environment.from_string(template.text).render(words)
    return text, _inventory(text, ipaddress.IPv4Network(answers.network), machines)


def _access_words(access: SiteAccess, user: str, machines: Sequence[SiteMachine]) -> dict[str, str]:
    """Describe the way in, and which parts are guesses: an account set by an option is not one."""
    guesses = [guess for guess in access.guesses if user == access.user or not guess.startswith("user")]
    become_word = become(user) if access.become else "none"
    return {"become": become_word, "via": way_in(access, user, machines), "access_guess": ", ".join(guesses)}


def become(user: str) -> Literal["sudo", "none"]:
    """Return how a login account becomes root."""
    return "none" if user == "root" else "sudo"


def _system(machines: Sequence[SiteMachine]) -> tuple[tuple[str, str], bool]:
    """Return the distribution of most machines, if hpcforge supports it, and whether that is sure; else Debian 12."""
    supported = load_catalog().distributions
    counts = Counter(machine.system for machine in machines if machine.system and machine.system in supported)
    for system, count in counts.most_common(1):
        return system, count == len(machines)
    return USUAL_SYSTEM, False


def _inventory(
    blueprint: str,
    network: ipaddress.IPv4Network,
    machines: Sequence[SiteMachine],
) -> str:
    """Write an inventory line for each node: the address that is known, or the next free one."""
    by_name = {machine.name: machine for machine in machines}
    nodes = yaml.load(blueprint, Loader=yaml.CSafeLoader)["nodes"]
    used = {address for machine in machines for address in (machine.address, machine.bmc) if address}
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
            machine = by_name.get(name, SiteMachine(name))
            pinned = machine.address
            address = pinned or next((address for address in free if address not in used), None)
            if address is None:
                raise StarterError(f"network: {network} has no address left for {name}", "choose a shorter prefix")
            used.add(address)
            shown = f", host_keys: {quoted(machine.host_keys)}" if machine.host_keys else ""
            shown += inventory_parts(machine)
            remarks = "; ".join((*([] if pinned else ["guess"]), *machine.remarks))
            lines.append(f"  {name}: {{address: {address}{shown}}}" + (f"   # {remarks}" if remarks else ""))
    return "\n".join(lines) + "\n"


def _with_head(machines: Sequence[SiteMachine]) -> list[SiteMachine]:
    """Add a head and a worker: by default, the first machine runs the services, and the head also jobs."""
    result = list(machines)
    for function, position in (("head", 0), ("worker", machines.index(guessed_head(machines)))):
        if not any(function in machine.functions for machine in result):
            chosen = result[position]
            functions = sorted((function, *chosen.functions), key=_FUNCTIONS.index)
            guesses = tuple(dict.fromkeys(("functions", *chosen.guesses)))
            result[position] = replace(chosen, functions=tuple(functions), guesses=guesses)
    return result


def _machine_words(machines: Sequence[SiteMachine]) -> dict[str, object]:
    catalog, (system, sure) = load_catalog(), _system(machines)
    hardware = {machine.name: machine_hardware(machine, catalog) for machine in machines}
    entries = {chosen.name: chosen.entry for chosen in hardware.values() if chosen.entry}
    nodes: list[str] = []
    for (functions, keys, name, guesses), group in groupby(
        machines,
        lambda machine: (
            machine.functions,
            node_keys(machine),
            hardware[machine.name].name,
            hardware[machine.name].guesses,
        ),
    ):
        comment = f"   # guess: {', '.join(guesses)}" if guesses else ""
        names = fold(machine.name for machine in group)
        nodes.append(f'"{names}": {{functions: [{", ".join(functions)}], hardware: {name}{keys}}}{comment}')
    every = list(hardware.values())
    return {
        "hardware": [f"{name}: {text}" for name, text in entries.items()] or ["{}"],
        "parts": [f"{name}: {text}" for name, text in own_models(chosen.choice for chosen in every if chosen.choice)],
        "nodes": nodes,
        "head": guessed_head(machines).name,
        "head_known": "functions" not in guessed_head(machines).guesses,
        "reserve": _reserve(machines),
        "container": next((machine.container for machine in machines if machine.container), ""),
        "gpus": any(chosen.choice for chosen in every),
        "driver": present_driver(every, system, catalog),
        "pytorch": pytorch_version(every, system, catalog),
        "os": system,
        "os_known": sure,
    }


def _server_words(template: ClusterTemplate, name: str) -> dict[str, object]:
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
    """Return the cores and memory reserved from jobs: 2 cores and 8 GiB, less where a worker has little."""
    workers = [machine for machine in machines if "worker" in machine.functions] or machines
    cores = min(
        (machine.sockets or 1) * (machine.cores_per_socket or USUAL_CPU["cores_per_socket"]) for machine in workers
    )
    memory_gib = min(machine.memory_gib or USUAL_CPU["memory_gib"] for machine in workers)
    return f"{{cores: {min(2, cores // 2)}, memory_gib: {min(8, memory_gib // 4)}}}"
