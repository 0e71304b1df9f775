"""The machines of a file that a site has (a hosts file, an Ansible inventory, slurm.conf), or their own facts. Pure.

Each reader takes the whole text and returns machines in the order of the file. What a file does not say is None, and
the draft marks its guess. Nothing of a file is evaluated: words that hpcforge does not know are skipped.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

import yaml

from hpcforge.blueprint.hostlist import HostlistError, expand
from hpcforge.blueprint.values import NODE_NAME
from hpcforge.errors import ExpectedError

Source = Literal["hosts", "ansible", "slurm"]
MOST_MACHINES = 10_000
_GRES = re.compile(r"(?:^|,)gpu(?::([A-Za-z0-9_.-]{1,40}))?(?::(\d{1,2}))?(?:\(|,|$)")
_HEADS = ("head", "master", "mgmt", "ctl", "controller", "slurmctld")
_LOGINS = ("login", "submit", "gateway")
_STORES = ("stor", "nfs", "nas", "oss", "mds")
_BY_ADDRESS = re.compile(r"node(-[0-9]{1,3}){4}")
_MOST: Mapping[str, int] = {  # as hardware of a blueprint may have
    "sockets": 16,
    "cores_per_socket": 512,
    "threads_per_core": 8,
    "memory_gib": 65_536,
    "gpus": 16,
}


class StarterError(ExpectedError):
    """A file of a site that has no machines, or answers that make no blueprint."""

    kind = "invalid"


@dataclass(frozen=True)
class FoundMachine:
    """What is known of a machine. Memory is in GiB; `guesses` names what the file did not say."""

    name: str
    address: str | None = None
    functions: tuple[str, ...] = ("worker",)
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    memory_gib: int | None = None
    gpu: str | None = None  # the type in the words of the file
    gpus: int = 0
    guesses: tuple[str, ...] = field(default=("functions",))
    host_keys: tuple[str, ...] = ()  # that the machine showed
    system: tuple[str, str] | None = None  # distribution and release


def source_of(text: str) -> Source:
    """Return which kind of file a text is."""
    for line in _lines(text):
        if re.match(r"(NodeName|ClusterName|SlurmctldHost)\s*=", line, re.IGNORECASE):
            return "slurm"
        if line.startswith("[") or line.endswith(":"):
            return "ansible"
    first = next(_lines(text), "").split()
    return "hosts" if first and _address(first[0]) else "ansible"


def read(text: str, source: Source | None = None) -> list[FoundMachine]:
    """Return the machines of a file. Raises `StarterError` where it has none, too many, or the same name twice."""
    kind = source or source_of(text)
    machines = list(islice(_READERS[kind](text), MOST_MACHINES + 1))
    if not machines:
        raise StarterError(f"no machine was found in this file, read as {kind}", "--from-format hosts|ansible|slurm")
    return checked(machines)


def checked(machines: list[FoundMachine]) -> list[FoundMachine]:
    """Return the machines. Raises `StarterError` for too many, a name that is not one, or the same name twice."""
    names = [machine.name for machine in machines]
    if len(machines) > MOST_MACHINES:
        raise StarterError(f"more than {MOST_MACHINES} machines")
    for name in names:
        if not re.fullmatch(NODE_NAME.pattern, name):
            raise StarterError(
                f"{name[:80]!r} is not a host name that a blueprint accepts", "lower-case letters, digits, -"
            )
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise StarterError(f"{twice} is there twice")
    return machines


def _by_address(address: str) -> str:
    return f"node-{address.replace('.', '-')}"


def distinct(machines: Sequence[FoundMachine]) -> list[FoundMachine]:
    """Machines of one name by their addresses: freshly installed ones are often all called `debian`."""
    times = Counter(machine.name for machine in machines)
    return [
        replace(machine, name=_by_address(machine.address)) if machine.address and times[machine.name] > 1 else machine
        for machine in machines
    ]


def of_facts(address: str, facts: Mapping[str, object], topology: str, host_keys: tuple[str, ...]) -> FoundMachine:
    """Return a machine as it describes itself; `topology` is the output of `lscpu --parse=SOCKET,CORE,CPU`.

    Raises `StarterError` for a description that no machine has.
    """
    name = str(facts.get("hostname", "")).partition(".")[0].lower()
    if not re.fullmatch(NODE_NAME.pattern, name) or _BY_ADDRESS.fullmatch(name):  # which may be another's address
        name = _by_address(address)
    rows = {tuple(line.split(",")[:3]) for line in topology.splitlines() if re.fullmatch(r"\d+,\d+,\d+", line)}
    sockets, cores = len({row[0] for row in rows}), len({row[:2] for row in rows})
    told = facts.get("nvml") or facts.get("amdgpu")
    models = [gpu["model"] for gpu in told["gpus"] if gpu["model"]] if isinstance(told, dict) else []
    counts = facts.get("gpus")
    counts = counts if isinstance(counts, dict) else {}
    system = str(facts.get("os_id", "")), str(facts.get("os_release", ""))
    machine = FoundMachine(
        name,
        address,
        _function(name, "") or ("worker",),
        sockets=sockets or None,
        cores_per_socket=cores // sockets if sockets else None,
        threads_per_core=max(1, len(rows) // cores) if cores else None,
        memory_gib=_installed_gib(_number(facts, "memory_kib")),
        gpu=models[0] if models else None,
        gpus=max(_number(counts, "nvidia"), _number(counts, "amd")),
        host_keys=host_keys,
        system=system if all(system) else None,
    )
    if not facts.get("memory_kib"):
        raise StarterError("it reports no memory")
    for what, most in _MOST.items():
        if not 0 <= (getattr(machine, what) or 0) <= most:
            raise StarterError(f"it reports {str(getattr(machine, what))[:40]} as {what}, and {most} is the most")
    return machine


def _number(facts: Mapping[str, object], name: str) -> int:
    value = facts.get(name, 0)
    if not isinstance(value, int):
        raise StarterError(f"it reports {str(value)[:40]!r} as {name}, which is no number")
    return value


def guessed_head(machines: Sequence[FoundMachine]) -> FoundMachine:
    """Return the machine that is the head by its name, else the first."""
    return next((machine for machine in machines if "head" in machine.functions), machines[0])


def with_head(machines: Sequence[FoundMachine], name: str) -> list[FoundMachine]:
    """Return the machines with the named one as their only head, which is no guess. Raises `StarterError`."""
    if name not in {machine.name for machine in machines}:
        raise StarterError(f"{name[:80]!r} is none of these machines")
    return [_as_head(machine) if machine.name == name else _as_other(machine) for machine in machines]


def _as_head(machine: FoundMachine) -> FoundMachine:
    functions = machine.functions if "head" in machine.functions else ("head", *machine.functions)
    return replace(machine, functions=functions, guesses=())


def _as_other(machine: FoundMachine) -> FoundMachine:
    functions = tuple(function for function in machine.functions if function != "head")
    return replace(machine, functions=functions or ("worker",))


def _hosts(text: str) -> Iterator[FoundMachine]:
    for line in _lines(text):
        address, *names = line.split()
        if _address(address) and names and not ipaddress.ip_address(address).is_loopback:
            yield _guessed(names[0].partition(".")[0].lower(), address)


def _ansible(text: str) -> Iterator[FoundMachine]:
    """An inventory in INI or YAML: hosts of all groups; a group's name says the functions of its hosts."""
    found: dict[str, tuple[str | None, tuple[str, ...] | None]] = {}
    for count, (name, address, group) in enumerate(_ansible_yaml(text) if _is_yaml(text) else _ansible_ini(text)):
        if len(found) > MOST_MACHINES or count > 20 * MOST_MACHINES:
            raise StarterError(f"more than {MOST_MACHINES} machines, or {20 * MOST_MACHINES} mentions of them")
        known = found.get(name, (None, None))
        found[name] = (address if address and _address(address) else known[0], known[1] or _function("", group))
    for name, (address, functions) in found.items():
        short = name.partition(".")[0].lower() if not _address(name) else f"node-{name.replace('.', '-')}"
        yield _guessed(short, address or (name if _address(name) else None), functions)


