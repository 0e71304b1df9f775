"""The hardware of a first blueprint, chosen from the catalog; guesses are named. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from hpcforge.blueprint.sections.hardware import Gpu, GpusSection, Server, inherit
from hpcforge.catalog import Catalog
from hpcforge.design.facility.rules import MIN_MEMORY_GIB
from hpcforge.starter.gpus import GpuChoice, gpu_choices
from hpcforge.starter.machines import SiteMachine, StarterError

USUAL_CPU = {"sockets": 2, "cores_per_socket": 32, "threads_per_core": 2, "memory_gib": 256}
_USUAL_GPU = {"pcie": "l40s", "sxm4": "a100-80", "sxm5": "h100-sxm", "sxm6": "b200-sxm", "oam": "mi300x"}
_SHOWN_BY = {"memory_gib": "free -g", "gpus": "nvidia-smi", "nvswitch": "nvidia-smi -q", "nics": "lspci"}
_BOARD = 8  # GPUs of a board with NVSwitches
_SWITCHED = ("sxm4", "sxm5", "sxm6")  # form factors of such boards
_MANY = 64  # slots, if their number is not known
_WIDE_LANES, _CARD_LANES = 16, 8
_FIRMWARE_SHARE = 0.03  # part of a machine's memory that Linux, and so slurm.conf, does not count


@dataclass(frozen=True)
class HardwareChoice:
    """Hardware of some nodes: its name, the text of its entry ("": the catalog has it), and what was guessed."""

    name: str
    entry: str
    guesses: tuple[str, ...] = ()
    choice: GpuChoice | None = None
    nvswitch: bool = False


@dataclass(frozen=True)
class TemplateFabric:
    """The fabric that a template's text has. `links`: of a node; 0: one for each GPU."""

    kind: str
    rate_gbps: float
    switch: str
    slower_switch: str
    adapter: str
    links: int = 0


@dataclass(frozen=True)
class FabricPorts:
    """A server's connection to a fabric: links and rate, the switch, and adapters that it needs."""

    links: int
    rate_gbps: float
    switch: str
    adapters: str = ""


def machine_hardware(machine: SiteMachine, catalog: Catalog) -> HardwareChoice:
    """Return the hardware of a machine of a file. Raises `StarterError` for numbers that no node may have."""
    values = {name: getattr(machine, name) or usual for name, usual in USUAL_CPU.items()}
    _check(machine, values)
    guesses = [*machine.guesses, *(["hardware"] if any(getattr(machine, name) is None for name in USUAL_CPU) else [])]
    facts = ", ".join(f"{name}: {value}" for name, value in values.items())
    size = f"{values['sockets']}x{values['cores_per_socket']}x{values['threads_per_core']}-{values['memory_gib']}"
    small = values["memory_gib"] < MIN_MEMORY_GIB
    guesses += ["virtual machine"] if small else []
    if not machine.gpus:
        shape = "generic-vm" if small else "generic-2u"
        return HardwareChoice(f"cpu-{size}", f"{{like: {shape}, {facts}}}", tuple(guesses))
    choices = gpu_choices(machine.gpu or "", catalog)
    if exact := _exact_server(machine, choices, catalog):
        name, choice = exact
        guesses += [] if choice.sure else ["GPU model"]
        return HardwareChoice(name, "", tuple(guesses), choice, bool(catalog.servers[name].nvswitch))
    fitting = ((choice, chassis_for(choice.gpu, machine.gpus, catalog)) for choice in choices)
    choice, chassis = next((pair for pair in fitting if pair[1]), (choices[0], None))
    chassis = "generic-vm" if small else chassis
    guesses += [] if choice.sure else ["GPU model"]
    guesses += [] if small else ["chassis" if chassis else "the catalog has no chassis for these GPUs"]
    switched = _nvswitch(choice.gpu, machine.gpus, catalog.servers[chassis] if chassis else None)
    inside = f"gpus: {{model: {choice.model}, count: {machine.gpus}}}" + (", nvswitch: true" if switched else "")
    entry = f"{{{f'like: {chassis}, ' if chassis else ''}{facts}, {inside}}}"
    return HardwareChoice(f"gpu-{machine.gpus}x-{choice.model[:30]}-{size}", entry, tuple(guesses), choice, switched)


