"""A node's own disk: an overlay above the base trees, made once, kept while its lab exists."""

from __future__ import annotations

import shutil
import uuid
from functools import partial
from pathlib import Path

from hpcforge.lab import processes
from hpcforge.lab.commands import run
from hpcforge.lab.errors import LabError
from hpcforge.lab.files import write_new
from hpcforge.lab.state import Lab, PlacedNode

# The address is set by the node itself, so that it is back after a reboot inside the node. No default route: a node
# reaches its lab and nothing else.
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
    """The mounted root of a node that does not run, prepared if it is new."""
    home = lab.node_directory(node.name)
    root = home / "root"
    if not (home / "prepared").exists():
        _discard(home)
        _mount_overlay(home, node)
        _prepare(lab, node, root)
        (home / "prepared").touch()
    elif not mounted_under(root):
        _mount_overlay(home, node)
    return root


def forget(lab: Lab, node: str) -> None:
    """Let the next start make another machine: an empty disk, a host key and a machine id of its own."""
    (lab.node_directory(node) / "prepared").unlink(missing_ok=True)


def unmount(directory: Path) -> None:
    """Unmount everything under a directory; `LabError` if something stays."""
    for path in mounted_under(directory):
        # A node that has just ended may hold its files a moment longer.
        if not processes.wait_until(partial(_try_unmount, path), timeout_s=5, every_s=0.1):
            run("umount", "--lazy", path)
    if left := mounted_under(directory):
        raise LabError(f"{left[0]} stays mounted", f"see `fuser -vm {left[0]}`, end what uses it, then try again")


def mounted_under(directory: Path) -> list[Path]:
    """Mount points at or under a directory, deepest first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [Path(line.split()[4]) for line in lines]
    return [point for point in reversed(points) if point.is_relative_to(directory)]


def host_key(lab: Lab, node: str) -> str:
    """A node's public host key as it was made, "ssh-ed25519 AAAA..."."""
    return " ".join((lab.node_directory(node) / "host_key.pub").read_text().split()[:2])


def _try_unmount(path: Path) -> bool:
    try:
        run("umount", path)
    except LabError:
        return False
    return True


def _discard(home: Path) -> None:
    """Remove what a preparation that was cut off has left."""
    unmount(home)
    if home.exists():
        shutil.rmtree(home)
    for part in ("upper", "work", "root"):
        (home / part).mkdir(parents=True)
        (home / part).chmod(0o755)  # the root directory of the node, whatever our umask


def _mount_overlay(home: Path, node: PlacedNode) -> None:
    missing = [layer for layer in node.layers if not Path(layer).is_dir()]
    if missing:
        raise LabError(
            f"node {node.name} lies on {missing[0]}, which is gone",
            "take the lab down and up again: `hpcforge rehearse down`",
        )
    options = f"lowerdir={':'.join(node.layers)},upperdir={home / 'upper'},workdir={home / 'work'}"
    run("mount", "-t", "overlay", "overlay", "-o", options, home / "root")


def _prepare(lab: Lab, node: PlacedNode, root: Path) -> None:
    """Make a node of a copy of the base: its name, keys, address, packages and login user."""
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
    shutil.copyfile(key.with_name(f"{key.name}.pub"), lab.node_directory(node.name) / "host_key.pub")


def _give_login_user(lab: Lab, root: Path) -> None:
    user = lab.login_user
    run("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", user)
    write_new(root / "etc/sudoers.d" / user, f"{user} ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    keys = root / "home" / user / ".ssh/authorized_keys"
    write_new(keys, lab.key.with_name("key.pub").read_text(), 0o600)
    keys.parent.chmod(0o700)
    run("chroot", root, "chown", "-R", f"{user}:", f"/home/{user}/.ssh")
