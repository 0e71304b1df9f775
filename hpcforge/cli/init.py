"""`hpcforge init`: a first blueprint and its inventory."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import by_reason, one_line, table

if TYPE_CHECKING:
    from hpcforge.starter.accounts import SiteAccounts
    from hpcforge.starter.draft import Answers, ClusterTemplate
    from hpcforge.starter.machines import SiteFile, SiteMachine

_USER = "ops"


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """Options of `hpcforge init`; what is None is asked on a terminal, and otherwise has its default."""

    file: Annotated[
        Path | None,
        typer.Argument(
            help="The blueprint to write. Default: list the templates.", metavar="[FILE]", show_default=False
        ),
    ] = None
    template: Annotated[
        str | None,
        typer.Option(
            help="The kind of cluster.", metavar="NAME", show_default=False, autocompletion=completion.templates
        ),
    ] = None
    machines: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Take the machines of this file: /etc/hosts, an Ansible inventory (INI or YAML), slurm.conf with "
            "gres.conf and the files that it includes, or what `scontrol show node` or `slurmd -C` prints.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    source: Annotated[
        Literal["hosts", "ansible", "slurm"] | None,
        typer.Option("--from-format", help="The format of that file. Default: recognised.", show_default=False),
    ] = None
    ssh: Annotated[
        list[str] | None,
        typer.Option(
            help="Log in to these addresses, a hostlist, and take the machines that answer as they are. Repeatable.",
            metavar="ADDRESSES",
            show_default=False,
        ),
    ] = None
    trust: Annotated[
        bool, typer.Option("--trust-new", help="With --ssh: accept and record the host key of each machine.")
    ] = False
    name: Annotated[
        str | None, typer.Option(help="The cluster's name. Default: of the file.", metavar="NAME", show_default=False)
    ] = None
    domain: Annotated[
        str | None, typer.Option(help="DNS domain. Default: NAME.internal.", metavar="DOMAIN", show_default=False)
    ] = None
    user: Annotated[
        str | None,
        typer.Option(
            help="The account on the nodes that may use sudo. Default: ops.", metavar="USER", show_default=False
        ),
    ] = None
    network: Annotated[
        str | None,
        typer.Option(help="The nodes' network. Default: 10.20.0.0/22.", metavar="CIDR", show_default=False),
    ] = None
    workers: Annotated[int | None, typer.Option(help="Number of GPU workers.", min=1, max=999, show_default=False)] = (
        None
    )
    server: Annotated[
        str | None,
        typer.Option(
            help="Their model in the catalog.",
            metavar="MODEL",
            show_default=False,
            autocompletion=completion.catalog_models,
        ),
    ] = None
    as_json: AsJson = False


@verb(
    epilog="Examples: hpcforge init site.yaml --template nvlink --workers 16\n\n"
    "hpcforge init site.yaml --from /etc/slurm/slurm.conf --user ops\n\n"
    "hpcforge init site.yaml --ssh 10.20.0.[10-19] --user ops --trust-new"
)
def init(options: InitOptions) -> int:
    """
    On a terminal it asks for what no option says. It overwrites no file, and contacts no node
    without --ssh. What it guesses is marked.
    """
    from hpcforge.starter.draft import OF_MACHINES, draft, templates

    by_name, file = templates(), options.file
    if file is None:
        return _list(by_name, options.as_json)
    _check(options, file)
    inventory = file.with_name(f"{file.stem}.inventory.yaml")
    _refuse_existing(file, inventory)
    site, accounts = _probed(options) if options.ssh else (_site(options), None)
    template = by_name[OF_MACHINES] if site else _chosen(by_name, options.template, file)
    blueprint, machines = draft(template, _answers(options, template, file, site), inventory.name, site, accounts)
    texts = {inventory: machines, file: blueprint}
    nodes = _nodes_of(texts, file, options.machines, judged=site is None)
    _write(texts, file)
    _print(options, texts, site, nodes)
    return Exit.DONE


def _check(options: InitOptions, file: Path) -> None:
    if not file.name or file.is_dir():
        raise UsageError(f"{file} is a folder", "name a file, such as site.yaml")
    machines, ssh = options.machines, options.ssh
    if (machines or ssh) and (options.template or options.workers or options.server or (machines and ssh)):
        option = "--ssh" if ssh else "--from"
        raise UsageError(f"{option} is not for --template, --workers and --server", "name the machines in one way")
    if ssh and not options.trust:
        raise UsageError(
            "the host keys of these machines are not known", "add --trust-new to accept the keys that they show"
        )


def _write(texts: dict[Path, str], file: Path) -> None:
    from hpcforge.atomic import rewrite_all
    from hpcforge.locks import folder_lock

    file.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(file.parent):
        _refuse_existing(*reversed(texts))
        rewrite_all(texts)  # both or none


def _print(options: InitOptions, texts: dict[Path, str], site: SiteFile | None, nodes: int) -> None:
    inventory, file = texts
    follow = command_line("validate", file)
    if options.as_json:
        result = {
            "schema_version": 1,
            "blueprint": str(file),
            "inventory": str(inventory),
            "nodes": nodes,
            "left_out": [vars(left_out) for left_out in site.left_out] if site else [],
            "next": follow,
        }
        printing.result(json.dumps(result, indent=2) + "\n")
        return
    printing.result(f"{file}\n{inventory}\n")
    guesses = sum(text.count("# guess") for text in texts.values())
    eyes = f"; {guesses} lines with `guess` need a check" if guesses else ""
    printing.note(f"{nodes} node{'s' if nodes > 1 else ''}{eyes}. Edit both files, then: {follow}\n")
    printing.note(f"On this machine alone, as root: {command_line('rehearse', 'up', file)}\n")


def _site(options: InitOptions) -> SiteFile | None:
    """Read a file of a site, and name the parts that are left out. Returns None without a file."""
    from hpcforge.starter.site_files import place_of, read_site

    file = options.machines
    if not file:
        return None
    site = read_site(file, options.source)
    for left_out in site.left_out:
        printing.note(f"{place_of(file, left_out)}: left out: {one_line(left_out.text)}: {one_line(left_out.reason)}\n")
    return site


def _probed(options: InitOptions) -> tuple[SiteFile, SiteAccounts]:
    """Return the machines at these addresses and their accounts; print the addresses without an answer."""
    from hpcforge.run import probe as probing
    from hpcforge.starter.draft import become
    from hpcforge.starter.machines import SiteFile

    user = options.user or _USER
    probed = probing.probe(
        probing.addresses(options.ssh or ()),
        user,
        become(user),
        lambda text: printing.note(f"{text}\n"),
    )
    for addresses, _, reason in by_reason(probed.silent):
        printing.note(f"{addresses}: {one_line(reason)}\n")
    if not probed.machines:
        raise UsageError("no machine answers at these addresses", "--user names the account that may use sudo there")
    header = ("address", "name", "cores", "memory", "GPUs", "accepted host key")
    printing.note(table(header, [_row(machine) for machine in probed.machines], columns=None))
    for note in probed.notes:
        printing.note(f"{one_line(note)}\n")
    return SiteFile(tuple(_with_head(probed.machines))), probed.accounts


def _row(machine: SiteMachine) -> tuple[str, ...]:
    from hpcforge.cli.trust import kind_and_fingerprint

    return (
        machine.address or "",
        machine.name,
        f"{machine.sockets} x {machine.cores_per_socket}",
        f"{machine.memory_gib} GiB",
        f"{machine.gpus} x {machine.gpu or 'unknown'}" if machine.gpus else "-",
        " ".join(kind_and_fingerprint(machine.host_keys[0])),
    )


def _with_head(machines: list[SiteMachine]) -> list[SiteMachine]:
    """Ask which machine is the head: the machines' own names only give a guess, which stays without a terminal."""
    from hpcforge.starter.machines import guessed_head, with_head

    guess = guessed_head(machines)
    reason = "by the name that it gives itself" if "head" in guess.functions else "the first that answered"
    printing.note(f"controller, DNS, time and packages: {guess.name} ({guess.address}), a guess: {reason}\n")
    if not sys.stdin.isatty():
        return machines
    return with_head(machines, _ask("Machine with the controller, DNS, time and packages", guess.name))


