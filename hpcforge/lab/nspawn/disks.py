"""Nodes' disks: a node's writes, in an overlay above the base trees and the disks of saves.

A disk is a directory `disks/NUMBER` of its node. The node's first disk also has its public host key, and the mark that
it was prepared.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections.abc import Collection
from functools import partial
from pathlib import Path

from hpcforge.host import processes
from hpcforge.host.commands import HostError, run
from hpcforge.host.paths import remove_tree
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab, PlacedNode


# Files of trees under construction.
def write_new(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of an unused tree, replacing the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # never through a symbolic link of the tree into the host
    path.write_text(text)
    path.chmod(mode)


# The node itself sets the address, also after a reboot. No default route: a node reaches only its lab.
_NETWORK_UNIT = """\
[Unit]
Description=Address on the lab's bridge
DefaultDependencies=no
After=local-fs.target
Before=network-pre.target network.target
Wants=network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/ip address replace {address}/{prefix} dev host0
ExecStart=/bin/ip link set host0 up

[Install]
WantedBy=multi-user.target
"""


def mount(lab: Lab, node: PlacedNode) -> Path:
    """Mount the root of a stopped node, prepared if it is new."""
    home = lab.node_directory(node.name)
    root = home / "root"
    if not prepared(lab, node):
        _discard(lab, node)
        _mount_overlay(lab, node)
        _prepare(lab, node, root)
        (_made_on(lab, node) / "prepared").touch()
    elif not mounted_under(root):
        _mount_overlay(lab, node)
    return root


def prepared(lab: Lab, node: PlacedNode) -> bool:
    """Return whether the node is prepared: with a host key, a name and an address."""
    return (_made_on(lab, node) / "prepared").exists()


def written(lab: Lab, node: PlacedNode) -> Path:
    """Return the folder of a node's writes since it was made or last saved or restored. Make it if missing."""
    upper = _disk(lab, node, 0) / "upper"
    if not upper.exists():
        new = upper.with_name("new")
        new.mkdir(parents=True, exist_ok=True)
        # The root directory of the node: independent of the umask, and with the node's own changes.
        below = (_disk(lab, node, 1) / "upper").stat() if len(node.disks) > 1 else None
        new.chmod(0o755 if below is None else stat.S_IMODE(below.st_mode))
        os.chown(new, below.st_uid if below else 0, below.st_gid if below else 0)
        new.rename(upper)
    return upper


def check(lab: Lab, node: PlacedNode) -> None:
    """Raise `LabError` if a disk or base of a node is missing."""
    lower = [str(_disk(lab, node, place) / "upper") for place in range(1, len(node.disks))]
    missing = [layer for layer in (*lower, *node.layers) if not Path(layer).is_dir()]
    if missing:
        raise LabError(
            f"node {node.name} uses {missing[0]}, which is missing",
            "take the lab down and up again: `hpcforge rehearse down`",
        )


def remove_others(lab: Lab, keep: Collection[tuple[str, int]]) -> None:
    """Remove all disks except these (node and number), and leftovers of nodes without disks."""
    unwanted = [
        disk for disk in lab.directory.glob("nodes/*/disks/*") if (disk.parents[1].name, int(disk.name)) not in keep
    ]
    for disk in unwanted:
        remove_tree(disk)
    for home in lab.directory.glob("nodes/*"):
        if not any(node == home.name for node, _ in keep):
            unmount(home)
            remove_tree(home)


def sizes_kib(lab: Lab, disks: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Return the size of each disk (node and number) on the host, KiB."""
    paths = {disk: lab.node_directory(disk[0]) / "disks" / str(disk[1]) / "upper" for disk in disks}
    existing = {disk: path for disk, path in paths.items() if path.is_dir()}
    output = run("du", "--summarize", "--block-size=1K", *existing.values()) if existing else ""
    return {disk: int(line.split()[0]) for disk, line in zip(existing, output.splitlines(), strict=True)}


def unmount(directory: Path) -> None:
    """Unmount everything under a directory; `LabError` if something stays."""
    for path in mounted_under(directory):
        # An ended node may keep its files open for a moment.
        if not processes.wait_until(partial(_try_unmount, path), timeout_s=5, every_s=0.1):
            run("umount", "--lazy", path)
    if busy := mounted_under(directory):
        raise LabError(f"{busy[0]} stays mounted", f"see `fuser -vm {busy[0]}`, end these processes, then try again")


def mounted_under(directory: Path) -> list[Path]:
    """Return the mount points at or under a directory, deepest first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(line.split()[4]) for line in lines]
    return [point for point in reversed(points) if point.is_relative_to(directory)]


