"""`hpcforge secrets`: make, list, show and replace what the cluster's nodes share and nobody else may know."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import load
from hpcforge.errors import UsageError
from hpcforge.program import typed
from hpcforge.report import printing
from hpcforge.report.text import table
from hpcforge.run.host_certificates import AUTHORITY, REVOKED, authority_fingerprint
from hpcforge.run.secrets import KINDS, default_identity_path, ensure_secrets, read_secrets, rotate_secret


def init(blueprint: Path, identity: Path | None) -> int:
    """Do what the help of `hpcforge secrets init` says; the exit status."""
    file, key = _files(blueprint, identity)
    had_key = key.exists()
    before = read_secrets(file, key)
    made = [name for name in ensure_secrets(file, key) if name not in before]
    printing.note(f"{file}: made {', '.join(made)}\n" if made else f"{file}: nothing is missing\n")
    if not had_key:
        printing.note(f"{key}: made; keep a copy of it in a safe place: without it {file} cannot be opened\n")
    return Exit.DONE


def list_(blueprint: Path, identity: Path | None, as_json: bool) -> int:
    """Do what the help of `hpcforge secrets list` says; the exit status."""
    file, key = _files(blueprint, identity)
    known = read_secrets(file, key)
    rows = [(name, len(value), fingerprint(name, value), _purpose(name)) for name, value in known.items()]
    missing = [name for name in KINDS if name not in known]
    if as_json:
        entries = [dict(zip(("name", "bytes", "fingerprint", "purpose"), row, strict=True)) for row in rows]
        printing.result(json.dumps({"schema_version": 1, "secrets": entries, "missing": missing}, indent=2) + "\n")
        return Exit.DONE
    printing.result(table(("name", "bytes", "fingerprint", "what for"), [[str(cell) for cell in row] for row in rows]))
    if missing:
        again = typed("secrets", "init", blueprint, identity=identity)
        printing.note(f"not made yet: {', '.join(missing)}\nNext: {again}\n")
    return Exit.DONE


def show(blueprint: Path, name: str, identity: Path | None, reveal: bool) -> int:
    """Do what the help of `hpcforge secrets show` says; the exit status."""
    file, key = _files(blueprint, identity)
    known = read_secrets(file, key)
    if name not in known:
        raise UsageError(f"there is no secret {name!r} in {file}", f"there are: {', '.join(known) or 'none yet'}")
    if not (reveal or printing.on_terminal()):
        raise UsageError("this would write a secret into a file or a pipe", "if that is what you want, add --reveal")
    printing.result(_printable(known[name]))
    return Exit.DONE


def rotate(blueprint: Path, name: str, identity: Path | None) -> int:
    """Do what the help of `hpcforge secrets rotate` says; the exit status."""
    file, key = _files(blueprint, identity)
    before = read_secrets(file, key).get(name)
    after = rotate_secret(file, key, name)
    old = fingerprint(name, before) if before is not None else "none"
    printing.note(f"{file}: {name} {old} -> {fingerprint(name, after)}\n{KINDS[name].rotated}\n")
    if KINDS[name].on_nodes:
        printing.note(f"Next: {typed('apply', blueprint, identity=identity)}\n")
    return Exit.DONE


def fingerprint(name: str, value: bytes) -> str:
    """What tells two values apart and gives neither away: all of these have 128 random bits and more."""
    if name == AUTHORITY:
        return authority_fingerprint(value)
    return "sha256:" + hashlib.sha256(value).hexdigest()[:16]


def _files(blueprint: Path, identity: Path | None) -> tuple[Path, Path]:
    return load(blueprint, None, judged=False).secrets_path, identity or default_identity_path()


def _purpose(name: str) -> str:
    if name == REVOKED:
        return "host keys of machines that left or were replaced: ssh on nodes refuses them"
    return KINDS[name].purpose if name in KINDS else "not made by this version of hpcforge"


def _printable(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text and all(character.isprintable() or character == "\n" for character in text):
        return text if text.endswith("\n") else text + "\n"
    return base64.b64encode(value).decode() + "\n"
