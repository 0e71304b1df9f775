"""All rehearsals of this machine, and which blueprint each was made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcforge.lab import host, state
from hpcforge.lab.errors import LabError
from hpcforge.lab.kinds import KINDS
from hpcforge.lab.places import lab_names


@dataclass(frozen=True)
class Listed:
    """A rehearsal: its blueprint, which of its nodes run, since when (seconds since 1970, UTC), and its saves."""

    name: str
    blueprint: str | None
    running: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    since_s: float | None = None  # that the first of those that run was started
    saves: tuple[str, ...] = ()
    problem: str | None = None  # why no more is known


def listed() -> tuple[Listed, ...]:
    """Return all rehearsals of this machine, of all users. Raises `LabError` without root."""
    host.require_root()
    started_s = {machine: at_s for kind in KINDS.values() for machine, at_s in kind.started_s().items()}
    found = []
    for name in lab_names():
        try:
            lab = state.read(name)
        except LabError as error:
            found.append(Listed(name, None, problem=str(error)))
            continue
        if lab is not None:
            found.append(_listed(lab, started_s))
    return tuple(found)


def blueprint_of(name: str) -> Path | None:
    """The blueprint that a rehearsal was made from, or grown from last; None where that cannot be read."""
    return next((Path(one.blueprint) for one in listed() if one.name == name and one.blueprint), None)


def of_blueprint(blueprint: Path) -> list[str]:
    """The rehearsals that were made from a blueprint."""
    where = str(blueprint.resolve())
    return [one.name for one in listed() if one.blueprint == where]


def _listed(lab: state.Lab, started_s: dict[str, float]) -> Listed:
    up = {node.name: started_s[machine] for node in lab.nodes if (machine := lab.machine(node.name)) in started_s}
    return Listed(
        lab.name,
        lab.blueprint,
        running=tuple(node.name for node in lab.nodes if node.name in up),
        stopped=tuple(node.name for node in lab.nodes if node.name not in up),
        since_s=min(up.values(), default=None),
        saves=tuple(save.name for save in lab.saves),
    )