def _installed_gib(memory_kib: int) -> int:
    """The memory that a machine has, GiB: firmware keeps some, so that Linux reports less. Of little it is exact."""
    return -(-memory_kib >> 20) if memory_kib >= 8 << 20 else max(1, memory_kib >> 20)


def _is_yaml(text: str) -> bool:
    return not any(line.startswith("[") for line in _lines(text))


def _ansible_ini(text: str) -> Iterator[tuple[str, str | None, str]]:
    group = ""
    for line in _lines(text):
        if line.startswith("["):
            group = line.strip("[]")
        elif not group.endswith((":vars", ":children")):
            name, *words = line.split()
            values = dict(word.split("=", 1) for word in words if "=" in word)
            for host in _expanded(name):
                yield host, values.get("ansible_host"), group


def _ansible_yaml(text: str) -> Iterator[tuple[str, str | None, str]]:
    try:  # texts alone, whatever tags say; an alias may stand for endless many
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.CBaseLoader)):
            raise StarterError("its YAML has aliases (*name), which are not read here", "write what they stand for")
        tree = yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506 - which makes texts, lists and mappings alone
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise StarterError(f"it is not YAML: {' '.join(str(error).split())[:300]}") from error
    yield from _of_groups(tree, 0)


def _of_groups(groups: object, depth: int) -> Iterator[tuple[str, str | None, str]]:
    for group, content in (groups if isinstance(groups, dict) and depth < 20 else {}).items():
        body = content if isinstance(content, dict) else {}
        hosts = body.get("hosts")
        for name, values in (hosts if isinstance(hosts, dict) else {}).items():
            address = values.get("ansible_host") if isinstance(values, dict) else None
            for host in _expanded(str(name)):
                yield host, address if isinstance(address, str) else None, str(group)
        yield from _of_groups(body.get("children"), depth + 1)