def _check(machine: SiteMachine, values: Mapping[str, int]) -> None:
    try:
        Server.model_validate(values)
        if machine.gpus:
            GpusSection.model_validate({"model": "any", "count": machine.gpus})
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        fact, value = first["loc"][0], str(first["input"])[:40]
        message = f"{machine.name}: {fact} is {value}, and a blueprint takes: {first['msg']}"
        raise StarterError(message, "correct the number in the file that names this machine") from error


def _exact_server(machine: SiteMachine, choices: Sequence[GpuChoice], catalog: Catalog) -> tuple[str, GpuChoice] | None:
    """Return the first server of the catalog with these GPUs and with the machine's processors and memory."""
    by_model = {choice.model: choice for choice in choices}
    for name, server in catalog.servers.items():
        fits = server.gpus and server.gpus.model in by_model and server.gpus.count == machine.gpus
        if server.gpus and fits and _agrees(machine, server):
            return name, by_model[server.gpus.model]
    return None


def _agrees(machine: SiteMachine, server: Server) -> bool:
    """Return whether a model with all facts has the processors that a file states, and about its memory."""
    facts = (server.sockets, server.cores_per_socket, server.threads_per_core, server.memory_gib)
    processors = ("sockets", "cores_per_socket", *(() if "threads" in machine.guesses else ("threads_per_core",)))
    same = all(getattr(machine, name) in (None, getattr(server, name)) for name in processors)
    modelled, stated = server.memory_gib, machine.memory_gib
    memory = stated is None or modelled is None or modelled * (1 - _FIRMWARE_SHARE) <= stated <= modelled
    return None not in facts and same and memory


def chassis_for(gpu: Gpu, count: int, catalog: Catalog) -> str | None:
    """Return a server that takes the form factor, cooling and number of GPUs; one without GPUs of its own first."""
    if gpu.form_factor is None:
        return None
    takes = [
        name
        for name, server in catalog.servers.items()
        if gpu.form_factor in (server.gpu_form_factors or ())
        and server.nvlink_domain is None  # a blueprint must have its racks
        and (gpu.cooling is None or server.gpu_cooling is None or gpu.cooling in server.gpu_cooling)
        and (server.gpus_max is None or count <= server.gpus_max)
        and (gpu.form_factor != "pcie" or count <= _free_slots(server, _WIDE_LANES, 0))
    ]
    empty = [name for name in takes if catalog.servers[name].gpus is None]
    return next(iter(empty or takes), None)


def _free_slots(server: Server, lanes: int, cards: int) -> int:
    """PCIe slots of at least so many lanes beside some cards; many where they are not known."""
    if server.pcie_slots is None:
        return _MANY
    return max(0, sum(slot.count for slot in server.pcie_slots if slot.lanes >= lanes) - cards)


def _nvswitch(gpu: Gpu, count: int, server: Server | None) -> bool:
    """Return whether NVSwitches connect these GPUs: as the catalog has it, else as on boards of eight."""
    if server is not None and server.nvswitch is not None:
        return server.nvswitch
    return gpu.vendor == "nvidia" and gpu.form_factor in _SWITCHED and count == _BOARD


