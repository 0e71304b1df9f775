"""Machines' disks: a node's writes, in a qcow2 above those of saves and the disk of an image.

A disk is a folder `disks/NUMBER` of its node. The node's first disk also has its host key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from hpcforge.host.commands import run
from hpcforge.host.paths import remove_tree
from hpcforge.image import node_system
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab, PlacedNode

_FILE = "disk.qcow2"
_DRIVE = "drive{number}.qcow2"
_DRIVE_SIZE = "4G"  # the machine sees this size, also if another one is declared; on the host it grows with writes
_SIZE = "20G"  # the machine sees this size: its root file system grows to it at its first boot


def written(lab: Lab, node: PlacedNode) -> Path:
    """Return the file of a node's writes since it was made or last saved or restored. Make it if missing."""
    drives(lab, node)
    return _made(lab, node, _FILE, ("-b", _image(node) / node_system.DISK, "-F", "raw"), _SIZE)


def drives(lab: Lab, node: PlacedNode) -> tuple[Path, ...]:
    """Return the files of the node's further drives, in their order. Make them if missing."""
    names = (_DRIVE.format(number=number) for number in range(node.drives))
    return tuple(_made(lab, node, name, (), _DRIVE_SIZE) for name in names)


def _made(lab: Lab, node: PlacedNode, name: str, made_on: Sequence[str | Path], size: str) -> Path:
    """Make a file of the node's own disk: above that of the last save, else above its base."""
    path = _disk(lab, node, 0) / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name("new")
        new.unlink(missing_ok=True)
        # A relative path: a lab's folder may be moved.
        below = ("-b", f"../{node.disks[1]}/{name}", "-F", "qcow2") if len(node.disks) > 1 else made_on
        run("qemu-img", "create", "-q", "-f", "qcow2", *below, new, size, cwd=path.parent)
        new.rename(path)
    return path


def kernel(node: PlacedNode) -> Path:
    return _image(node) / node_system.KERNEL


def initrd(node: PlacedNode) -> Path:
    """Return the initrd that all machines of its image share."""
    return _image(node) / node_system.INITRD


def made_on(lab: Lab, node: PlacedNode) -> Path:
    """Return the folder of the disk that the node was made on, with the machine's permanent files."""
    return _disk(lab, node, -1)


def private_host_key(lab: Lab, node: PlacedNode) -> Path:
    """Return a node's private host key, made if missing."""
    key = made_on(lab, node) / "host_key"
    if host_key(lab, node) is None:
        key.parent.mkdir(parents=True, exist_ok=True)
        key.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{node.name}", "-f", key)
    return key


def host_key(lab: Lab, node: PlacedNode) -> str | None:
    """Return the public host key that a node was made with, "ssh-ed25519 AAAA..."; None: it was not made yet."""
    public = made_on(lab, node) / "host_key.pub"
    return " ".join(public.read_text().split()[:2]) if public.exists() and public.stat().st_size else None


def check(lab: Lab, node: PlacedNode) -> None:
    """Raise `LabError` if a disk or base of a node is missing."""
    files = (_FILE, *(_DRIVE.format(number=number) for number in range(node.drives)))
    lower = [_disk(lab, node, place) / name for place in range(1, len(node.disks)) for name in files]
    of_image = [
        Path(layer) / name
        for layer in node.layers
        for name in (node_system.DISK, node_system.KERNEL, node_system.INITRD)
    ]
    if missing := [path for path in (*lower, *of_image) if not path.is_file()]:
        raise LabError(
            f"node {node.name} uses {missing[0]}, which is missing",
            "take the lab down and up again: `hpcforge rehearse down`",
        )


def remove_others(lab: Lab, keep: Collection[tuple[str, int]]) -> None:
    """Remove all disks except these (node and number), and leftovers of nodes without disks."""
    for disk in lab.directory.glob("nodes/*/disks/*"):
        if (disk.parents[1].name, int(disk.name)) not in keep:
            remove_tree(disk)
    for home in lab.directory.glob("nodes/*"):
        if not any(node == home.name for node, _ in keep):
            remove_tree(home)


def sizes_kib(lab: Lab, disks: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the size of each disk (node and number) on the host, KiB."""
    folders = {disk: lab.node_directory(disk[0]) / "disks" / str(disk[1]) for disk in disks}
    sizes = {disk: [path.stat().st_blocks for path in folder.glob("*.qcow2")] for disk, folder in folders.items()}
    return {disk: sum(blocks) // 2 for disk, blocks in sizes.items() if blocks}


def _disk(lab: Lab, node: PlacedNode, place: int) -> Path:
    return lab.node_directory(node.name) / "disks" / str(node.disks[place])


def _image(node: PlacedNode) -> Path:
    return Path(node.layers[0])
