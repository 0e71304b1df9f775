"""What one machine takes at its inlets, at maximum, and from which parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hpcforge.blueprint.hardware import GpusSection, Server
from hpcforge.blueprint.values import counted
from hpcforge.catalog import Catalog
from hpcforge.design.facility.design import PartPower


@dataclass(frozen=True)
class Watts:
    """A machine's power, W; None where a part of it is not known: `missing` says which."""

    node_w: float | None
    origin: str
    parts: tuple[PartPower, ...]
    missing: tuple[str, ...] = ()

    @property
    def least_w(self) -> float:
        """Return the power, or where it is not known that of its known parts: it takes no less."""
        return sum(part.total_w or 0.0 for part in self.parts) if self.node_w is None else self.node_w


def watts(server: Server, gpus: GpusSection | None, catalog: Catalog) -> Watts:
    """Return the power of a server with these GPUs.

    `max_w` is a maker's figure for the machine with the GPUs it comes with: other GPUs change it by their own power
    divided by the supplies' efficiency. Without it, the sum of all parts is divided by that efficiency.
    """
    parts = tuple(_parts(server, gpus, catalog))
    if server.max_w is not None:
        return _published(server.max_w, server, gpus, catalog, parts)
    efficiency = server.psu.efficiency if server.psu else None
    missing = tuple(_missing(server, parts, efficiency))
    if missing or efficiency is None:
        return Watts(None, "not known", parts, missing)
    total = sum(part.total_w or 0.0 for part in parts) / efficiency
    return Watts(total, f"sum of parts / efficiency {efficiency:g}", parts)


def _missing(server: Server, parts: Iterable[PartPower], efficiency: float | None) -> Iterator[str]:
    unknown = [part.name for part in parts if part.total_w is None]
    if server.cpu is None or server.sockets is None:
        yield "processor"
    if server.other_w is None:
        yield "other_w"
    yield from unknown
    if efficiency is None:
        yield "psu.efficiency"


def _published(
    max_w: float, server: Server, gpus: GpusSection | None, catalog: Catalog, parts: tuple[PartPower, ...]
) -> Watts:
    if gpus == server.gpus:
        return Watts(max_w, "max_w", parts)
    old, new = _gpu_w(server.gpus, catalog), _gpu_w(gpus, catalog)
    efficiency = server.psu.efficiency if server.psu else None
    if old is not None and new is not None and efficiency is not None:
        origin = f"max_w, other GPUs: {new - old:+,.0f} W / efficiency {efficiency:g}"
        return Watts(max_w + (new - old) / efficiency, origin, parts)
    fewer = server.gpus and (gpus is None or (gpus.model == server.gpus.model and gpus.count < server.gpus.count))
    if fewer:
        return Watts(max_w, "max_w, although it has fewer GPUs", parts)
    missing = [(gpus or server.gpus, new), (server.gpus, old)]
    names = dict.fromkeys(gpu.model for gpu, known in missing if gpu and known is None)
    return Watts(None, "not known", parts, (*names, *(() if efficiency else ("psu.efficiency",))))


def _gpu_w(gpus: GpusSection | None, catalog: Catalog) -> float | None:
    if gpus is None:
        return 0.0
    each = catalog.gpus[gpus.model].tdp_w if gpus.model in catalog.gpus else None
    return None if each is None else each * gpus.count


def _parts(server: Server, gpus: GpusSection | None, catalog: Catalog) -> Iterator[PartPower]:
    if server.cpu and server.sockets:
        cpu = catalog.cpus.get(server.cpu)
        yield _part(server.cpu, server.sockets, cpu.tdp_w if cpu else None)
    if gpus:
        gpu = catalog.gpus.get(gpus.model)
        yield _part(gpus.model, gpus.count, gpu.tdp_w if gpu else None)
    for count, model in map(counted, server.nics):
        nic = catalog.nics.get(model)
        yield _part(model, count, nic.max_w if nic else None)
    for count, model in map(counted, server.nvme):
        drive = catalog.drives.get(model)
        yield _part(model, count, drive.max_w if drive else None)
    if server.other_w is not None:
        yield _part("board, memory, fans", 1, server.other_w)


def _part(name: str, count: int, each_w: float | None) -> PartPower:
    return PartPower(name, count, each_w, None if each_w is None else each_w * count)
