"""The input of a draft: machines, and the other data in a site's files. Pure.

What nothing says is None, and the draft marks its guess.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic_core import PydanticCustomError

from hpcforge.blueprint.values import NODE_NAME
from hpcforge.errors import ExpectedError

MOST_MACHINES = 10_000
ALL = ("all",)  # nodes of a partition with all workers
USUAL_SYSTEM = ("debian", "12")  # default for machines without a known distribution
_HEADS = (
    "head",
    "master",
    "mgmt",
    "mgt",
    "ctl",
    "control",
    "slurmctld",
    "admin",
    "sms",
    "xcat",
    "frontend",
    "warewulf",
)
_LOGINS = ("login", "submit", "gateway")
_STORES = ("stor", "nfs", "nas", "oss", "mds")
_LONGEST_NOTE = 200  # characters, in an inventory
_BY_ADDRESS = re.compile(r"node(-[0-9]{1,3}){4}")
_MOST: Mapping[str, int] = {  # limits of hardware in a blueprint
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
class SiteMachine:
    """The known facts of a machine. Memory is in GiB; `guesses` names facts that the file lacks."""

    name: str
    address: str | None = None
    functions: tuple[str, ...] = ("worker",)
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    memory_gib: int | None = None
    gpu: str | None = None  # the model in the file's words
    gpus: int = 0
    guesses: tuple[str, ...] = field(default=("functions",))
    host_keys: tuple[str, ...] = ()  # keys that the machine showed
    system: tuple[str, str] | None = None  # distribution and release
    addresses: Mapping[str, str] = field(default_factory=dict)  # on other networks, by the file's name for each
    bmc: str | None = None  # address of its management controller
    mac: str | None = None
    serial: str | None = None
    note: str | None = None  # other names and comments, for people
    features: tuple[str, ...] = ()
    weight: int | None = None
    network: str | None = None  # the network of its address, by its own configuration
    container: str = ""  # kind of the container; "": a machine of its own
    remarks: tuple[str, ...] = ()  # comments for the inventory


@dataclass(frozen=True)
class SitePartition:
    """A partition of slurm.conf. `settings` are its other parameters, as slurm.conf writes them."""

    name: str
    nodes: tuple[str, ...]
    default: bool = False
    max_time: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteAccess:
    """The login of a site; `via` is a jump host as `user@address` or an address. `guesses` names uncertain facts."""

    user: str | None = None
    via: str | None = None
    become: bool = True
    guesses: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A part of a file that a draft lacks. `line` counts from 1, 0: no line; `file`: another file than the first."""

    line: int
    text: str
    reason: str
    file: str | None = None


@dataclass(frozen=True)
class SiteFile:
    """The content of a site's file: machines in its order, and everything else that a blueprint has a place for."""

    machines: tuple[SiteMachine, ...]
    cluster: str | None = None
    partitions: tuple[SitePartition, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)  # further keys of slurm.conf
    access: SiteAccess = SiteAccess()
    left_out: tuple[LeftOut, ...] = ()
    domain: str | None = None  # domain of the machines' names


