"""`hpcforge export`: files for a site's own installer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Operate the cluster",
        epilog="Example: hpcforge export site.yaml --cloud-init --key ~/.ssh/id_ed25519.pub -o seeds",
    )(export)


def export(
    blueprint: options.Blueprint,
    key: Annotated[
        Path,
        typer.Option("--key", help="The ssh key that nodes accept: a .pub file, or a private key.", metavar="FILE"),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder that gets the files.", metavar="FOLDER")],
    preseed: Annotated[bool, typer.Option("--preseed", help="For debian-installer: NODE.cfg.")] = False,
    cloud_init: Annotated[
        bool, typer.Option("--cloud-init", help="For cloud-init: NODE/user-data, meta-data, network-config.")
    ] = False,
    mirror: Annotated[
        str, typer.Option("--mirror", help="Where packages come from.", metavar="URL")
    ] = "http://deb.debian.org/debian",
    security_mirror: Annotated[
        str, typer.Option("--security-mirror", help="Where cloud-init gets security updates.", metavar="URL")
    ] = "http://deb.debian.org/debian-security",
    dns: Annotated[
        list[str] | None,
        typer.Option(
            "--dns",
            help="A name server while a node is installed, in place of the site's. Repeatable.",
            metavar="A",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace files that have another text.")] = False,
    limit: options.Limit = None,
    inventory: options.Inventory = None,
) -> int:
    """Write preseed or cloud-init files for the site's own installer.

    They give nodes what `apply` needs: account, key, sudo, address, name servers and package source. A preseed file has
    the partitions and mirrors of `system_disk`; cloud-init's cannot. None confirms a write to a disk.
    """
    from hpcforge.cli import export as work

    return work.export(
        blueprint,
        inventory,
        preseed=preseed,
        cloud_init=cloud_init,
        key=key,
        output=output,
        mirror=mirror,
        security_mirror=security_mirror,
        dns=dns or (),
        limit=limit,
        replace=replace,
    )
