"""Which files and folders a blueprint is read with: what a commit has to have for a run to be known by it. Pure."""

from __future__ import annotations

from pathlib import Path

from hpcforge import shipped
from hpcforge.blueprint.public_keys import is_path
from hpcforge.blueprint.schema import Blueprint


def inputs(blueprint: Blueprint, path: Path) -> tuple[Path, ...]:
    """The blueprint first, then its folders of roles and smoke tests, and files of keys; no secrets, no inventory.

    The shipped folders are among them where the blueprint lies in a checkout of hpcforge, in whose commit they are.
    """
    sources = blueprint.software.sources.nvidia
    keys = [key for user in blueprint.users.values() for key in user.keys if is_path(key)]
    keys += [sources.key] if sources else []
    tests = blueprint.acceptance.folders if blueprint.acceptance else ()
    own = [*blueprint.role_folders, *(role.path for role in blueprint.software.site_roles), *tests, *keys]
    ours = [shipped.roles(), shipped.smoke_tests()] if _in_checkout(path.resolve()) else []
    return path, *(path.parent / one for one in own), *ours


def _in_checkout(path: Path) -> bool:
    """Whether a file is in hpcforge's own checkout, and in no repository inside it."""
    root = shipped.root()
    inside = [folder for folder in path.parents if folder.is_relative_to(root)]
    return bool(inside) and (root / ".git").exists() and not any((one / ".git").exists() for one in inside[:-1])
