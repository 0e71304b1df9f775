"""`hpcforge status`: the state of the cluster, and its history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.site import open_site
from hpcforge.command_hint import command_line
from hpcforge.engines.tasks import Engine
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.status import certificates_note, history_table, status_json, status_page, status_text
from hpcforge.report.text import one_line
from hpcforge.run.site import Site, compile_site, open_engines, site_roles
from hpcforge.run.status import Status
from hpcforge.run.status import status as look_at

_LOOK_BACK = 200  # runs among which each node's last change is sought


def status(
    *,
    blueprint: Path,
    inventory: Path | None,
    lab: str | None,
    history: bool,
    last: int,
    html: Path | None,
    every_s: float | None,
    as_json: bool,
) -> int:
    """Run `hpcforge status`; with `every_s`, again and again. Returns the exit status."""
    if every_s is not None and (history or html is not None or as_json):
        raise UsageError("--watch shows one thing", "remove --history, --html and --json")
    if every_s is not None and not printing.on_terminal():
        raise UsageError("--watch needs a terminal", command_line("status", blueprint, json=True))
    site = open_site(blueprint, inventory, lab, None)
    apply = command_line("apply", blueprint, inventory=inventory, lab=lab)
    look = _looking(site, max(last, _LOOK_BACK), apply, probes=every_s is None)
    if every_s is not None:
        return _code(_watched(site, look, every_s))
    with open_engines(site) as engine:
        found = look(engine, _say)
    shown = found.history.newest(last)
    if html is not None:
        printing.page(html, status_page(found, site.cluster, time.time()))
    if as_json:
        document = status_json(found, shown if history else None)
        printing.result(json.dumps(document, indent=2) + "\n")
    elif history:
        printing.result(history_table(shown), "states")
        printing.note("".join(f"{one_line(note)}\n" for note in found.notes))
    else:
        printing.result(status_text(found, time.time()), "states")
    return _code(found)


def _looking(site: Site, last: int, apply: str, *, probes: bool) -> Callable[[Engine, Callable[[str], None]], Status]:
    """Return what asks nodes and head. `apply` is the command that a note about certificates names."""
    desired = compile_site(site_roles(site), {}, site.cluster)

    def look(engine: Engine, say: Callable[[str], None]) -> Status:
        found = look_at(engine, site.cluster, last, say, site.kept_as, desired, probes)
        note = certificates_note(found, apply)
        return replace(found, notes=(*found.notes, *([note] if note else [])))

    return look


def _watched(site: Site, look: Callable[[Engine, Callable[[str], None]], Status], every_s: float) -> Status | None:
    """Show the status until Ctrl-C, over connections that stay open; then print the last one."""
    from hpcforge.report.live import Watch  # noqa: PLC0415 - what draws takes a while to load

    found = None
    with suppress(KeyboardInterrupt), open_engines(site) as engine, Watch(f"{site.cluster.name}:", "states") as watch:
        while True:
            began_s = time.monotonic()
            found = look(engine, watch.note)
            watch.show(status_text(found, time.time()))
            time.sleep(max(0.0, every_s - (time.monotonic() - began_s)))
    if found is not None:
        printing.result(status_text(found, time.time()), "states")
    return found


def _code(found: Status | None) -> Exit:
    nodes = found.nodes if found else ()
    codes = [Exit.UNREACHABLE] * any(node.unreachable for node in nodes)
    return worst([*codes, *[Exit.BELOW] * any(node.down for node in nodes)])


def _say(text: str) -> None:
    printing.note(f"{one_line(text)}\n")
