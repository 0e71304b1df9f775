"""`hpcforge status`: the state of the cluster, and its history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.options import AsJson, ClusterOptions
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import one_line

if TYPE_CHECKING:
    from hpcforge.engines.tasks import Engine
    from hpcforge.run.site import Site
    from hpcforge.run.status import Status

_LOOK_BACK = 200  # runs among which each node's last change is sought


@dataclass(frozen=True, kw_only=True)
class StatusOptions:
    """Options of `hpcforge status`."""

    cluster: ClusterOptions
    history: Annotated[bool, typer.Option("--history", help="Show past runs: user, time, commit and result.")] = False
    last: Annotated[int, typer.Option("--last", help="With --history: the number of runs.", min=1, metavar="N")] = 20
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write a page with racks and nodes to this file.", metavar="FILE", show_default=False
        ),
    ] = None
    watch: Annotated[bool, typer.Option("--watch", help="Fill the terminal, and refresh until Ctrl-C.")] = False
    every: Annotated[
        float, typer.Option("--every", help="With --watch: the seconds between refreshes.", min=1, metavar="SECONDS")
    ] = 5
    as_json: AsJson = False


@verb(epilog="Examples: hpcforge status blueprints/rehearsal.yaml --history\n\nhpcforge status site.yaml --watch")
def status(options: StatusOptions) -> int:
    """Also Slurm's state of each node, and whether a run is active."""
    from hpcforge.cli.site import open_site
    from hpcforge.run.site import open_engines

    blueprint, inventory, lab = vars(options.cluster).values()
    if options.watch and (options.history or options.html is not None or options.as_json):
        raise UsageError("--watch shows only the present state", "remove --history, --html and --json")
    if options.watch and not printing.on_terminal():
        raise UsageError("--watch needs a terminal", command_line("status", blueprint, json=True))
    site = open_site(blueprint, inventory, lab, None)
    apply = command_line("apply", blueprint, inventory=inventory, lab=lab)
    look = _looking(site, max(options.last, _LOOK_BACK), apply, probes=not options.watch)
    if options.watch:
        return _code(_watched(site, look, options.every))
    with open_engines(site) as engine:
        state = look(engine, _say)
    _print(options, site, state)
    return _code(state)


def _print(options: StatusOptions, site: Site, state: Status) -> None:
    from hpcforge.report.status import history_table, status_json, status_text

    shown = state.history.newest(options.last)
    if options.html is not None:
        from hpcforge.report.html.status import status_page

        printing.page(options.html, status_page(state, site.cluster, time.time()))
    if options.as_json:
        document = status_json(state, shown if options.history else None)
        printing.result(json.dumps(document, indent=2) + "\n")
    elif options.history:
        printing.result(history_table(shown))
        printing.note("".join(f"{one_line(note)}\n" for note in state.notes))
    else:
        printing.result(status_text(state, time.time()))


def _looking(site: Site, last: int, apply: str, *, probes: bool) -> Callable[[Engine, Callable[[str], None]], Status]:
    """Return the function that asks nodes and head. `apply` is the command in a note about certificates."""
    from hpcforge.report.status import certificates_note
    from hpcforge.run.site import compile_site, site_roles
    from hpcforge.run.status import status as look_at

    desired = compile_site(site_roles(site), {}, site.cluster)

    def look(engine: Engine, say: Callable[[str], None]) -> Status:
        state = look_at(engine, site.cluster, last, say, site.kept_as, desired, probes)
        note = certificates_note(state, apply)
        return replace(state, notes=(*state.notes, *([note] if note else [])))

    return look


def _watched(site: Site, look: Callable[[Engine, Callable[[str], None]], Status], every_s: float) -> Status | None:
    """Show the status until Ctrl-C, over connections that stay open; then print the last one."""
    from hpcforge.report.live import Watch
    from hpcforge.report.status import status_text
    from hpcforge.run.site import open_engines

    state = None
    with suppress(KeyboardInterrupt), open_engines(site) as engine, Watch(f"{site.cluster.name}:") as watch:
        while True:
            began_s = time.monotonic()
            state = look(engine, watch.note)
            watch.show(status_text(state, time.time()))
            time.sleep(max(0.0, every_s - (time.monotonic() - began_s)))
    if state is not None:
        printing.result(status_text(state, time.time()))
    return state


def _code(state: Status | None) -> Exit:
    nodes = state.nodes if state else ()
    codes = [Exit.UNREACHABLE] * any(node.unreachable for node in nodes)
    return worst([*codes, *[Exit.BELOW] * any(node.down for node in nodes)])


def _say(text: str) -> None:
    printing.note(f"{one_line(text)}\n")
