"""Changes of a site's blueprint and inventory: one process at a time, and only of files that are as they were read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hpcforge.atomic import rewrite_all
from hpcforge.blueprint.edit import with_values
from hpcforge.cluster import Loaded, load
from hpcforge.errors import ChangedFileError, UsageError
from hpcforge.locks import folder_lock

Values = Mapping[tuple[str, str], object]  # by node and key


@contextmanager
def site_lock(loaded: Loaded) -> Iterator[None]:
    """Hold the folders of a site's blueprint and inventory. Raises `OSError`."""
    with folder_lock(*(path.resolve().parent for path in loaded.digests)):
        yield


def current(loaded: Loaded) -> Loaded:
    """Return the site, read again if a file has changed. Call under the lock. Raises InvalidInput."""
    try:
        loaded.require_unchanged()
    except ChangedFileError:
        return load(loaded.blueprint_path, loaded.inventory_path)
    return loaded


def write_texts(loaded: Loaded, texts: Mapping[Path, str]) -> None:
    """Write texts that were made from `loaded`, all or none. Call under the lock.

    Raises `ChangedFileError` if a file of the site is not the one that was read; nothing is written then.
    """
    loaded.require_unchanged()
    rewrite_all(texts)


def add_values(loaded: Loaded, values_of: Callable[[Loaded], Values]) -> Values:
    """Write values into the inventory, all or nothing; return them. `values_of` makes them from the files of now.

    Raises:
        UsageError: the blueprint names no inventory.
        InvalidInput: with them the inventory would be wrong; nothing is written then.
        ChangedFileError: another program changed a file meanwhile; nothing is written then.
    """
    path = loaded.inventory_path
    if path is None:
        raise UsageError("the blueprint names no inventory to write to", "name one with `inventory:`, or --inventory")
    with site_lock(loaded):
        now = current(loaded)
        values = values_of(now)
        if values:
            text = with_values(now.text(path), "nodes", values)
            load(now.blueprint_path, path, instead={path: text})
            write_texts(now, {path: text})
    return values
