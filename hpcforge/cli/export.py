"""`hpcforge export`: files for a site's own installer."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcforge.atomic import rewrite_all
from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import open_site
from hpcforge.cluster.model import Node
from hpcforge.cluster.select import select
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.metal.installer_disks import disk_text
from hpcforge.metal.installer_files import Format, InstallerChoices, files_of, name_servers
from hpcforge.metal.serve import boot_network, public_key
from hpcforge.report import printing
from hpcforge.report.text import plural

_MOST_LISTED = 6  # files
_MIRROR = re.compile(r"https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]{0,200})?")
_KEY = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]{1,60} [A-Za-z0-9+/]{16,2000}={0,2}")


def export(
    blueprint: Path,
    inventory: Path | None,
    *,
    preseed: bool,
    cloud_init: bool,
    key: Path,
    output: Path,
    mirror: str,
    security_mirror: str,
    dns: Sequence[str],
    limit: list[str] | None,
    replace: bool,
) -> int:
    """Run `hpcforge export`. Returns the exit status."""
    if preseed == cloud_init:
        raise UsageError("one of --preseed and --cloud-init says what to write", "name one of them")
    if preseed and security_mirror != InstallerChoices.security:
        raise UsageError(
            "--security-mirror is for --cloud-init", "remove it: with preseed the first apply sets sources"
        )
    kind: Format = "preseed" if preseed else "cloud-init"
    choices = _choices(key, mirror, security_mirror, dns)
    site = open_site(blueprint, inventory, None, None, needs_lab=False)
    if site.loaded.wants_lab and inventory is None:
        raise UsageError("the nodes of a rehearsal are not installed", "hpcforge rehearse up")
    names = select(site.cluster, limit or (), ())
    nodes = [site.cluster.by_name[name] for name in names]
    files: dict[str, str] = {}
    for node in nodes:
        files |= files_of(site.cluster, node, boot_network(site), kind, choices)
    _write({output / name: text for name, text in files.items()}, replace)
    printing.result(f"{plural(len(files), 'file')} of {fold(names)} written to {output}\n")
    if not (choices.dns or name_servers(site.cluster)):
        printing.note("no name server is known, so the installer finds no mirror by its name: name one with --dns\n")
    if cloud_init:
        _note_left_out(nodes)
    apply = command_line("apply", blueprint, inventory=inventory, trust_new=True)
    printing.note(f"Next, once they are installed: {apply}\n")
    return Exit.DONE


def _write(files: Mapping[Path, str], replace: bool) -> None:
    """Write all files, or none. Raises `UsageError` if some exist with another text, unless `replace`."""
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
    without = [node.name for node in nodes if node.mac is None]
    if without:
        printing.note(f"no network-config without a MAC address in the inventory: {fold(without)}\n")
    disks = {node.name: disk_text(node.system_disk) for node in nodes}
    for disk in dict.fromkeys(filter(None, disks.values())):
        names = fold([name for name, text in disks.items() if text == disk])
        printing.note(f"cloud-init makes no system disk: install {names} with {disk}, or export --preseed\n")


def _choices(key: Path, mirror: str, security: str, dns: Sequence[str]) -> InstallerChoices:
    found = public_key(key)
    if not _KEY.fullmatch(found):
        raise UsageError(f"{key} has no ssh public key", "name a .pub file: --key FILE")
    for option, said, usual in (("--mirror", mirror, "debian"), ("--security-mirror", security, "debian-security")):
        if not _MIRROR.fullmatch(said):
            raise UsageError(f"{option} {said}: not the address of a mirror", f"{option} http://deb.debian.org/{usual}")
    try:
        servers = tuple(str(ipaddress.IPv4Address(address)) for address in dns)
    except ValueError:
        raise UsageError(f"--dns {' '.join(dns)}: not an IPv4 address", "--dns 10.0.0.53") from None
    return InstallerChoices(found, mirror, security, servers)
