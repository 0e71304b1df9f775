"""`hpcforge export`: files for a site's own installer."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import Blueprint, Inventory, Limit
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import plural

if TYPE_CHECKING:
    from hpcforge.cluster.model import Node
    from hpcforge.metal.installer_files import InstallerChoices

_MOST_LISTED = 6  # files
_MIRROR = re.compile(r"https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]{0,200})?")
_KEY = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]{1,60} [A-Za-z0-9+/]{16,2000}={0,2}")


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of `hpcforge export`."""

    blueprint: Blueprint
    key: Annotated[
        Path,
        typer.Option("--key", help="The ssh key that nodes accept: a .pub file, or a private key.", metavar="FILE"),
    ]
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder that gets the files.", metavar="FOLDER")]
    preseed: Annotated[bool, typer.Option("--preseed", help="Write NODE.cfg, for debian-installer.")] = False
    cloud_init: Annotated[
        bool, typer.Option("--cloud-init", help="Write NODE/user-data, meta-data and network-config, for cloud-init.")
    ] = False
    mirror: Annotated[str, typer.Option("--mirror", help="Where packages come from.", metavar="URL")] = (
        "http://deb.debian.org/debian"
    )
    security_mirror: Annotated[
        str, typer.Option("--security-mirror", help="Where cloud-init gets security updates.", metavar="URL")
    ] = "http://deb.debian.org/debian-security"
    dns: Annotated[
        list[str] | None,
        typer.Option(
            "--dns",
            help="A name server while a node is installed, in place of the site's. Repeatable.",
            metavar="A",
            show_default=False,
        ),
    ] = None
    replace: Annotated[bool, typer.Option("--replace", help="Replace files with different text.")] = False
    limit: Limit = None
    inventory: Inventory = None


@verb(epilog="Example: hpcforge export site.yaml --cloud-init --key ~/.ssh/id_ed25519.pub -o seeds")
def export(options: ExportOptions) -> int:
    """
    They give nodes what `apply` needs: account, key, sudo, address, name servers and package source. A preseed file has
    the partitions and mirrors of `system_disk`; cloud-init's cannot. None confirms a write to a disk.
    """
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.cli.site import open_site
    from hpcforge.cluster.select import select
    from hpcforge.metal.installer_files import Format, files_of, name_servers
    from hpcforge.metal.serve import boot_network

    choices = _choices(options)
    kind: Format = "preseed" if options.preseed else "cloud-init"
    site = open_site(options.blueprint, options.inventory, None, None, needs_lab=False)
    if site.loaded.wants_lab and options.inventory is None:
        raise UsageError("the nodes of a rehearsal are not installed", "hpcforge rehearse up")
    names = select(site.cluster, options.limit or (), ())
    nodes = [site.cluster.by_name[name] for name in names]
    files: dict[str, str] = {}
    for node in nodes:
        files |= files_of(site.cluster, node, boot_network(site), kind, choices)
    _write({options.output / name: text for name, text in files.items()}, options.replace)
    printing.result(f"{plural(len(files), 'file')} of {fold(names)} written to {options.output}\n")
    if not (choices.dns or name_servers(site.cluster)):
        printing.note("no name server is set, so the installer cannot resolve the mirror's name: add --dns\n")
    if options.cloud_init:
        _note_left_out(nodes)
    apply = command_line("apply", options.blueprint, inventory=options.inventory, trust_new=True)
    printing.note(f"Next, once they are installed: {apply}\n")
    return Exit.DONE


def _write(files: Mapping[Path, str], replace: bool) -> None:
    """Write all files, or none. Raises `UsageError` if some exist with another text, unless `replace`."""
    from hpcforge.atomic import rewrite_all

    edited = [path for path, text in files.items() if path.exists() and path.read_bytes() != text.encode()]
    if edited and not replace:
        raise UsageError(
            f"{', '.join(map(str, edited[:_MOST_LISTED]))}{', ...' if len(edited) > _MOST_LISTED else ''}: "
            "present with another text, so nothing was written",
            "compare them, then add --replace; or write to another folder with -o",
        )
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
    rewrite_all(files)


def _note_left_out(nodes: Sequence[Node]) -> None:
    """Name what the blueprint declares and cloud-init's files do not have."""
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.metal.installer_disks import disk_text

    without = [node.name for node in nodes if node.mac is None]
    if without:
        printing.note(f"no network-config without a MAC address in the inventory: {fold(without)}\n")
    disks = {node.name: disk_text(node.system_disk) for node in nodes}
    for disk in dict.fromkeys(filter(None, disks.values())):
        names = fold([name for name, text in disks.items() if text == disk])
        printing.note(f"cloud-init makes no system disk: install {names} with {disk}, or export --preseed\n")


def _choices(options: ExportOptions) -> InstallerChoices:
    from hpcforge.metal.installer_files import InstallerChoices
    from hpcforge.metal.serve import public_key

    mirror, security = options.mirror, options.security_mirror
    if options.preseed == options.cloud_init:
        raise UsageError("exactly one of --preseed and --cloud-init is required", "add or remove one")
    if options.preseed and security != InstallerChoices.security:
        hint = "remove it: with preseed the first apply sets sources"
        raise UsageError("--security-mirror is for --cloud-init", hint)
    key = public_key(options.key)
    if not _KEY.fullmatch(key):
        raise UsageError(f"{options.key} has no ssh public key", "name a .pub file: --key FILE")
    for option, url, usual in (("--mirror", mirror, "debian"), ("--security-mirror", security, "debian-security")):
        if not _MIRROR.fullmatch(url):
            raise UsageError(f"{option} {url}: not the address of a mirror", f"{option} http://deb.debian.org/{usual}")
    dns = options.dns or ()
    try:
        servers = tuple(str(ipaddress.IPv4Address(address)) for address in dns)
    except ValueError:
        raise UsageError(f"--dns {' '.join(dns)}: not an IPv4 address", "--dns 10.0.0.53") from None
    return InstallerChoices(key, mirror, security, servers)