def _refuse_existing(*files: Path) -> None:
    from hpcforge.blueprint import values as v
    from hpcforge.starter.readers.words import accepts

    for path in files:
        if not accepts(v.FilePath, path.name):
            raise UsageError(f"{path}: the name of a blueprint has letters, digits and ._~@+=,-", "choose another name")
        try:
            path.resolve()
        except RuntimeError as error:  # Python 3.11 raises it for a loop
            raise UsageError(f"{path} is a link in a loop; nothing was written", "choose another name") from error
        if path.exists():
            raise UsageError(f"{path} already exists; nothing was written", "choose another name")


def _nodes_of(texts: dict[Path, str], file: Path, machines: Path | None, judged: bool) -> int:
    """Return the number of nodes in the text of two files. Raises `InvalidInput` if it is wrong."""
    from hpcforge.blueprint.diagnostics import InvalidInput
    from hpcforge.cluster import load

    try:
        return len(load(file, judged=judged, instead=texts).cluster.nodes)
    except InvalidInput:
        remedy = f"correct {machines}" if machines else "choose another template or server"
        printing.note(f"nothing was written: {file} would be invalid with these lines; {remedy}\n")
        raise


def _list(by_name: dict[str, ClusterTemplate], as_json: bool) -> int:
    from hpcforge.starter.draft import OF_MACHINES

    shown = [template for template in by_name.values() if template.name != OF_MACHINES]
    if as_json:
        entries = [{"name": template.name, "description": template.description} for template in shown]
        printing.result(json.dumps({"schema_version": 1, "templates": entries}, indent=2) + "\n")
        return Exit.DONE
    rows = [(template.name, template.description, str(template.workers), template.server) for template in shown]
    printing.result(table(("template", "description", "workers", "server"), rows, columns=printing.columns()))
    printing.note("Next: hpcforge init site.yaml --template NAME, or: hpcforge init site.yaml --from FILE\n")
    return Exit.DONE


