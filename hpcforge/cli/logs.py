"""`hpcforge logs`: log lines of nodes, from the node that keeps all logs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Blueprint, Inventory, LabName
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.report import printing
from hpcforge.report.text import one_line, plural

if TYPE_CHECKING:
    from hpcforge.node.answer_types import LogsAnswer

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class LogsOptions:
    """Options of `hpcforge logs`."""

    blueprint: Blueprint
    nodes: Annotated[
        list[str] | None,
        typer.Argument(
            help="Only these nodes: a hostlist, a partition, a rack, a function, or all!w03. Default: all.",
            metavar="[NODES]",
            show_default=False,
            autocompletion=completion.node_sets,
        ),
    ] = None
    since: Annotated[str, typer.Option(help="Not older than this: 90s, 15min, 2h or 7d.", metavar="TIME")] = "1h"
    grep: Annotated[
        str, typer.Option(help="Only lines with this text. It is not a pattern.", metavar="TEXT", show_default=False)
    ] = ""
    last: Annotated[int, typer.Option("--last", help="The number of lines.", min=1, max=50_000, metavar="N")] = 1000
    inventory: Inventory = None
    lab: LabName = None
    as_json: AsJson = False


@verb(epilog="Example: hpcforge logs blueprints/full-lab.yaml w01 --since 1h --grep Xid")
def logs(options: LogsOptions) -> int:
    """Contact only the node of the service `syslog`, which the blueprint must have."""
    from hpcforge.cli.site import open_site
    from hpcforge.cluster.select import select
    from hpcforge.run.logs import kept_at, read_logs, seconds
    from hpcforge.run.site import open_engines

    back_s = seconds(options.since)
    site = open_site(options.blueprint, options.inventory, options.lab, None)
    chosen = select(site.cluster, options.nodes or (), ())
    keeper = kept_at(site)
    with open_engines(site) as engine:
        answer = read_logs(engine, keeper, chosen, time.time() - back_s, options.grep, options.last)
    if isinstance(answer, str):
        printing.note(f"{keeper[0]}: {one_line(answer)}\n")
        return Exit.UNREACHABLE
    if options.as_json:
        printing.result(json.dumps({"schema_version": SCHEMA_VERSION, "from": keeper[0], **answer}, indent=2) + "\n")
        return Exit.DONE
    printing.result("".join(f"{one_line(line['line'])}\n" for line in answer["lines"]))
    printing.note(_summary(answer, chosen, options.since))
    more = command_line("status", options.blueprint, inventory=options.inventory, lab=options.lab)
    printing.note(f"Next: {more}\n")
    return Exit.DONE


def _summary(answer: LogsAnswer, chosen: Sequence[str], since: str) -> str:
    """Return the number of lines, and the nodes without any."""
    from hpcforge.blueprint.hostlist import fold

    without = [name for name in chosen if name not in {*answer["kept"]}]
    text = f"{plural(len(answer['lines']), 'line')} of {fold(tuple(chosen))} within {since}\n"
    if answer["left_out"]:
        text += f"{plural(answer['left_out'], 'older line')} not shown: --last N, --grep TEXT or a shorter --since\n"
    return text + (f"no logs from {fold(tuple(without))} yet\n" if without else "")
