"""The files and folders of a site: a commit must contain them to identify a run."""

from __future__ import annotations

from pathlib import Path

from hpcforge import bundled
from hpcforge.blueprint.public_keys import is_path
from hpcforge.blueprint.role_declarations import ROLES
from hpcforge.blueprint.untrusted_files import having
from hpcforge.cluster.load.loaded import Loaded


def inputs(loaded: Loaded) -> tuple[Path, ...]:
    """Return the blueprint, then files that it includes, keys, and the folders of roles and smoke tests.

    No secrets, no inventory.
    They include the shipped roles and tests if the blueprint is in a checkout of hpcforge, whose commit has them.
    """
    blueprint, folder = loaded.blueprint, loaded.blueprint_path.absolute().parent
    keys = [folder / key for user in blueprint.users.values() for key in user.keys if is_path(key)]
    repository = blueprint.software.sources.nvidia
    tests = blueprint.acceptance.tests.folders.values() if blueprint.acceptance else ()
    return (
        loaded.blueprint_path,
        *loaded.included,
        *keys,
        *([folder / repository.key] if repository else []),
        *(role_folder for place in loaded.role_folders[1:] for role_folder in having(place, ROLES.file)),
        *(test.path for test in tests if test.path.parent != bundled.smoke_tests()),
        *(role.path for role in loaded.cluster.site_roles),
        *([bundled.roles(), bundled.smoke_tests()] if _in_checkout(loaded.blueprint_path.resolve()) else []),
    )


def _in_checkout(path: Path) -> bool:
    """Return whether a file is in hpcforge's own checkout, and in no repository inside it."""
    root = bundled.root()
    inside = [folder for folder in path.parents if folder.is_relative_to(root)]
    return bool(inside) and (root / ".git").exists() and not any((folder / ".git").exists() for folder in inside[:-1])
