"""`hpcforge logs`: lines out of what nodes log, from the node that keeps all logs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import open_site
from hpcforge.cluster.select import select
from hpcforge.command_hint import command_line
from hpcforge.node.answer_types import LogsAnswer
from hpcforge.report import printing
from hpcforge.report.text import one_line, plural
from hpcforge.run.logs import kept_at, read_logs, seconds
from hpcforge.run.site import open_engines

SCHEMA_VERSION = 1


def logs(
    *,
    blueprint: Path,
    nodes: Sequence[str],
    since: str,
    grep: str,
    last: int,
    inventory: Path | None,
    lab: str | None,
    as_json: bool,
) -> int:
    """Run `hpcforge logs`. Returns the exit status."""
    back_s = seconds(since)
    site = open_site(blueprint, inventory, lab, None)
    chosen = select(site.cluster, nodes, ())
    keeper = kept_at(site)
    with open_engines(site) as engine:
        found = read_logs(engine, keeper, chosen, time.time() - back_s, grep, last)
    if isinstance(found, str):
        printing.note(f"{keeper[0]}: {one_line(found)}\n")
        return Exit.UNREACHABLE
    if as_json:
        printing.result(json.dumps({"schema_version": SCHEMA_VERSION, "from": keeper[0], **found}, indent=2) + "\n")
        return Exit.DONE
    printing.result("".join(f"{one_line(line['line'])}\n" for line in found["lines"]))
    printing.note(_summary(found, chosen, since))
    more = command_line("status", blueprint, inventory=inventory, lab=lab)
    printing.note(f"Next: {more}\n")
    return Exit.DONE


def _summary(found: LogsAnswer, chosen: Sequence[str], since: str) -> str:
    """How much was found, and what is not there."""
    without = [name for name in chosen if name not in {*found["kept"]}]
    said = f"{plural(len(found['lines']), 'line')} of {fold(tuple(chosen))} within {since}\n"
    if found["left_out"]:
        said += f"{plural(found['left_out'], 'older line')} not shown: --last N, --grep TEXT or a shorter --since\n"
    return said + (f"nothing is kept of {fold(tuple(without))}: it has not logged yet\n" if without else "")