def _chosen(by_name: dict[str, ClusterTemplate], name: str | None, file: Path) -> ClusterTemplate:
    from hpcforge.blueprint.diagnostics import did_you_mean
    from hpcforge.starter.draft import OF_MACHINES

    names = [template for template in by_name if template != OF_MACHINES]
    if name is None:
        if not sys.stdin.isatty():
            raise UsageError("which kind of cluster?", f"{command_line('init', file)} --template {'|'.join(names)}")
        for template in names:
            printing.note(f"  {template:<12} {by_name[template].description}\n")
        name = typer.prompt("Template", default=names[0], err=True)
    if name not in names:
        raise UsageError(f"unknown template {name}", did_you_mean(str(name), names) or "hpcforge init lists them")
    return by_name[name]


def _answers(options: InitOptions, template: ClusterTemplate, file: Path, site: SiteFile | None) -> Answers:
    from hpcforge.starter.draft import Answers
    from hpcforge.starter.site_networks import network_of

    name = options.name or _ask("Name of the cluster", (site and site.cluster) or _name_of(file))
    workers, server = template.workers, template.server
    if not site:
        asks = "{{ workers }}" in template.text
        workers = options.workers or (
            int(_ask("Number of GPU workers", str(workers), number=True)) if asks else workers
        )
        server = options.server or _ask("Their model (hpcforge catalog list servers)", server)
    network, network_known = network_of(site.machines if site else ())
    user = options.user or (_USER if options.ssh else None)
    return Answers(
        name=name,
        domain=options.domain or _ask("DNS domain", (site and site.domain) or f"{name}.internal"),
        user=user or _ask("Account on the nodes that may use sudo", (site and site.access.user) or _USER),
        network=options.network or _ask("Network of the nodes", network),
        network_guessed=not (options.network or network_known or sys.stdin.isatty()),
        workers=workers,
        server=server,
    )


def _ask(question: str, usual: str, number: bool = False) -> str:
    """Return the answer on a terminal, else the usual one."""
    if not sys.stdin.isatty():
        return usual
    if number:
        return str(typer.prompt(question, default=int(usual), type=int, err=True))
    return str(typer.prompt(question, default=usual, err=True))


def _name_of(file: Path) -> str:
    """Return a cluster's name from a file's: lower-case letters, digits and -, a letter first."""
    plain = re.sub(r"[^a-z0-9-]+", "-", file.stem.lower())
    return re.sub(r"^[0-9-]+", "", plain)[:31].rstrip("-") or "cluster"
