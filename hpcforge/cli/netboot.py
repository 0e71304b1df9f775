"""`hpcforge netboot`: install nodes that boot from the network."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli import completion, signals
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import HTTP_PORT, AsJson, Blueprint, Image, Inventory, ProxyDhcp, Wipe
from hpcforge.cli.verb import VerbGroup
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import duration, one_line, table

if TYPE_CHECKING:
    from hpcforge.metal.netboot.decide import Record
    from hpcforge.run.site import Site

SCHEMA_VERSION = 1

netboot = VerbGroup("A node is installed only after `want` names it, once. Every other machine boots its own disk.")
_Nodes = Annotated[
    str,
    typer.Argument(help="The nodes: a hostlist, a rack or a function.", autocompletion=completion.node_sets),
]


@dataclass(frozen=True, kw_only=True)
class NetbootWantOptions:
    """Options of `hpcforge netboot want`."""

    blueprint: Blueprint
    nodes: _Nodes
    wipe: Wipe = None
    image: Image = None
    hours: Annotated[
        float, typer.Option("--hours", help="Time after which the request ends.", min=0.1, max=720, metavar="H")
    ] = 24.0
    inventory: Inventory = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False


@dataclass(frozen=True, kw_only=True)
class NetbootWithdrawOptions:
    """Options of `hpcforge netboot withdraw`."""

    blueprint: Blueprint
    nodes: _Nodes
    inventory: Inventory = None


@dataclass(frozen=True, kw_only=True)
class NetbootServeOptions:
    """Options of `hpcforge netboot serve`."""

    blueprint: Blueprint
    key: Annotated[
        Path,
        typer.Option("--key", help="The ssh key that nodes accept: a .pub file, or a private key.", metavar="FILE"),
    ]
    image: Image = None
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            help="This machine's address on the network where nodes boot. Default: the one it has there.",
            metavar="A",
            show_default=False,
        ),
    ] = None
    port: Annotated[int, typer.Option("--port", help="Port of HTTP.", min=1, max=65535, metavar="PORT")] = HTTP_PORT
    proxy_dhcp: ProxyDhcp = False
    inventory: Inventory = None


@dataclass(frozen=True, kw_only=True)
class NetbootStatusOptions:
    """Options of `hpcforge netboot status`."""

    blueprint: Blueprint
    inventory: Inventory = None
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class NetbootRecordOptions:
    """Options of `hpcforge netboot record`."""

    blueprint: Blueprint
    inventory: Inventory = None


@netboot.verb(epilog="Example: hpcforge netboot want site.yaml w03 --wipe w03=S3Z8NX0K")
def want(options: NetbootWantOptions) -> int:
    """Ask for the installation of nodes at their next network boot."""
    from hpcforge.cluster.select import select
    from hpcforge.metal import serve as serving
    from hpcforge.report.plan_text import disks_text

    site = _site(options.blueprint, options.inventory)
    names = select(site.cluster, [options.nodes], ())
    disks = serving.disks_to_wipe(options.wipe or (), names)
    image = serving.image_named(options.image)
    for name in names:
        text = disks_text(disks.get(name, ()), site.cluster.by_name[name].system_disk.drives)
        printing.note(f"{name}: image {image.name}; writes {text}\n")
    confirm(names, disks, options.yes)
    serving.want(site, names, disks, image.name, options.hours)
    step = command_line("netboot", "serve", options.blueprint, inventory=options.inventory, key="KEY.pub")
    printing.note(f"Next: {step}\n")
    return Exit.DONE


@netboot.verb(epilog="Example: hpcforge netboot withdraw site.yaml w03")
def withdraw(options: NetbootWithdrawOptions) -> int:
    """Ask no longer for the installation of nodes."""
    from hpcforge.cluster.select import select
    from hpcforge.metal import serve as serving

    site = _site(options.blueprint, options.inventory)
    serving.withdraw(site, select(site.cluster, [options.nodes], ()))
    return status(NetbootStatusOptions(blueprint=options.blueprint, inventory=options.inventory))


@netboot.verb(epilog="Example: hpcforge netboot serve site.yaml --key ~/.ssh/id_ed25519.pub")
def serve(options: NetbootServeOptions) -> int:
    """Serve DHCP, TFTP and HTTP until interrupted. Needs root."""
    from hpcforge.metal import serve as serving
    from hpcforge.metal.netboot import services
    from hpcforge.report.progress import Progress

    signals.at_once()
    site = _site(options.blueprint, options.inventory)
    image, proxy = serving.image_named(options.image), options.proxy_dhcp
    with (
        serving.served(site, image, options.address, options.port, proxy, options.key, _say) as boots,
        services.serving(boots) as check,
    ):
        services.started(check)
        machines = len(boots.boots.hosts)
        _say(f"serving {machines} machines on {boots.network.interface}, {boots.boots.url}; Ctrl-C ends it")
        records = serving.records_of(site)
        begun = serving.unfinished(records.read(), time.time())
        with Progress() as progress, progress.tally("installing nodes", begun) as tally:
            try:
                while True:
                    check()
                    serving.follow(tally, records.read(), time.time())
                    time.sleep(1)
            except KeyboardInterrupt:
                _say("ended")
    return status(NetbootStatusOptions(blueprint=options.blueprint, inventory=options.inventory))


@netboot.verb(epilog="Example: hpcforge netboot status site.yaml --json")
def status(options: NetbootStatusOptions) -> int:
    """Show which nodes are to be installed, and how it went."""
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.metal import serve as serving

    site = _site(options.blueprint, options.inventory)
    records = [record for name, record in serving.records_of(site).read().items() if name in site.cluster.by_name]
    if options.as_json:
        entries = [dataclasses.asdict(record) for record in records]
        printing.result(json.dumps({"schema_version": SCHEMA_VERSION, "nodes": entries}, indent=2) + "\n")
    else:
        printing.result(table(("node", "state", "image", "disk", "why"), [_row(record) for record in records]))
        for record in records:
            printing.result(console_text(record.node, record.console))
    failed = [record.node for record in records if record.state == "failed"]
    if failed:
        command = command_line("netboot", "want", options.blueprint, fold(failed), inventory=options.inventory)
        printing.note(f"Next: {command}\n")
    elif any(record.state == "installed" for record in records):
        printing.note(f"Next: {command_line('netboot', 'record', options.blueprint, inventory=options.inventory)}\n")
    return Exit.FAILED if failed else Exit.DONE


def _row(record: Record) -> list[str]:
    now_s = time.time()
    remaining = duration(record.until_s - now_s) if record.until_s > now_s else "expired"
    state = f"{record.state}, {remaining}" if record.state in ("wanted", "offered") else record.state
    disks = ", ".join(record.disks or record.wipe) or "-"
    return [record.node, state, record.image, disks, one_line(record.why) or "-"]


@netboot.verb(epilog="Example: hpcforge netboot record site.yaml")
def record(options: NetbootRecordOptions) -> int:
    """Write the host keys of installed nodes into the inventory, so that the first ssh contact is trusted."""
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.metal import serve as serving

    site = _site(options.blueprint, options.inventory)
    names = serving.record_keys(site)
    file = site.loaded.inventory_path
    printing.note(f"{file}: host keys of {fold(names)} added\n" if names else f"{file}: unchanged\n")
    printing.note(f"Next: {command_line('plan', options.blueprint, inventory=options.inventory)}\n")
    return Exit.DONE


def _site(blueprint: Path, inventory: Path | None) -> Site:
    from hpcforge.cli.site import open_site

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


def confirm(names: Sequence[str], losing: Collection[str], yes: bool) -> None:
    """Ask for confirmation; the user types the names of nodes that lose data (`losing`). Raises UsageError, Abort."""
    from hpcforge.blueprint.hostlist import fold

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("the question needs a terminal", "add --yes")
    if not losing:
        typer.confirm(f"Install {fold(names)}?", abort=True, err=True)
        return
    answer = typer.prompt(f"Type the names of the nodes that lose data ({fold(list(losing))})", err=True)
    if answer != fold(list(losing)):
        raise typer.Abort


def console_text(node: str, lines: Sequence[str]) -> str:
    """Return the last lines of an installer that failed."""
    return "".join(f"{node} | {one_line(line)}\n" for line in lines)


def _say(text: str) -> None:
    printing.note(f"{time.strftime('%H:%M:%S')} {one_line(text)}\n")
