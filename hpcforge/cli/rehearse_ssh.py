"""`hpcforge rehearse ssh`: log in to a node of a rehearsal. Reads no blueprint, so that it starts fast."""

from __future__ import annotations

import os
from pathlib import Path

from hpcforge.cli.rehearsals import Named, named, one_of_all, parted, take
from hpcforge.errors import UsageError
from hpcforge.lab import lab as labs
from hpcforge.report import printing


def ssh(words: list[str], lab: str | None) -> int:
    """Run `hpcforge rehearse ssh`. Returns the exit status."""
    meant, rest = parted(words, lab)
    node, *command = take(rest, 1, None)
    name = one_of_all(meant)
    found = labs.load(name)
    if found is None:
        start = (meant if meant.name else Named(None, name)).up()
        raise UsageError(f"the rehearsal {name!r} is not up", f"start it: {start}")
    if not labs.runs(found, node):
        start = named(Path(found.blueprint), name).up()
        raise UsageError(f"{node} of the rehearsal {name!r} is stopped", f"start it: {start}")
    argv = [*labs.ssh_argv(found, node), *command]  # ssh joins the words, the shell there takes them apart
    printing.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - a list, no shell: ssh takes the terminal over
