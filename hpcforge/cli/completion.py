"""Completion by TAB: blueprints, and the nodes, racks, roles and tests of the blueprint on the command line.

It reads only names, as far as the blueprint can be read: an unfinished blueprint has mistakes, which a TAB does not
report. Each function imports its modules itself, so that the start of a command stays fast.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import typer

IN_ENVIRONMENT = "HPCFORGE_BLUEPRINT"  # names the blueprint where the command line does not
_BEFORE = "_HPCFORGE_BEFORE"  # has the beginning of a word, which bash does not replace
_FUNCTIONS = ("head", "login", "storage", "worker")
_MOST_FILES = 500  # files that a TAB reads
MOST_LISTED = 6  # blueprints of a folder, in a message
_BEGINS = 65_536  # bytes of a file that contain its first keys
_IS_BLUEPRINT = re.compile(r"^name[ \t]*:", re.MULTILINE)  # an inventory does not have this key

Words = Callable[[typer.Context, str], list[str]]


def blueprints(incomplete: str) -> list[str]:
    """Complete the path of a blueprint: in that folder, and one folder deeper."""
    folder, _, begun = incomplete.rpartition("/")
    top = Path(folder or ("/" if incomplete.startswith("/") else "."))
    files = (file for pattern in (f"{begun}*.y*ml", f"{begun}*/*.y*ml") for file in _glob(top, pattern))
    lead = f"{incomplete[: len(incomplete) - len(begun)]}"
    return [f"{lead}{file.relative_to(top)}" for file in islice(files, _MOST_FILES) if _is_blueprint(file)]


def blueprints_here() -> list[str]:
    """Return the blueprints of the folder in which the command runs."""
    return [file.name for file in islice(_glob(Path(), "*.y*ml"), _MOST_FILES) if _is_blueprint(file)]


def nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Complete nodes of the blueprint, or the last part of a hostlist."""
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _nodes(_blueprint(context)) if name.startswith(begun)]


def node_sets(context: typer.Context, incomplete: str) -> list[str]:
    """Complete nodes, racks, functions and partitions; behind `@`, as in clush, the groups of nodes and hardware."""
    begun = os.environ.get(_BEFORE, "")
    before, comma, last = f"{begun}{incomplete}".rpartition(",")
    tree = _blueprint(context)
    names = _marked(tree) if last.startswith("@") else _plain(tree)
    return [f"{before}{comma}{name}"[len(begun) :] for name in dict.fromkeys(names) if name.startswith(last)]


def _plain(tree: object) -> Iterator[str]:
    yield from _nodes(tree)
    yield from _expanded(_keys(tree, "site", "racks"))
    yield from (*_FUNCTIONS, *_keys(tree, "slurm", "partitions"))


def _marked(tree: object) -> Iterator[str]:
    yield from (f"@{function}" for function in _FUNCTIONS)
    yield from (f"@partition:{name}" for name in _keys(tree, "slurm", "partitions"))
    yield from (f"@rack:{name}" for name in _expanded(_keys(tree, "site", "racks")))
    models = (_at(tree, "nodes", key, "hardware") for key in _keys(tree, "nodes"))
    yield from (f"@hardware:{model}" for model in models if isinstance(model, str))


def rejoin_words() -> None:
    """Give typer the words of a line as they were typed: bash splits them at `@`, `:` and `=`.

    bash replaces only the end of the completed word: after the last `:`, or from the last `@`. The beginning of the
    word is set aside for `node_sets`.
    """
    pieces, at = os.environ.get("COMP_WORDS", "").split("\n"), os.environ.get("COMP_CWORD", "")
    if os.environ.get("_HPCFORGE_COMPLETE") != "complete_bash" or not at.isdecimal() or int(at) >= len(pieces):
        return
    words: list[str] = []
    for piece in pieces[: int(at) + 1]:
        before = words[-1] if words else ""
        if piece[:1] == "=" and before.startswith("--"):  # click takes `--option value`, too
            words += filter(None, [piece[1:]])
        elif (
            before.endswith(("@", ":", "=")) or piece[:1] in (":", "=") or (piece == "@" and before[-1:] in (",", "!"))
        ):
            words[-1:] = [f"{before}{piece}"]
        else:
            words.append(piece)
    cut = max(words[-1].rfind(":") + 1, words[-1].rfind("@"), 0)
    os.environ[_BEFORE] = words[-1][:cut]
    words[-1] = words[-1][cut:]
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}


def roles(context: typer.Context, incomplete: str) -> list[str]:
    """Complete roles: shipped, in the folders that the blueprint names, and its Ansible roles."""
    from hpcforge import bundled

    tree, around = _blueprint(context), Path(_first(context) or ".").parent
    listed = tree.get("role_folders") if isinstance(tree, dict) else None
    own = [around / path for path in listed if isinstance(path, str)] if isinstance(listed, list) else []
    site = _at(tree, "software", "site_roles")
    ansible = [
        f"site_{Path(site_role['path']).name}"
        for site_role in site or ()
        if isinstance(site_role, dict) and site_role.get("path")
    ]
    files = (file for folder in (bundled.roles(), *own) for file in _glob(folder, "*/role.yaml"))
    names = [*(file.parent.name for file in files), *ansible]
    return [name for name in names if name.startswith(incomplete)]


