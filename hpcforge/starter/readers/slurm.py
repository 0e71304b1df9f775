"""slurm.conf: nodes, partitions and the controller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hpcforge.starter.machines import SiteFile, SiteMachine
from hpcforge.starter.readers.words import Beside, at_most, expanded, is_address, lines, whole

_GRES = re.compile(r"(?:^|,)gpu(?::([A-Za-z0-9_.-]{1,40}))?(?::(\d{1,2}))?(?:\(|,|$)")


def read_slurm(text: str, beside: Beside | None) -> SiteFile:  # noqa: ARG001 - for Include
    """Return what slurm.conf says. slurm.conf(5) of 24.11 names its parameters."""
    return SiteFile(at_most(_slurm(text)))


def _slurm(text: str) -> Iterator[SiteMachine]:
    """NodeName lines, with `NodeName=DEFAULT`; SlurmctldHost becomes the head if it is not a node."""
    usual: dict[str, str] = {}
    names: set[str] = set()
    control: list[str] = []
    for _, line in lines(text.replace("\\\n", " ")):
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
            yield SiteMachine(name, place if is_address(place) else None, ("head",), guesses=())


def _of_slurm(words: Mapping[str, str]) -> Iterator[SiteMachine]:
    names = expanded(words["nodename"].lower())
    addresses = expanded(words["nodeaddr"]) if "nodeaddr" in words else []
    gres = _GRES.search(words.get("gres", "").lower())
    memory = whole(words.get("realmemory"))
    cpus, sockets, threads = (whole(words.get(key)) for key in ("cpus", "sockets", "threadspercore"))
    cores = whole(words.get("corespersocket"))
    if cores is None and cpus is not None:  # Slurm's own reading of a line with CPUs alone: one socket, one thread
        sockets, threads = sockets or 1, threads or 1
        cores = max(1, cpus // (sockets * threads))
    for number, name in enumerate(names):
        yield SiteMachine(
            name,
            addresses[number] if number < len(addresses) and is_address(addresses[number]) else None,
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            memory_gib=None if memory is None else max(1, memory // 1024),
            gpu=gres[1] if gres else None,
            gpus=int(gres[2] or 1) if gres else 0,
            guesses=(),
        )
