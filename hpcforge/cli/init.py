"""`hpcforge init`: a first blueprint and its inventory."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import typer

from hpcforge.atomic import rewrite_all
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import InvalidInput, did_you_mean
from hpcforge.blueprint.untrusted_files import read_named
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load
from hpcforge.cluster.separated_values import CellError, decode
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.locks import folder_lock
from hpcforge.report import printing
from hpcforge.report.text import one_line, table
from hpcforge.starter.accounts import SiteAccounts
from hpcforge.starter.draft import OF_MACHINES, Answers, ClusterTemplate, become, draft, templates
from hpcforge.starter.machines import LeftOut, SiteFile, SiteMachine, StarterError, guessed_head, with_head
from hpcforge.starter.readers import Source, read
from hpcforge.starter.readers.words import accepts
from hpcforge.starter.site_networks import around

_MOST_BYTES = 4 * 1024 * 1024  # of a file of machines
_MOST_NAMES = 20  # of a folder beside it
_NETWORK = "10.20.0.0/22"
_USER = "ops"
_LONGEST_PREFIX = 29


@dataclass(frozen=True)
class Given:
    """What the options say; None is asked on a terminal, and otherwise has its default."""

    name: str | None
    domain: str | None
    user: str | None
    network: str | None
    workers: int | None
    server: str | None


def init(
    file: Path | None,
    template: str | None,
    machines: Path | None,
    source: Source | None,
    given: Given,
    as_json: bool,
    ssh: Sequence[str] = (),
    trust: bool = False,
) -> int:
    """Run `hpcforge init`. Returns the exit status."""
    known = templates()
    if file is None:
        return _list(known, as_json)
    if not file.name or file.is_dir():
        raise UsageError(f"{file} is a folder", "name a file, such as site.yaml")
    if (machines or ssh) and (template or given.workers or given.server or (machines and ssh)):
        given_by = "--ssh" if ssh else "--from"
        raise UsageError(f"{given_by} is not for --template, --workers and --server", "name the machines in one way")
    if ssh and not trust:
        raise UsageError("the host keys of these machines are not known", "add --trust-new to accept what they show")
    inventory = file.with_name(f"{file.stem}.inventory.yaml")
    _refuse_existing(file, inventory)
    site, accounts = _probed(ssh, given.user or _USER) if ssh else (_site(machines, source), None)
    chosen = known[OF_MACHINES] if site else _chosen(known, template, file)
    given = replace(given, user=given.user or _USER) if ssh else given
    texts = draft(chosen, _answers(given, chosen, file, site), inventory.name, site, accounts)
    nodes = _nodes_of(dict(zip((file, inventory), texts, strict=True)), file, machines, judged=site is None)
    file.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(file.parent):
        _refuse_existing(file, inventory)
        rewrite_all({inventory: texts[1], file: texts[0]})  # both or none
    follow = command_line("validate", file)
    if as_json:
        result = {
            "schema_version": 1,
            "blueprint": str(file),
            "inventory": str(inventory),
            "nodes": nodes,
            "left_out": [vars(left_out) for left_out in site.left_out] if site else [],
            "next": follow,
        }
        printing.result(json.dumps(result, indent=2) + "\n")
        return Exit.DONE
    printing.result(f"{file}\n{inventory}\n")
    guesses = sum(text.count("# guess") for text in texts)
    eyes = f"; {guesses} lines with `guess` need your eyes" if guesses else ""
    printing.note(f"{nodes} node{'s' if nodes > 1 else ''}{eyes}. Edit both files, then: {follow}\n")
    printing.note(f"On this machine alone, as root: {command_line('rehearse', 'up', file)}\n")
    return Exit.DONE


def _site(file: Path | None, source: Source | None) -> SiteFile | None:
    """Read a file of a site, and name what is left out of it. Returns None where no file is given."""
    if not file:
        return None
    try:
        site = read(_text(file), source, partial(_beside, file.parent))
    except StarterError as error:
        raise StarterError(f"{file}: {error}", error.hint or "correct the file, or name another") from error
    for left_out in site.left_out:
        printing.note(f"{_place(file, left_out)}: left out: {one_line(left_out.text)}: {one_line(left_out.reason)}\n")
    return site


def _place(file: Path, left_out: LeftOut) -> str:
    place = file.parent / left_out.file if left_out.file else file
    return f"{place}:{left_out.line}" if left_out.line else str(place)


def _beside(folder: Path, name: str) -> str | None:
    """The text of a file below a folder, or the names in a folder there; None where it is elsewhere, or not there."""
    path = folder / name
    if name.endswith("/") and Path(name).name == name[:-1]:
        names = sorted(each.name for each in path.iterdir()) if path.is_dir() else None
        return None if names is None else " ".join(names[:_MOST_NAMES])
    whole = Path(os.path.realpath(folder)) / name  # links in what leads to the folder are the user's own
    try:
        below = ".." not in path.parts[len(folder.parts) :] and path.is_file() and Path(os.path.realpath(path)) == whole
    except (OSError, ValueError):
        return None
    return _text(path) if below else None


def _probed(ssh: Sequence[str], user: str) -> tuple[SiteFile, SiteAccounts]:
    """The machines of these addresses, and the accounts for them; those that do not answer are named."""
    from hpcforge.cli.trust import kind_and_fingerprint
    from hpcforge.report.text import by_reason
    from hpcforge.run import probe as probing

    found = probing.probe(
        probing.addresses(ssh),
        user,
        become(user),
        lambda text: printing.note(f"{text}\n"),
    )
    for addresses, _, why in by_reason(found.silent):
        printing.note(f"{addresses}: {one_line(why)}\n")
    if not found.machines:
        raise UsageError("no machine answers at these addresses", "--user names the account that may use sudo there")
    rows = [
        (
            machine.address or "", machine.name, f"{machine.sockets} x {machine.cores_per_socket}",
            f"{machine.memory_gib} GiB", f"{machine.gpus} x {machine.gpu or 'unknown'}" if machine.gpus else "-",
            " ".join(kind_and_fingerprint(machine.host_keys[0])),
        )
        for machine in found.machines
    ]  # fmt: skip
    header = ("address", "name", "cores", "memory", "GPUs", "accepted host key")
    printing.note(table(header, rows, columns=None))
    for note in found.notes:
        printing.note(f"{one_line(note)}\n")
    return SiteFile(tuple(_with_head(found.machines))), found.accounts


def _with_head(machines: list[SiteMachine]) -> list[SiteMachine]:
    """Ask which machine is the head: what a machine calls itself is a guess, and stays one without a terminal."""
    guess = guessed_head(machines)
    why = "by the name that it gives itself" if "head" in guess.functions else "the first that answered"
    printing.note(f"controller, DNS, time and packages: {guess.name} ({guess.address}), a guess: {why}\n")
    if not sys.stdin.isatty():
        return machines
    return with_head(machines, _asked("Machine with the controller, DNS, time and packages", guess.name))


def _refuse_existing(*files: Path) -> None:
    for path in files:
        if not accepts(v.FilePath, path.name):
            raise UsageError(f"{path}: the name of a blueprint has letters, digits and ._~@+=,-", "choose another name")
        try:
            path.resolve()
        except RuntimeError as error:  # so says Python 3.11
            raise UsageError(f"{path} is a link in a loop; nothing was written", "choose another name") from error
        if path.exists():
            raise UsageError(f"{path} already exists; nothing was written", "choose another name")


def _nodes_of(texts: dict[Path, str], file: Path, machines: Path | None, judged: bool) -> int:
    """Return the number of nodes of two files that are not written yet. Raises `InvalidInput` where they are wrong."""
    try:
        return len(load(file, judged=judged, instead=texts).cluster.nodes)
    except InvalidInput:
        way = f"correct {machines}" if machines else "choose another template or server"
        printing.note(f"nothing was written: {file} would have these lines, and not be valid; {way}\n")
        raise


def _list(known: dict[str, ClusterTemplate], as_json: bool) -> int:
    shown = [template for template in known.values() if template.name != OF_MACHINES]
    if as_json:
        entries = [{"name": template.name, "description": template.description} for template in shown]
        printing.result(json.dumps({"schema_version": 1, "templates": entries}, indent=2) + "\n")
        return Exit.DONE
    rows = [(template.name, template.description, str(template.workers), template.server) for template in shown]
    printing.result(table(("template", "description", "workers", "server"), rows, columns=printing.columns()))
    printing.note("Next: hpcforge init site.yaml --template NAME, or: hpcforge init site.yaml --from FILE\n")
    return Exit.DONE


def _chosen(known: dict[str, ClusterTemplate], name: str | None, file: Path) -> ClusterTemplate:
    names = [template for template in known if template != OF_MACHINES]
    if name is None:
        if not sys.stdin.isatty():
            raise UsageError("which kind of cluster?", f"{command_line('init', file)} --template {'|'.join(names)}")
        for template in names:
            printing.note(f"  {template:<12} {known[template].description}\n")
        name = typer.prompt("Template", default=names[0], err=True)
    if name not in names:
        raise UsageError(f"there is no template {name}", did_you_mean(str(name), names) or "hpcforge init lists them")
    return known[name]


def _answers(given: Given, template: ClusterTemplate, file: Path, site: SiteFile | None) -> Answers:
    name = given.name or _asked("Name of the cluster", (site and site.cluster) or _name_of(file))
    workers, server = template.workers, template.server
    if not site:
        asks = "{{ workers }}" in template.text
        workers = given.workers or (
            int(_asked("Number of GPU workers", str(workers), number=True)) if asks else workers
        )
        server = given.server or _asked("Their model (hpcforge catalog list servers)", server)
    network, network_known = _network_of(site.machines if site else ())
    return Answers(
        name=name,
        domain=given.domain or _asked("DNS domain", (site and site.domain) or f"{name}.internal"),
        user=given.user or _asked("Account on the nodes that may use sudo", (site and site.access.user) or _USER),
        network=given.network or _asked("Network of the nodes", network),
        network_guessed=not (given.network or network_known or sys.stdin.isatty()),
        workers=workers,
        server=server,
    )


def _asked(question: str, usual: str, number: bool = False) -> str:
    """The answer on a terminal, else the usual one."""
    if not sys.stdin.isatty():
        return usual
    if number:
        return str(typer.prompt(question, default=int(usual), type=int, err=True))
    return str(typer.prompt(question, default=usual, err=True))


def _name_of(file: Path) -> str:
    """A cluster's name from a file's: lower-case letters, digits and -, a letter first."""
    plain = re.sub(r"[^a-z0-9-]+", "-", file.stem.lower())
    return re.sub(r"^[0-9-]+", "", plain)[:31].rstrip("-") or "cluster"


def _network_of(machines: Sequence[SiteMachine]) -> tuple[str, bool]:
    """The network that all machines are in, else the smallest of 256 addresses or more for theirs; whether it is sure.

    A network of a few addresses is a cloud's, which has one for each machine.
    """
    [shared, *others] = {machine.network for machine in machines} or {None}
    if shared and not others and ipaddress.IPv4Network(shared).prefixlen <= _LONGEST_PREFIX:
        return shared, True
    addresses = [ipaddress.IPv4Address(machine.address) for machine in machines if machine.address]
    if not addresses:
        return _NETWORK, False
    return str(around(map(str, addresses)) or ipaddress.IPv4Network((min(addresses), 8), strict=False)), False


def _text(path: Path) -> str:
    try:
        return decode(read_named(path, _MOST_BYTES))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "name a file that you can read") from error
    except CellError as error:
        place = f"{path}:{error.mark.line}:{error.mark.column}"
        raise UsageError(f"{place}: {error}", "save it as UTF-8, with an editor or iconv") from error
