"""All rehearsals of this machine, with their blueprints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcforge.host.commands import require_root
from hpcforge.lab import state
from hpcforge.lab.errors import LabError
from hpcforge.lab.kinds import KINDS
from hpcforge.lab.names import lab_names


@dataclass(frozen=True)
class ListedRehearsal:
    """A rehearsal: its blueprint, its running nodes, their first start (seconds since 1970, UTC), and its saves."""

    name: str
    blueprint: str | None
    running: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    since_s: float | None = None  # start of the first running node
    saves: tuple[str, ...] = ()
    problem: str | None = None  # the reason why no more is known


def listed() -> tuple[ListedRehearsal, ...]:
    """Return all rehearsals of this machine, of all users. Raises `LabError` without root."""
    require_root()
    started_s = {machine: at_s for kind in KINDS.values() for machine, at_s in kind.started_s().items()}
    rehearsals = []
    for name in lab_names():
        try:
            lab = state.read(name)
        except LabError as error:
            rehearsals.append(ListedRehearsal(name, None, problem=str(error)))
            continue
        if lab is not None:
            rehearsals.append(_listed(lab, started_s))
    return tuple(rehearsals)


def blueprint_of(name: str) -> Path | None:
    """Return the blueprint that a rehearsal was last made or extended from; None if it cannot be read."""
    return next((Path(lab.blueprint) for lab in listed() if lab.name == name and lab.blueprint), None)


def known_names(blueprint: Path) -> list[str]:
    """Return the rehearsals of a blueprint."""
    path = str(blueprint.resolve())
    return [lab.name for lab in listed() if lab.blueprint == path]


def _listed(lab: state.Lab, started_s: dict[str, float]) -> ListedRehearsal:
    up = {node.name: started_s[machine] for node in lab.nodes if (machine := lab.machine(node.name)) in started_s}
    return ListedRehearsal(
        lab.name,
        lab.blueprint,
        running=tuple(node.name for node in lab.nodes if node.name in up),
        stopped=tuple(node.name for node in lab.nodes if node.name not in up),
        since_s=min(up.values(), default=None),
        saves=tuple(save.name for save in lab.saves),
    )