def host_key(lab: Lab, node: PlacedNode) -> str | None:
    """Return a node's public host key, "ssh-ed25519 AAAA..."; None: it is not prepared yet."""
    if not prepared(lab, node):
        return None
    return " ".join((_made_on(lab, node) / "host_key.pub").read_text().split()[:2])


def _disk(lab: Lab, node: PlacedNode, place: int) -> Path:
    return lab.node_directory(node.name) / "disks" / str(node.disks[place])


def _made_on(lab: Lab, node: PlacedNode) -> Path:
    return _disk(lab, node, -1)


def _try_unmount(path: Path) -> bool:
    try:
        run("umount", path)
    except HostError:
        return False
    return True


def _discard(lab: Lab, node: PlacedNode) -> None:
    """Remove leftovers of an interrupted preparation."""
    unmount(lab.node_directory(node.name))
    if _made_on(lab, node).exists():
        remove_tree(_made_on(lab, node))


def _mount_overlay(lab: Lab, node: PlacedNode) -> None:
    check(lab, node)
    upper = written(lab, node)
    work, root = upper.with_name("work"), lab.node_directory(node.name) / "root"
    for directory in (work, root):
        directory.mkdir(exist_ok=True)
    # Relative paths are short: all options of a mount together have a page. Options that may depend on the host are
    # set: an index, or redirected directories, would bind a disk to the stack that it was written on.
    options = [
        f"lowerdir={':'.join((*(f'{disk}/upper' for disk in node.disks[1:]), *node.layers))}",
        f"upperdir={node.disks[0]}/upper,workdir={node.disks[0]}/work",
        "index=off,redirect_dir=off,metacopy=off",
    ]
    run("mount", "-t", "overlay", "overlay", "-o", ",".join(options), root, cwd=upper.parents[1])


def _prepare(lab: Lab, node: PlacedNode, root: Path) -> None:
    """Prepare a node's root: its name, keys, address, packages and login user."""
    write_new(root / "etc/hostname", f"{node.name}\n")
    write_new(root / "etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n::1 localhost ip6-localhost\n")
    write_new(root / "etc/machine-id", f"{uuid.uuid4().hex}\n", 0o444)
    write_new(
        root / "etc/apt/apt.conf.d/90lab-proxy", f'Acquire::http::Proxy "http://{lab.gateway}:{lab.packages_port}";\n'
    )
    unit = root / "etc/systemd/system/lab-network.service"
    write_new(unit, _NETWORK_UNIT.format(address=node.address, prefix=lab.network_address.prefixlen))
    wants = unit.with_name("multi-user.target.wants") / unit.name
    wants.parent.mkdir(exist_ok=True)
    wants.symlink_to(f"../{unit.name}")
    _give_host_key(lab, node, root)
    _give_login_user(lab, root)


def _give_host_key(lab: Lab, node: PlacedNode, root: Path) -> None:
    key = root / "etc/ssh/ssh_host_ed25519_key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{node.name}", "-f", key)
    shutil.copyfile(key.with_name(f"{key.name}.pub"), _made_on(lab, node) / "host_key.pub")


def _give_login_user(lab: Lab, root: Path) -> None:
    user = lab.login_user
    number = [] if lab.login_uid is None else [f"--uid={lab.login_uid}", f"--gid={lab.login_uid}"]
    if number:  # the blueprint's number: a default one may conflict with its accounts
        run("chroot", root, "groupadd", f"--gid={lab.login_uid}", user)
    run("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", *number, user)
    write_new(root / "etc/sudoers.d" / user, f"{user} ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    keys = root / "home" / user / ".ssh/authorized_keys"
    write_new(keys, lab.key.with_name("key.pub").read_text(), 0o600)
    keys.parent.chmod(0o700)
    run("chroot", root, "chown", "-R", f"{user}:", f"/home/{user}/.ssh")
