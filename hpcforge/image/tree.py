"""An image's archive as the base tree of a lab's nodes (overlays): unpacked once, and never changed afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcforge.host.paths import Progress
from hpcforge.image import node_system, store
from hpcforge.image.long_commands import watched
from hpcforge.image.manifest import Manifest

_TREE = "tree"

# The disks of a rehearsal need not survive a power cut.
_FOR_LABS = (node_system.APT_CONF, ("etc/dpkg/dpkg.cfg.d/50lab", "force-unsafe-io"))


@contextmanager
def tree_of(manifest: Manifest, progress: Progress) -> Iterator[Path]:
    """Yield the tree of an image, and prevent its removal meanwhile.

    Record a lab that uses it inside the context. Raise ImageError if the image is missing, or its archive was changed.
    """
    with store.lock(progress) as handle:
        store.read(manifest.name)  # raises if it is missing
        tree = store.directory(manifest.name) / _TREE
        if not tree.is_dir():
            progress(f"unpacking image {manifest.name}")
            _unpack(manifest, tree, handle)
        yield tree


def _unpack(manifest: Manifest, tree: Path, handle: int) -> None:
    archive, unpacking = store.checked(manifest), store.building(manifest.name)
    root = unpacking / _TREE
    root.mkdir(mode=0o755)
    argv: list[str | Path] = ["tar", "--extract", "--numeric-owner", "--same-permissions", "--xattrs"]
    argv += ["--xattrs-include=security.capability", "--directory", root, "--file", archive]
    watched(argv, unpacking, lambda: None, pass_on=(handle,), with_us=True)
    for name, text in _FOR_LABS:
        (root / name).write_text(f"{text}\n")
    for unit in node_system.MASKED_UNITS:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
    root.rename(tree)
    unpacking.rmdir()
