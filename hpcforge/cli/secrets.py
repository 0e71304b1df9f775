"""`hpcforge secrets`: make, set, list, show and replace the cluster's secrets."""

from __future__ import annotations

import base64
import getpass
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.options import AsJson, Blueprint, Identity, LabName
from hpcforge.cli.verb import VerbGroup
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import table

if TYPE_CHECKING:
    from hpcforge.run.site import Site
    from hpcforge.run.site_secrets import SiteSecrets

secrets = VerbGroup(
    "They are in an age-encrypted file beside the blueprint. With --lab: those of a real site's rehearsal, in its "
    "folder."
)


@dataclass(frozen=True, kw_only=True)
class SecretsOptions:
    """The secrets that all verbs of `hpcforge secrets` use."""

    blueprint: Blueprint
    lab: LabName = None
    identity: Identity = None

    def command(self, *words: object) -> str:
        """Return a command line for the same secrets."""
        return command_line(*words, lab=self.lab, identity=self.identity)


@dataclass(frozen=True, kw_only=True)
class SecretsListOptions:
    """Options of `hpcforge secrets list`."""

    site: SecretsOptions
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class SecretsNameOptions:
    """One of the secrets."""

    site: SecretsOptions
    name: Annotated[str, typer.Argument(help="The secret's name, as `secrets list` shows it.", show_default=False)]


