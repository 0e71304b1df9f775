"""`hpcforge inventory`: the machines of a blueprint, also for Ansible and pyinfra without hpcforge."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcforge.cli import completion, failures
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Inventory, LabName
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import table

if TYPE_CHECKING:
    from hpcforge.run.site import Site

_HEADER = ("machine", "address", "mac", "bmc", "bmc mac", "serial", "functions", "rack", "hardware")
_OVER_SSH = ("ssh-config", "ansible")


@dataclass(frozen=True, kw_only=True)
class InventoryOptions:
    """Options of `hpcforge inventory`."""

    blueprint: Annotated[
        Path | None,
        typer.Argument(
            help="The blueprint, a YAML file. Default: the only one of this folder, else the shipped rehearsal.",
            show_default=False,
            autocompletion=completion.blueprints,
            envvar=completion.IN_ENVIRONMENT,
        ),
    ] = None
    inventory: Inventory = None
    lab: LabName = None
    as_json: AsJson = False
    ssh_config: Annotated[
        bool, typer.Option("--ssh-config", help="Print a configuration of OpenSSH: users, jump host, host keys.")
    ] = False
    ansible: Annotated[bool, typer.Option("--ansible", help="Print an inventory of Ansible, to be a .yml file.")] = (
        False
    )
    clustershell: Annotated[
        bool, typer.Option("--clustershell", help="Print groups of ClusterShell: @worker, @rack:r1, @hardware:MODEL.")
    ] = False
    genders: Annotated[bool, typer.Option("--genders", help="Print a genders file, as pdsh -g reads it.")] = False

    @property
    def formats(self) -> list[str]:
        """The selected formats."""
        flags = {
            "json": self.as_json,
            "ssh-config": self.ssh_config,
            "ansible": self.ansible,
            "clustershell": self.clustershell,
            "genders": self.genders,
        }
        return [name for name, chosen in flags.items() if chosen]


@verb(epilog="Example: hpcforge inventory site.yaml --ssh-config > ssh_config; ssh -F ssh_config w01")
def inventory(options: InventoryOptions) -> int:
    """Contacts no node. Other tools get the same machines: docs/operations.md."""
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.cli.site import open_site

    if len(options.formats) > 1:
        names = " and ".join(f"--{name}" for name in options.formats)
        raise UsageError(f"{names} exclude each other", "use one")
    kind = options.formats[0] if options.formats else "table"
    site = open_site(options.blueprint or default_blueprint(), options.inventory, options.lab, None, needs_lab=False)
    printing.result(_text(kind, site))
    if kind in _OVER_SSH and (without := [node.name for node in site.cluster.nodes if not node.host_keys]):
        printing.note(
            f"{fold(without)}: the inventory has no host key, so ssh refuses to connect\n"
            "hint: hpcforge netboot record, or hpcforge apply --trust-new, writes them\n"
        )
    return Exit.DONE


def _text(kind: str, site: Site) -> str:
    from hpcforge.cluster import machines
    from hpcforge.run import other_tools

    texts: dict[str, Callable[[], str]] = {
        "table": lambda: _table(site),
        "json": lambda: json.dumps(_document(site), indent=2) + "\n",
        "ssh-config": lambda: other_tools.ssh_config_of(site),
        "ansible": lambda: other_tools.ansible_inventory_of(site),
        "clustershell": lambda: machines.clustershell(site.cluster),
        "genders": lambda: machines.genders(site.cluster),
    }
    return texts[kind]()


def default_blueprint() -> Path:
    """Return the only blueprint of the working directory, else the shipped rehearsal, and print its path.

    Raises `UsageError` if the folder has several.
    """
    from hpcforge import bundled

    blueprints = completion.blueprints_here()
    if len(blueprints) > 1:
        raise UsageError(
            f"this folder has {len(blueprints)} blueprints: {', '.join(blueprints[: completion.MOST_LISTED])}"
            f"{', ...' if len(blueprints) > completion.MOST_LISTED else ''}",
            f"name one: {command_line('inventory', blueprints[0])}, or set {completion.IN_ENVIRONMENT}",
        )
    if blueprints:
        printing.note(f"machines of {blueprints[0]}, the only blueprint of this folder\n")
        return Path(blueprints[0])
    shipped = bundled.root() / "blueprints" / "rehearsal.yaml"
    printing.note(f"machines of the shipped rehearsal, {shipped}: this folder has no blueprint\n")
    return shipped


def _document(site: Site) -> dict[str, Any]:
    """Return the document that `hpcforge inventory --json` prints.

    `schema_version` 1; `name` and `domain` of the cluster; `lab`: None, or the `kind` of rehearsal that the blueprint
    asks for, and `name` and `directory` of the running one; `access`: how hpcforge logs in;
    `groups`: node names by group; `machines`: as `hpcforge.cluster.model.Node` has them.
    """
    from hpcforge.cluster import machines

    cluster = site.cluster
    values = {
        "schema_version": 1,
        "name": cluster.name,
        "domain": cluster.domain,
        "lab": _lab(site),
        "access": dataclasses.asdict(cluster.access),
        "groups": machines.groups(cluster),
        "machines": [machines.machine(node) for node in cluster.nodes],
    }
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))  # paths as text
    return plain


def _lab(site: Site) -> dict[str, str | None] | None:
    from hpcforge.cli.site import lab_kind
    from hpcforge.lab import lab as labs

    if site.lab is None and (not site.loaded.wants_lab or site.loaded.inventory is not None):
        return None
    running = labs.load(site.lab) if site.lab else None
    if running is None:
        return {"kind": lab_kind(site.loaded), "name": site.lab, "directory": None}
    return {"kind": running.kind, "name": running.name, "directory": str(running.directory)}


def ansible() -> int:
    """Print the inventory for `ansible -i inventory/for_ansible.py`. Returns the exit status."""
    from hpcforge.run.other_tools import ansible_script_of

    try:
        printing.result(ansible_script_of(_chosen()))
        return Exit.DONE
    except Exception as error:
        message, code = failures.explain(error)
        if message is None:
            raise
        printing.note(message)
        return code


def pyinfra() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return the inventory for `pyinfra inventory/for_pyinfra.py`: hosts with their data, by group."""
    from hpcforge.run.other_tools import pyinfra_inventory_of

    return pyinfra_inventory_of(_chosen())


def _chosen() -> Site:
    """Return the site of HPCFORGE_BLUEPRINT and HPCFORGE_LAB: Ansible and pyinfra pass no arguments to inventories."""
    from hpcforge.cli.site import open_site

    blueprint = os.environ.get(completion.IN_ENVIRONMENT)
    return open_site(
        Path(blueprint) if blueprint else default_blueprint(), None, os.environ.get("HPCFORGE_LAB") or None, None
    )


def _table(site: Site) -> str:
    rows = [
        (
            node.name,
            node.address,
            node.mac or "",
            (node.bmc and node.bmc.address) or "",
            (node.bmc and node.bmc.mac) or "",
            node.serial or "",
            ",".join(node.functions),
            f"{node.rack} u{node.rack_u}" if node.rack else "",
            node.hardware,
        )
        for node in site.cluster.nodes
    ]
    columns = [column for column, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    return table([_HEADER[column] for column in columns], [[row[column] for column in columns] for row in rows])
