"""Choose the rehearsal: by its blueprint, in any working directory.

`--lab NAME` (or HPCFORGE_LAB) names a rehearsal; else a blueprint (or HPCFORGE_BLUEPRINT) does: its path gives the name
of its rehearsal. Without either, verbs that remove nothing use the only rehearsal on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcforge.cli.completion import IN_ENVIRONMENT
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.host.commands import require_root
from hpcforge.lab import lab as labs
from hpcforge.lab.listing import blueprint_of, known_names
from hpcforge.lab.names import default_lab_name


@dataclass(frozen=True)
class RehearsalName:
    """The name of a rehearsal on the command line."""

    blueprint: Path | None
    lab: str | None

    @property
    def name(self) -> str | None:
        """Its name; None without a blueprint or --lab."""
        return self.lab or (default_lab_name(self.blueprint) if self.blueprint else None)

    def typed(self, verb: str, *words: object) -> str:
        """Return a command line for the rehearsal, with the same name."""
        blueprint = [self.blueprint] if self.blueprint and self.lab is None else []
        return command_line("rehearse", verb, *blueprint, *words, lab=self.lab)

    def up(self) -> str:
        """Return the command that starts it."""
        return command_line("rehearse", "up", self.blueprint or "BLUEPRINT", lab=self.lab)


def refer_to(blueprint: Path, lab: str) -> RehearsalName:
    """Return the shortest name for the rehearsal `lab`: its blueprint alone, if it has the blueprint's default name."""
    return RehearsalName(blueprint, None if lab == default_lab_name(blueprint) else lab)


def parted(words: Sequence[str], lab: str | None) -> tuple[RehearsalName, list[str]]:
    """Split `[BLUEPRINT] WORD...` into the rehearsal and the other words. A blueprint ends in .yaml or .yml."""
    if words and words[0].endswith((".yaml", ".yml")):
        return RehearsalName(Path(words[0]), lab), list(words[1:])
    blueprint = os.environ.get(IN_ENVIRONMENT)
    return RehearsalName(Path(blueprint) if blueprint else None, lab), list(words)


def take(words: list[str], least: int, most: int | None) -> list[str]:
    """Return the words behind a blueprint; check their number."""
    if len(words) < least or (most is not None and len(words) > most):
        problem = (
            f"unexpected argument {words[most]!r}"
            if most is not None and len(words) > most
            else "an argument is missing"
        )
        raise UsageError(problem, "a blueprint comes first and ends in .yaml; --help shows the other arguments")
    return words


def one_of_all(rehearsal: RehearsalName) -> str:
    """Return the name of the selected rehearsal, or of the only one. Raises `UsageError`."""
    if rehearsal.name is not None:
        return rehearsal.name
    require_root()
    names = labs.lab_names()
    if not names:
        raise UsageError("this machine has no rehearsal", f"start one: {command_line('rehearse', 'up', 'BLUEPRINT')}")
    if len(names) > 1:
        raise UsageError(
            f"this machine has {len(names)} rehearsals: {', '.join(names)}",
            f"name one by its blueprint or with --lab; to list them: {command_line('rehearse', 'list')}",
        )
    return names[0]


def named_one(rehearsal: RehearsalName, verb: str, *words: object) -> str:
    """Return the name of the rehearsal for a verb that removes something. Raises `UsageError` with the command."""
    if rehearsal.name is not None:
        return rehearsal.name
    name = one_of_all(rehearsal)
    blueprint = blueprint_of(name)
    only = refer_to(blueprint, name) if blueprint else RehearsalName(None, name)
    raise UsageError(
        "this command removes data: name the rehearsal by its blueprint or with --lab",
        f"the only rehearsal here: {only.typed(verb, *words)}",
    )


def not_up(blueprint: Path, lab: str | None) -> UsageError:
    """Return the error for a blueprint without a rehearsal."""
    start = command_line("rehearse", "up", blueprint, lab=lab)
    others = [] if lab else known_names(blueprint)
    also = f", or name a rehearsal of this blueprint: --lab {' or --lab '.join(others)}" if others else ""
    subject = f"the rehearsal {lab!r}" if lab else f"the rehearsal of {blueprint}"
    return UsageError(f"{subject} is not up", f"start it: {start}{also}")
