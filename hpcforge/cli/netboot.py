"""`hpcforge netboot`: install nodes that boot from the network."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import typer

from hpcforge.blueprint.hostlist import fold
from hpcforge.cli import signals
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import open_site
from hpcforge.cluster.select import select
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.metal import serve as work
from hpcforge.metal.netboot import services
from hpcforge.metal.netboot.decide import Record
from hpcforge.report import printing
from hpcforge.report.plan_text import disks_text
from hpcforge.report.progress import Progress
from hpcforge.report.text import duration, one_line, table
from hpcforge.run.site import Site
from hpcforge.tally import Tally

SCHEMA_VERSION = 1


def want(
    blueprint: Path,
    inventory: Path | None,
    nodes: str,
    wipe: Sequence[str],
    image: str | None,
    hours: float,
    yes: bool,
) -> int:
    """Run `hpcforge netboot want`. Returns the exit status."""
    site = _site(blueprint, inventory)
    names = select(site.cluster, [nodes], ())
    disks = disks_to_wipe(wipe, names)
    chosen = work.image_named(image)
    for name in names:
        what = disks_text(disks.get(name, ()), site.cluster.by_name[name].system_disk.drives)
        printing.note(f"{name}: image {chosen.name}; writes {what}\n")
    confirm(names, disks, yes)
    work.want(site, names, disks, chosen.name, hours)
    printing.note(f"Next: {command_line('netboot', 'serve', blueprint, inventory=inventory, key='KEY.pub')}\n")
    return Exit.DONE


def withdraw(blueprint: Path, inventory: Path | None, nodes: str) -> int:
    """Run `hpcforge netboot withdraw`. Returns the exit status."""
    site = _site(blueprint, inventory)
    work.withdraw(site, select(site.cluster, [nodes], ()))
    return status(blueprint, inventory, as_json=False)


def serve(
    blueprint: Path,
    inventory: Path | None,
    key: Path,
    image: str | None,
    address: str | None,
    port: int,
    proxy: bool,
) -> int:
    """Run `hpcforge netboot serve`. Returns the exit status."""
    signals.at_once()
    site = _site(blueprint, inventory)
    with (
        work.served(site, work.image_named(image), address, port, proxy, key, _say) as what,
        services.serving(what) as check,
    ):
        services.started(check)
        there = len(what.boots.hosts)
        _say(f"serving {there} machines on {what.network.interface}, {what.boots.url}; Ctrl-C ends it")
        records = work.records_of(site)
        with Progress() as progress, progress.tally("installing nodes", _open(records.read(), time.time())) as tally:
            try:
                while True:
                    check()
                    follow(tally, records.read(), time.time())
                    time.sleep(1)
            except KeyboardInterrupt:
                _say("ended")
    return status(blueprint, inventory, as_json=False)


def _open(records: Mapping[str, Record], now_s: float) -> list[str]:
    """Return the nodes whose installation was requested and has not ended."""
    return [
        name
        for name, record in records.items()
        if record.state == "begun" or (record.state in ("wanted", "offered") and record.until_s > now_s)
    ]


def follow(tally: Tally, records: Mapping[str, Record], now_s: float) -> None:
    """Count installations by their records; those that ended before are not counted."""
    going = _open(records, now_s)
    for name in going:
        tally.add(name)
        if records[name].state == "begun":
            tally.begin(name)
    for name in set(tally.names).difference(going):
        tally.end(name, failed=name not in records or records[name].state != "installed")


def status(blueprint: Path, inventory: Path | None, as_json: bool) -> int:
    """Run `hpcforge netboot status`. Returns the exit status."""
    site = _site(blueprint, inventory)
    records = [record for name, record in work.records_of(site).read().items() if name in site.cluster.by_name]
    if as_json:
        said = [dataclasses.asdict(record) for record in records]
        printing.result(json.dumps({"schema_version": SCHEMA_VERSION, "nodes": said}, indent=2) + "\n")
    else:
        now = time.time()
        rows = []
        for record in records:
            waits = record.state in ("wanted", "offered")
            left = duration(record.until_s - now) if record.until_s > now else "expired"
            state = f"{record.state}, {left}" if waits else record.state
            rows.append(
                [
                    record.node,
                    state,
                    record.image,
                    ", ".join(record.disks or record.wipe) or "-",
                    one_line(record.why) or "-",
                ]
            )
        printing.result(table(("node", "state", "image", "disk", "why"), rows))
        for record in records:
            printing.result(console_text(record.node, record.console))
    failed = [record.node for record in records if record.state == "failed"]
    if failed:
        again = command_line("netboot", "want", blueprint, fold(failed), inventory=inventory)
        printing.note(f"Next: {again}\n")
    elif any(record.state == "installed" for record in records):
        printing.note(f"Next: {command_line('netboot', 'record', blueprint, inventory=inventory)}\n")
    return Exit.FAILED if failed else Exit.DONE


def record(blueprint: Path, inventory: Path | None) -> int:
    """Run `hpcforge netboot record`. Returns the exit status."""
    site = _site(blueprint, inventory)
    names = work.record_keys(site)
    where = site.loaded.inventory_path
    printing.note(f"{where}: host keys of {fold(names)} added\n" if names else f"{where}: unchanged\n")
    printing.note(f"Next: {command_line('plan', blueprint, inventory=inventory)}\n")
    return Exit.DONE


def _site(blueprint: Path, inventory: Path | None) -> Site:
    require_root("netboot")
    site = open_site(blueprint, inventory, None, None, needs_lab=False)
    refuse_lab(site, inventory)
    return site


def require_root(verb: str) -> None:
    """Raise UsageError for an ordinary user."""
    if os.geteuid():
        raise UsageError("DHCP, TFTP and the records of installations need root", f"sudo hpcforge {verb} ...")


def refuse_lab(site: Site, inventory: Path | None) -> None:
    """Raise UsageError where the nodes are a rehearsal's."""
    if site.lab is not None or (site.loaded.wants_lab and inventory is None):
        raise UsageError("the nodes of a rehearsal do not boot from the network", "hpcforge rehearse up")


def disks_to_wipe(wipe: Sequence[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The serial numbers of the disks that may be overwritten, by node. Raises UsageError."""
    found: dict[str, tuple[str, ...]] = {}
    for text in wipe:
        name, _, serial = text.partition("=")
        if name not in names or not serial or not serial.isascii() or not serial.isprintable():
            raise UsageError(f"--wipe {text}: not NODE=SERIAL of a node that is named", f"--wipe {names[0]}=S3Z8NX0K")
        found[name] = (*found.get(name, ()), serial)
    return found


def confirm(names: Sequence[str], losing: Collection[str], yes: bool) -> None:
    """Ask for the installation; the names of nodes that lose data (`losing`) are typed. Raises UsageError and Abort."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal for the question", "add --yes")
    if not losing:
        typer.confirm(f"Install {fold(names)}?", abort=True, err=True)
        return
    answer = typer.prompt(f"Type the names of the nodes that lose data ({fold(list(losing))})", err=True)
    if answer != fold(list(losing)):
        raise typer.Abort


def console_text(node: str, lines: Sequence[str]) -> str:
    """The last lines of an installer that failed."""
    return "".join(f"{node} | {one_line(line)}\n" for line in lines)


def _say(text: str) -> None:
    printing.note(f"{time.strftime('%H:%M:%S')} {one_line(text)}\n")
