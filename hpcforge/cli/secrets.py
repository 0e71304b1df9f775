"""`hpcforge secrets`: make, set, list, show and replace the cluster's secrets."""

from __future__ import annotations

import base64
import getpass
import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import open_site
from hpcforge.cluster import Loaded, load
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.metal.bmc_passwords import read_passwords
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import Role, declared_secrets
from hpcforge.plan.secrets import uses
from hpcforge.report import printing
from hpcforge.report.text import table
from hpcforge.run.site import Site, compile_site, site_roles, wanted_kinds
from hpcforge.secrets.host_certificates import AUTHORITY, REVOKED, authority_fingerprint
from hpcforge.secrets.secret_files import keyed
from hpcforge.secrets.secrets import (
    LARGEST,
    OF_SITE,
    SecretKinds,
    default_identity_path,
    ensure_secrets,
    kinds_of,
    read_secrets,
    rotate_secret,
    set_secret,
)


@dataclass(frozen=True)
class _Kept:
    """The secrets of a blueprint: where they are, what opens them, and which there are to be."""

    loaded: Loaded
    key: Path
    roles: tuple[Role, ...]

    @property
    def file(self) -> Path:
        return self.loaded.secrets_path

    @property
    def kinds(self) -> SecretKinds:
        """All that roles declare, also those that no node has, and what the site may provide for hpcforge itself."""
        return {**kinds_of(declared_secrets(self.roles)), **OF_SITE}

    @cached_property
    def desired(self) -> Desired:
        return compile_site(self.roles, {}, self.loaded.cluster)

    @property
    def wanted(self) -> SecretKinds:
        """Those that nodes of this blueprint have, or hpcforge itself."""
        return wanted_kinds(self.roles, self.desired)

    def read(self) -> dict[str, bytes]:
        return read_secrets(self.file, self.key)

    def wanted_by(self) -> dict[str, list[str]]:
        """The roles that put a secret into a file of some node, by the secret's name."""
        found: dict[str, dict[str, None]] = {}
        for use in uses(self.desired):
            found.setdefault(use.name, {})[use.role] = None
        return {name: list(roles) for name, roles in found.items()}


def init(blueprint: Path, lab: str | None, identity: Path | None) -> int:
    """Run `hpcforge secrets init`. Returns the exit status."""
    kept = _kept(blueprint, lab, identity)
    had_key, before = kept.key.exists(), kept.read()
    made = [name for name in ensure_secrets(kept.file, kept.key, kept.wanted) if name not in before]
    printing.note(f"{kept.file}: made {', '.join(made)}\n" if made else f"{kept.file}: complete\n")
    _note_new_key(kept, had_key)
    return Exit.DONE


def list_(blueprint: Path, lab: str | None, identity: Path | None, as_json: bool) -> int:
    """Run `hpcforge secrets list`. Returns the exit status."""
    kept = _kept(blueprint, lab, identity)
    known, kinds, wanted_by = kept.read(), kept.kinds, kept.wanted_by()
    entries = [
        {
            "name": name,
            "bytes": len(value),
            "fingerprint": fingerprint(kinds, known, name, value),
            "from": _origin(kinds, name),
            "roles": wanted_by.get(name, []),
            "purpose": _purpose(kinds, name),
        }
        for name, value in known.items()
    ]
    missing = {name: kind for name, kind in kept.wanted.items() if name not in known}
    unmade = [name for name, kind in missing.items() if kind.make]
    unset = [name for name in missing if name not in unmade]
    if as_json:
        printing.result(
            json.dumps({"schema_version": 1, "secrets": entries, "missing": list(missing)}, indent=2) + "\n"
        )
        return Exit.DONE
    cells = [[", ".join(cell) if isinstance(cell, list) else str(cell) for cell in entry.values()] for entry in entries]
    printing.result(table(("name", "bytes", "fingerprint", "from", "roles", "what for"), cells))
    if unmade:
        again = command_line("secrets", "init", blueprint, lab=lab, identity=identity)
        printing.note(f"not made yet: {', '.join(unmade)}\nNext: {again}\n")
    for name in unset:
        again = command_line("secrets", "set", blueprint, name, lab=lab, identity=identity)
        printing.note(f"not set yet: {name}, which {', '.join(wanted_by[name])} wants\nNext: {again}\n")
    return Exit.DONE


def show(blueprint: Path, name: str, lab: str | None, identity: Path | None, reveal: bool) -> int:
    """Run `hpcforge secrets show`. Returns the exit status."""
    site = _site(blueprint, lab, identity)
    file = site.loaded.secrets_path
    known = read_secrets(file, site.identity)
    if name not in known:
        raise UsageError(f"{file} has no secret {name!r}", f"there are: {', '.join(known) or 'none yet'}")
    if not (reveal or printing.on_terminal()):
        raise UsageError("this would write a secret into a file or a pipe", "if you want this, add --reveal")
    printing.result(_printable(known[name]))
    return Exit.DONE


