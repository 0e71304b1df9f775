"""`hpcforge status`: the state of the cluster, and its history."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import open_site
from hpcforge.command_hint import command_line
from hpcforge.report import printing
from hpcforge.report.status_html import status_page
from hpcforge.report.status_text import certificates_note, history_table, status_json, status_text
from hpcforge.report.text import one_line
from hpcforge.run.site import compile_site, open_engines, site_roles
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
    as_json: bool,
) -> int:
    """Run `hpcforge status`. Returns the exit status."""
    site = open_site(blueprint, inventory, lab, None)
    desired = compile_site(site_roles(site), {}, site.cluster)
    with open_engines(site) as engine:
        found = look_at(engine, site.cluster, max(last, _LOOK_BACK), _say, site.kept_as, desired)
    note = certificates_note(found, command_line("apply", blueprint, inventory=inventory, lab=lab))
    found = replace(found, notes=(*found.notes, *([note] if note else [])))
    shown = found.history.newest(last)
    if html is not None:
        html.write_text(status_page(found, site.cluster, time.time()), encoding="utf-8")
        printing.note(f"written: {html}\n")
    if as_json:
        document = status_json(found, shown if history else None)
        printing.result(json.dumps(document, indent=2) + "\n")
    elif history:
        printing.result(history_table(shown), "states")
        printing.note("".join(f"{one_line(note)}\n" for note in found.notes))
    else:
        printing.result(status_text(found, time.time()), "states")
    return Exit.UNREACHABLE if any(node.unreachable for node in found.nodes) else Exit.DONE


def _say(text: str) -> None:
    printing.note(f"{one_line(text)}\n")