def _slurm(text: str) -> Iterator[FoundMachine]:
    """NodeName lines, with `NodeName=DEFAULT`; SlurmctldHost becomes the head if it is not a node."""
    usual: dict[str, str] = {}
    names: set[str] = set()
    control: list[str] = []
    for line in _lines(text.replace("\\\n", " ")):
        words = {key.lower(): value for key, _, value in (word.partition("=") for word in line.split()) if value}
        if "slurmctldhost" in words:
            control.append(words["slurmctldhost"])
        if "nodename" not in words:
            continue
        if words["nodename"].upper() == "DEFAULT":
            usual.update(words)
            continue
        for machine in _of_slurm({**usual, **words}):
            names.add(machine.name)
            yield machine
    for host in control:
        name, _, address = host.lower().partition("(")
        if name not in names:
            place = address.rstrip(")")
            yield FoundMachine(name, place if _address(place) else None, ("head",), guesses=())


def _of_slurm(words: Mapping[str, str]) -> Iterator[FoundMachine]:
    names = _expanded(words["nodename"].lower())
    addresses = _expanded(words["nodeaddr"]) if "nodeaddr" in words else []
    gres = _GRES.search(words.get("gres", "").lower())
    memory = _whole(words.get("realmemory"))
    cpus, sockets, threads = (_whole(words.get(key)) for key in ("cpus", "sockets", "threadspercore"))
    cores = _whole(words.get("corespersocket"))
    if cores is None and cpus is not None:  # Slurm's own reading of a line with CPUs alone: one socket, one thread
        sockets, threads = sockets or 1, threads or 1
        cores = max(1, cpus // (sockets * threads))
    for number, name in enumerate(names):
        yield FoundMachine(
            name,
            addresses[number] if number < len(addresses) and _address(addresses[number]) else None,
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            memory_gib=None if memory is None else max(1, memory // 1024),
            gpu=gres[1] if gres else None,
            gpus=int(gres[2] or 1) if gres else 0,
            guesses=(),
        )


def _guessed(name: str, address: str | None, functions: tuple[str, ...] | None = None) -> FoundMachine:
    """A machine whose function follows from its name, else from its groups."""
    return FoundMachine(name, address, _function(name, "") or functions or ("worker",))


def _function(name: str, group: str) -> tuple[str, ...] | None:
    for functions, words in ((("head",), _HEADS), (("login",), _LOGINS), (("storage",), _STORES)):
        if name.startswith(words) or any(word in group.lower() for word in words):
            return functions
    return None


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if stripped := line.partition("#")[0].strip():
            yield stripped


def _expanded(name: str) -> list[str]:
    """Names of a hostlist. `w[01:04]` is Ansible's way to write `w[01-04]`."""
    try:
        return list(expand(re.sub(r"\[(\d{1,9}):(\d{1,9})\]", r"[\1-\2]", name)))
    except HostlistError:
        return [name]


def _address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 12 else None


_READERS: Mapping[Source, Callable[[str], Iterator[FoundMachine]]] = {
    "hosts": _hosts,
    "ansible": _ansible,
    "slurm": _slurm,
}