def tests(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the blueprint's acceptance tests."""
    return [name for name in _keys(_blueprint(context), "acceptance", "tests") if name.startswith(incomplete)]


def behind_blueprint(completer: Words | None = None) -> Words:
    """Return the completion of `[BLUEPRINT] WORD...` in one list: a blueprint, then the words of `completer`."""

    def offered(context: typer.Context, incomplete: str) -> list[str]:
        words = context.params.get("words") or ()
        rest = list(completer(context, incomplete)) if completer is not None and len(words) <= 1 else []
        return rest if words else [*rest, *blueprints(incomplete)]

    return offered


def rehearsed_nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Complete nodes of the selected rehearsal."""
    lab = _lab(context)
    names = [node.name for node in lab.nodes] if lab else []
    return [name for name in names if name.startswith(incomplete)]


def saves(context: typer.Context, incomplete: str) -> list[str]:
    """Complete saves of the selected rehearsal."""
    lab = _lab(context)
    names = [save.name for save in lab.saves] if lab else []
    return [name for name in names if name.startswith(incomplete)]


def catalog_kinds(incomplete: str) -> list[str]:
    """Complete kinds of models in the catalog."""
    return list(dict.fromkeys(kind for kind, _ in _models() if kind.startswith(incomplete)))


def catalog_models(incomplete: str) -> list[str]:
    """Complete models of the catalog."""
    return [name for _, name in _models() if name.startswith(incomplete)]


def templates(incomplete: str) -> list[str]:
    """Complete templates of `hpcforge init`."""
    from hpcforge.starter.draft import OF_MACHINES, templates

    return [name for name in templates() if name.startswith(incomplete) and name != OF_MACHINES]


def images(incomplete: str) -> list[str]:
    """Complete node images of this machine."""
    from hpcforge.image import store

    try:
        return [name for name in store.names() if name.startswith(incomplete)]
    except OSError:
        return []


def _models() -> list[tuple[str, str]]:
    """Return kind and name of each model."""
    from hpcforge.catalog import load_catalog
    from hpcforge.report.catalog_text import models_of

    return [(model.kind, model.name) for model in models_of(load_catalog())]


def _lab(context: typer.Context) -> Any:
    """Return the record of the rehearsal on the line; None without one, or without permission to read it."""
    from hpcforge.errors import ExpectedError
    from hpcforge.lab import state
    from hpcforge.lab.names import default_lab_name, lab_names

    blueprint = _first(context)
    try:
        names = [context.params.get("lab") or (default_lab_name(Path(blueprint)) if blueprint else None)]
        if names == [None] and len(lab_names()) == 1:
            names = list(lab_names())
        return state.read(names[0]) if names[0] else None
    except (ExpectedError, OSError):
        return None


def _first(context: typer.Context) -> str | None:
    """Return the blueprint on the line, else the environment's.

    Behind an option without its value, click has not parsed the arguments yet.
    """
    words = [context.params.get("blueprint"), *(context.params.get("words") or ()), *context.args]
    words.append(os.environ.get(IN_ENVIRONMENT))
    return next((str(word) for word in words if word and str(word).endswith((".yaml", ".yml"))), None)


def _blueprint(context: typer.Context) -> Any:
    """Return the blueprint on the line, as mappings, lists and text; empty where it is missing or unreadable."""
    path = _first(context)
    if path is None:
        return {}
    from hpcforge.blueprint.includes import with_includes
    from hpcforge.blueprint.reader import plain, read_file

    return plain(with_includes(read_file(Path(path)), Path(path)).document.root)


def _nodes(tree: Any) -> Iterator[str]:
    return _expanded(_keys(tree, "nodes"))


def _expanded(hostlists: Iterable[str]) -> Iterator[str]:
    from hpcforge.blueprint.hostlist import HostlistError, expand

    for text in hostlists:
        try:
            yield from expand(text)
        except HostlistError:  # `validate` reports it
            continue


def _keys(tree: Any, *path: str) -> tuple[str, ...]:
    mapping = _at(tree, *path)
    return tuple(mapping) if isinstance(mapping, dict) else ()


def _at(tree: Any, *path: str) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _glob(folder: Path, pattern: str) -> list[Path]:
    """Return the files that match a pattern, in order; none if the folder is not readable."""
    try:
        return sorted(file for file in folder.glob(pattern) if file.is_file())
    except (OSError, ValueError):  # ValueError: the typed text is an invalid pattern
        return []


def _is_blueprint(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return _IS_BLUEPRINT.search(stream.read(_BEGINS).decode(errors="replace")) is not None
    except OSError:
        return False