def server_hardware(
    name: str, own: Mapping[str, object], fabric: TemplateFabric | None, catalog: Catalog
) -> tuple[HardwareChoice, Server, FabricPorts | None]:
    """Return the hardware of a template's workers, its facts with those guessed, and how it joins the fabric.

    `own`: the entry of a server that the template describes itself, {} for one of the catalog.
    """
    server = inherited(own, catalog) if own else catalog.servers[name]
    guessed: dict[str, object] = {fact: usual for fact, usual in USUAL_CPU.items() if getattr(server, fact) is None}
    choice, count = _gpus(server, catalog)
    if choice is not None and server.gpus is None:
        guessed["gpus"] = {"model": choice.model, "count": count}
    switched = choice is not None and _nvswitch(choice.gpu, count, server)
    if switched and server.nvswitch is None:
        guessed["nvswitch"] = "true"
    ports = _ports(server, choice, count, fabric) if fabric else None
    if ports and ports.adapters:
        guessed["nics"] = [*server.nics, ports.adapters]
    entered = own or ({"like": name} if guessed else {})
    head = "   # your server: compare with `lscpu`, `free -g` and `nvidia-smi` on one" if own else ""
    entry = head + "".join(f"\n    {line}" for line in _lines(entered, guessed)) if entered else ""
    full = server.model_copy(update={fact: value for fact, value in guessed.items() if fact in USUAL_CPU})
    return HardwareChoice(name, entry, tuple(guessed), choice, switched), full, ports


def inherited(entry: Mapping[str, object], catalog: Catalog) -> Server:
    """Return an entry of `hardware` with the facts of the model that it is like."""
    server = Server.model_validate(entry)
    return inherit(server, catalog.servers[server.like]) if server.like else server


def _lines(entered: Mapping[str, object], guessed: Mapping[str, object]) -> Iterator[str]:
    for fact, value in entered.items():
        yield f"{fact}: {_flow(value)}"
    for fact, value in guessed.items():
        yield f"{fact}: {_flow(value)}   # guess: compare with `{_SHOWN_BY.get(fact, 'lscpu')}` on one"


def _flow(value: object) -> str:
    """Write a value as YAML on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(item)}' for key, item in value.items())}}}"
    return f"[{', '.join(map(_flow, value))}]" if isinstance(value, list) else str(value)


def _gpus(server: Server, catalog: Catalog) -> tuple[GpuChoice | None, int]:
    """Return the GPUs of a server, else usual ones that it takes; None: it takes none."""
    if server.gpus is not None:
        return GpuChoice(server.gpus.model, catalog.gpus[server.gpus.model]), server.gpus.count
    if not (server.gpus_max or (server.gpus_max is None and server.gpu_form_factors)):
        return None, 0
    board = server.gpus_max == _BOARD
    forms = server.gpu_form_factors or (("sxm5",) if board else ("pcie",))
    model = next((_USUAL_GPU[form] for form in forms if form in _USUAL_GPU), _USUAL_GPU["pcie"])
    usual = _BOARD if catalog.gpus[model].form_factor != "pcie" else _BOARD // 2
    return GpuChoice(model, catalog.gpus[model], sure=False), server.gpus_max or usual


def _ports(server: Server, choice: GpuChoice | None, count: int, fabric: TemplateFabric) -> FabricPorts:
    """Return a server's connection to a fabric: at the fabric's rate, at its own ports' rate, or with adapters."""
    links = fabric.links or max(1, count)
    usual = FabricPorts(links, fabric.rate_gbps, fabric.switch)
    if server.machine != "metal" or server.ports is None or server.nics:
        return usual
    fast = [port for port in server.ports if port.kind in (fabric.kind, "either", None) and port.rate_gbps >= 100]
    if sum(port.count for port in fast if port.rate_gbps >= fabric.rate_gbps) >= links:
        return usual
    if fast:
        best = max(fast, key=lambda port: (port.count, port.rate_gbps))
        return FabricPorts(min(links, best.count), best.rate_gbps, fabric.slower_switch)
    cards = count if choice and choice.gpu.form_factor == "pcie" else 0
    links = max(1, min(links, _free_slots(server, _CARD_LANES, cards)))
    return replace(usual, links=links, adapters=f"{links} x {fabric.adapter}")