@dataclass(frozen=True, kw_only=True)
class SecretsShowOptions(SecretsNameOptions):
    """Options of `hpcforge secrets show`."""

    reveal: Annotated[bool, typer.Option("--reveal", help="Print the value even if the output is not a terminal.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class SecretsSetOptions(SecretsNameOptions):
    """Options of `hpcforge secrets set`."""

    as_json: AsJson = False


@secrets.verb(epilog="Example: hpcforge secrets init blueprints/rehearsal.yaml")
def init(options: SecretsOptions) -> int:
    """Create missing secrets, and the key file if there is none. `apply` does this too."""
    from hpcforge.run.site_secrets import secrets_of
    from hpcforge.secrets.secrets import ensure_secrets

    store = secrets_of(_site(options))
    had_key, before = store.key.exists(), store.read()
    made = [name for name in ensure_secrets(store.file, store.key, store.wanted) if name not in before]
    printing.note(f"{store.file}: made {', '.join(made)}\n" if made else f"{store.file}: complete\n")
    _note_new_key(store, had_key)
    return Exit.DONE


@secrets.verb(epilog="Example: hpcforge secrets list blueprints/rehearsal.yaml")
def list_(options: SecretsListOptions) -> int:
    """Show names, sizes, fingerprints, the roles that need them, and what is missing. Never shows a value."""
    from hpcforge.run.site_secrets import fingerprint, origin, purpose, secrets_of

    store = secrets_of(_site(options.site))
    values, kinds, used_by = store.read(), store.kinds, store.wanted_by()
    entries = [
        {
            "name": name,
            "bytes": len(value),
            "fingerprint": fingerprint(kinds, values, name, value),
            "from": origin(kinds, name),
            "roles": used_by.get(name, []),
            "purpose": purpose(kinds, name),
        }
        for name, value in values.items()
    ]
    missing = {name: kind for name, kind in store.wanted.items() if name not in values}
    if options.as_json:
        document = {"schema_version": 1, "secrets": entries, "missing": list(missing)}
        printing.result(json.dumps(document, indent=2) + "\n")
        return Exit.DONE
    cells = [[", ".join(cell) if isinstance(cell, list) else str(cell) for cell in entry.values()] for entry in entries]
    printing.result(table(("name", "bytes", "fingerprint", "from", "roles", "what for"), cells))
    unmade = [name for name, kind in missing.items() if kind.make]
    if unmade:
        command = options.site.command("secrets", "init", options.site.blueprint)
        printing.note(f"not made yet: {', '.join(unmade)}\nNext: {command}\n")
    for name in (name for name in missing if name not in unmade):
        command = options.site.command("secrets", "set", options.site.blueprint, name)
        printing.note(f"not set yet: {name}, which {', '.join(used_by[name])} wants\nNext: {command}\n")
    return Exit.DONE


@secrets.verb(epilog="Example: hpcforge secrets show blueprints/rehearsal.yaml munge_key --reveal | base64 -d")
def show(options: SecretsShowOptions) -> int:
    """Print a value: text unchanged, other data as base64."""
    from hpcforge.secrets.secrets import read_secrets

    site, name = _site(options.site), options.name
    file = site.loaded.secrets_path
    values = read_secrets(file, site.identity)
    if name not in values:
        raise UsageError(f"{file} has no secret {name!r}", f"there are: {', '.join(values) or 'none yet'}")
    if not (options.reveal or printing.on_terminal()):
        raise UsageError("this would write a secret into a file or a pipe", "if you want this, add --reveal")
    printing.result(_printable(values[name]))
    return Exit.DONE


@secrets.verb(epilog="Example: pass show site/licence | hpcforge secrets set site.yaml licence")
def set_(options: SecretsSetOptions) -> int:
    """Set a secret that the site provides, from standard input or a prompt. The next apply brings it to nodes."""
    from hpcforge.metal.bmc_passwords import read_passwords
    from hpcforge.run.site_secrets import fingerprint, secrets_of
    from hpcforge.secrets.secrets import set_secret

    store, name = secrets_of(_site(options.site)), options.name
    had_key = store.key.exists()
    value = _typed(name, binary=name in store.kinds and store.kinds[name].binary)
    read_passwords({name: value}, store.loaded.cluster.nodes)  # raises for invalid passwords of controllers
    changed = set_secret(store.file, store.key, store.kinds, name, value)
    if options.as_json:
        print_ = fingerprint(store.kinds, store.read(), name, value)
        document = {"schema_version": 1, "name": name, "changed": changed, "fingerprint": print_}
        printing.result(json.dumps(document, indent=2) + "\n")
    else:
        printing.note(f"{store.file}: {name} {'is set' if changed else 'is unchanged'}\n")
    _note_new_key(store, had_key)
    if changed:
        verb = ("plan",) if store.kinds[name].on_nodes else ("power", "status")
        command = options.site.command(*verb, options.site.blueprint)
        printing.note(f"{store.kinds[name].rotated}\nNext: {command}\n")
    return Exit.DONE


@secrets.verb(epilog="Example: hpcforge secrets rotate blueprints/rehearsal.yaml munge_key")
def rotate(options: SecretsNameOptions) -> int:
    """Replace a secret with a new value. The next apply brings it to nodes."""
    from hpcforge.run.site_secrets import fingerprint, secrets_of
    from hpcforge.secrets.secrets import rotate_secret

    store, name = secrets_of(_site(options.site)), options.name
    before, kinds = store.read(), store.kinds
    after = rotate_secret(store.file, store.key, kinds, name)
    old = fingerprint(kinds, before, name, before[name]) if name in before else "none"
    printing.note(f"{store.file}: {name} {old} -> {fingerprint(kinds, before, name, after)}\n{kinds[name].rotated}\n")
    if kinds[name].on_nodes:
        printing.note(f"Next: {options.site.command('apply', options.site.blueprint)}\n")
    return Exit.DONE


def _site(options: SecretsOptions) -> Site:
    """Return the blueprint's site; with --lab its rehearsal: that of a real site has its own secrets."""
    from hpcforge.cli.site import open_site
    from hpcforge.cluster import load
    from hpcforge.run.site import Site
    from hpcforge.secrets.secrets import default_identity_path

    loaded = load(options.blueprint, None, judged=False)
    if options.lab is not None and not loaded.wants_lab:
        return open_site(options.blueprint, None, options.lab, options.identity)
    return Site(loaded, loaded.cluster, options.identity or default_identity_path(), None)


def _note_new_key(store: SiteSecrets, had_key: bool) -> None:
    if not had_key and store.key.exists():
        printing.note(f"{store.key}: made; keep a copy in a safe place: without it {store.file} cannot be opened\n")


def _typed(name: str, *, binary: bool) -> bytes:
    """Return the value, typed twice without echo; or standard input, for text without its last line break."""
    from hpcforge.secrets.secrets import LARGEST

    if not sys.stdin.isatty():
        value = sys.stdin.buffer.read(LARGEST + 2)
        return value if binary else value.removesuffix(b"\n")
    first = getpass.getpass(f"{name}: ")
    if getpass.getpass(f"{name}, once more: ") != first:
        raise UsageError("the two values differ", "nothing was changed; run it again")
    return first.encode()


def _printable(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text and all(character.isprintable() or character == "\n" for character in text):
        return text if text.endswith("\n") else text + "\n"
    return base64.b64encode(value).decode() + "\n"