def set_(blueprint: Path, name: str, lab: str | None, identity: Path | None, as_json: bool) -> int:
    """Run `hpcforge secrets set`. Returns the exit status."""
    kept = _kept(blueprint, lab, identity)
    had_key = kept.key.exists()
    value = _given(name, binary=name in kept.kinds and kept.kinds[name].binary)
    read_passwords({name: value}, kept.loaded.cluster.nodes)  # raises what is wrong with those of controllers
    changed = set_secret(kept.file, kept.key, kept.kinds, name, value)
    if as_json:
        print_ = fingerprint(kept.kinds, kept.read(), name, value)
        done = {"schema_version": 1, "name": name, "changed": changed, "fingerprint": print_}
        printing.result(json.dumps(done, indent=2) + "\n")
    else:
        printing.note(f"{kept.file}: {name} {'is set' if changed else 'is unchanged'}\n")
    _note_new_key(kept, had_key)
    if changed:
        verb = ("plan",) if kept.kinds[name].on_nodes else ("power", "status")
        again = command_line(*verb, blueprint, lab=lab, identity=identity)
        printing.note(f"{kept.kinds[name].rotated}\nNext: {again}\n")
    return Exit.DONE


def rotate(blueprint: Path, name: str, lab: str | None, identity: Path | None) -> int:
    """Run `hpcforge secrets rotate`. Returns the exit status."""
    kept = _kept(blueprint, lab, identity)
    before, kinds = kept.read(), kept.kinds
    after = rotate_secret(kept.file, kept.key, kinds, name)
    old = fingerprint(kinds, before, name, before[name]) if name in before else "none"
    printing.note(f"{kept.file}: {name} {old} -> {fingerprint(kinds, before, name, after)}\n{kinds[name].rotated}\n")
    if kinds[name].on_nodes:
        printing.note(f"Next: {command_line('apply', blueprint, lab=lab, identity=identity)}\n")
    return Exit.DONE


def fingerprint(kinds: SecretKinds, known: Mapping[str, bytes], name: str, value: bytes) -> str:
    """What tells two values apart and gives neither away: what is made here has 128 random bits and more."""
    if name == AUTHORITY:
        return authority_fingerprint(value)
    if name in kinds and kinds[name].make:
        return "sha256:" + hashlib.sha256(value).hexdigest()[:16]
    return "hmac:" + keyed(known, value)[:16]  # a site's own may be short enough to be found by its digest


def _site(blueprint: Path, lab: str | None, identity: Path | None) -> Site:
    """That of the blueprint; with `lab` that rehearsal, which has secrets of its own where the site is real."""
    loaded = load(blueprint, None, judged=False)
    if lab is not None and not loaded.wants_lab:
        return open_site(blueprint, None, lab, identity)
    return Site(loaded, loaded.cluster, identity or default_identity_path(), None)


def _kept(blueprint: Path, lab: str | None, identity: Path | None) -> _Kept:
    site = _site(blueprint, lab, identity)
    return _Kept(site.loaded, site.identity, site_roles(site))


def _note_new_key(kept: _Kept, had_key: bool) -> None:
    if not had_key and kept.key.exists():
        printing.note(f"{kept.key}: made; keep a copy in a safe place: without it {kept.file} cannot be opened\n")


def _given(name: str, *, binary: bool) -> bytes:
    """Typed twice on a terminal, without being shown; else standard input, less one line break at a text's end."""
    if not sys.stdin.isatty():
        given = sys.stdin.buffer.read(LARGEST + 2)
        return given if binary else given.removesuffix(b"\n")
    first = getpass.getpass(f"{name}: ")
    if getpass.getpass(f"{name}, once more: ") != first:
        raise UsageError("the two values differ", "nothing was changed; run it again")
    return first.encode()


def _origin(kinds: SecretKinds, name: str) -> str:
    if name not in kinds:
        return "hpcforge" if name == REVOKED else "unused"
    return "hpcforge" if kinds[name].make else "the site"


def _purpose(kinds: SecretKinds, name: str) -> str:
    if name == REVOKED:
        return "host keys of removed or replaced machines, which ssh on nodes refuses"
    return kinds[name].purpose if name in kinds else "no role of this blueprint declares it"


def _printable(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text and all(character.isprintable() or character == "\n" for character in text):
        return text if text.endswith("\n") else text + "\n"
    return base64.b64encode(value).decode() + "\n"