def note_of(texts: Iterable[str]) -> str | None:
    """Return texts as the note of a machine in an inventory, in one line; None without any."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", "; ".join(filter(None, texts)))
    return None if not text else text if len(text) <= _LONGEST_NOTE else f"{text[: _LONGEST_NOTE - 3]}..."


def checked(machines: list[SiteMachine]) -> list[SiteMachine]:
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


def _node_name(hostname: str) -> str | None:
    """Return a hostname as a node name; None where it names several machines, or may be the address of another."""
    name = hostname.lower().replace("_", "-").strip("-")
    try:
        NODE_NAME.check(name)
    except PydanticCustomError:
        return None
    return None if name == "localhost" or _BY_ADDRESS.fullmatch(name) else name


def _printable(hostname: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "?", hostname)[:63] or "none"


def _by_address(address: str) -> str:
    return f"node-{address.replace('.', '-')}"


def distinct(machines: Sequence[SiteMachine]) -> list[SiteMachine]:
    """Machines of one name by their addresses: freshly installed ones are often all called `debian`."""
    times = Counter(machine.name for machine in machines)
    return [
        _renamed(machine, machine.address) if machine.address and times[machine.name] > 1 else machine
        for machine in machines
    ]


def _renamed(machine: SiteMachine, address: str) -> SiteMachine:
    guesses = [guess for guess in machine.guesses if not guess.startswith("name")]
    return replace(machine, name=_by_address(address), guesses=(*guesses, f"name, for {machine.name}"))


def of_facts(address: str, facts: Mapping[str, object], topology: str, host_keys: tuple[str, ...]) -> SiteMachine:
    """Return a machine as it describes itself; `topology` is the output of `lscpu --parse=SOCKET,CORE,CPU`.

    Raises `StarterError` for a description that no machine has.
    """
    hostname = str(facts.get("hostname", "")).partition(".")[0]
    name = _node_name(hostname) or _by_address(address)
    rows = {tuple(line.split(",")[:3]) for line in topology.splitlines() if re.fullmatch(r"\d+,\d+,\d+", line)}
    sockets, cores = len({row[0] for row in rows}), len({row[:2] for row in rows})
    gpu_report = facts.get("nvml") or facts.get("amdgpu")
    models = [gpu["model"] for gpu in gpu_report["gpus"] if gpu["model"]] if isinstance(gpu_report, dict) else []
    counts = facts.get("gpus")
    counts = counts if isinstance(counts, dict) else {}
    system = str(facts.get("os_id", "")), str(facts.get("os_release", ""))
    machine = SiteMachine(
        name,
        address,
        functions_by_name(name, "") or ("worker",),
        sockets=sockets or None,
        cores_per_socket=cores // sockets if sockets else None,
        threads_per_core=max(1, len(rows) // cores) if cores else None,
        memory_gib=_installed_gib(_number(facts, "memory_kib")),
        gpu=models[0] if models else None,
        gpus=max(_number(counts, "nvidia"), _number(counts, "amd")),
        guesses=("functions",) if name == hostname.lower() else ("functions", f"name, for {_printable(hostname)}"),
        host_keys=host_keys,
        system=system if all(system) else None,
    )
    if not facts.get("memory_kib"):
        raise StarterError("it reports no memory")
    for fact, most in _MOST.items():
        if not 0 <= (getattr(machine, fact) or 0) <= most:
            raise StarterError(f"it reports {str(getattr(machine, fact))[:40]} as {fact}, and {most} is the most")
    return machine


def _number(facts: Mapping[str, object], name: str) -> int:
    value = facts.get(name, 0)
    if not isinstance(value, int):
        raise StarterError(f"it reports {str(value)[:40]!r} as {name}, which is not a number")
    return value


def guessed_head(machines: Sequence[SiteMachine]) -> SiteMachine:
    """Return the machine that is the head by its name, else the first."""
    return next((machine for machine in machines if "head" in machine.functions), machines[0])


def with_head(machines: Sequence[SiteMachine], name: str) -> list[SiteMachine]:
    """Return the machines with the named one as only head, marked as certain. Raises `StarterError`."""
    if name not in {machine.name for machine in machines}:
        raise StarterError(f"{name[:80]!r} is not among these machines")
    return [_as_head(machine) if machine.name == name else _without_head(machine) for machine in machines]


def _as_head(machine: SiteMachine) -> SiteMachine:
    functions = machine.functions if "head" in machine.functions else ("head", *machine.functions)
    return replace(machine, functions=functions, guesses=tuple(sorted({*machine.guesses} - {"functions"})))


def _without_head(machine: SiteMachine) -> SiteMachine:
    functions = tuple(function for function in machine.functions if function != "head")
    return replace(machine, functions=functions or ("worker",))


def _installed_gib(memory_kib: int) -> int:
    """Return the installed memory, GiB: Linux reports less, without the firmware's part. Small sizes are exact."""
    return -(-memory_kib >> 20) if memory_kib >= 8 << 20 else max(1, memory_kib >> 20)


def functions_by_name(name: str, group: str) -> tuple[str, ...] | None:
    """Return what a machine is for by its own name, else by its group's; None if neither says so."""
    for functions, words in ((("head",), _HEADS), (("login",), _LOGINS), (("storage",), _STORES)):
        ends = re.split(r"[-_.]", name.rstrip("0123456789"))[1:]  # demo-login-0, demo-control; not node01-mgmt
        by_ending = set(ends) & set(words) and not re.match(r"[a-z]+\d", name)
        if name.startswith(words) or by_ending or any(word in group.lower() for word in words):
            return functions
    return None
