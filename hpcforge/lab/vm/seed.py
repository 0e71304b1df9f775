"""The identity that an image gets on a machine: name, address, machine id, host key, login user and package proxy.
Pure.

All nodes boot the image's disk, kernel and initrd. A node's own files are in a second initrd, which the kernel unpacks
over the first: a script of initramfs-tools unpacks a tar archive into the mounted root, once.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

from hpcforge.image import node_system

_MADE = "etc/lab-machine"  # written last
_SCRIPT = "scripts/local-bottom/lab-machine"

# In the initrd, with the root mounted. If it fails, the machine still boots, and its console has the reason.
_UNPACK = f"""\
#!/bin/sh
[ "$1" = prereqs ] && exit 0
[ -e "$rootmnt/{_MADE}" ] && exit 0
chroot "$rootmnt" /bin/tar --extract --numeric-owner --same-permissions --overwrite --file - < /lab/machine.tar &&
  chroot "$rootmnt" /bin/sh /etc/lab-machine.sh || echo "lab-machine: this machine was not given its name and keys"
"""
_ORDER = f"""\
/{_SCRIPT} "$@"
[ -e /conf/param.conf ] && . /conf/param.conf
"""

# In the root, before its first process.
_MAKE = """\
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
number={uid}
if ! id {user} > /dev/null 2>&1; then
  if [ -n "$number" ]; then groupadd --gid="$number" {user}; fi
  useradd --create-home --shell /bin/bash ${{number:+--uid="$number" --gid="$number"}} {user}
fi
mkdir -p /home/{user}/.ssh
mv /etc/lab-machine.keys /home/{user}/.ssh/authorized_keys
chmod 0700 /home/{user}/.ssh
chown -R {user}: /home/{user}/.ssh
rm /etc/lab-machine.sh
sync
echo {name} > /{made}
"""

# No default route: a node reaches its lab and nothing else.
_NETWORK = """\
[Match]
PermanentMACAddress={mac}

[Link]
RequiredForOnline=yes

[Network]
Address={address}/{prefix}
LinkLocalAddressing=no
IPv6AcceptRA=no
"""

# A card for access from outside of the lab. Its routes and name servers are not used.
_OUTSIDE = """\
[Match]
PermanentMACAddress={mac}

[Link]
RequiredForOnline=no

[Network]
DHCP=ipv4
LinkLocalAddressing=no
IPv6AcceptRA=no

[DHCPv4]
UseRoutes=no
UseDNS=no
UseNTP=no
UseHostname=no
"""

_LINK = """\
[Match]
PermanentMACAddress={mac}

[Link]
Name={name}
"""


@dataclass(frozen=True)
class Identity:
    """The identity of a machine."""

    name: str
    address: str
    prefix: int
    mac: str
    names: Mapping[str, str]  # names of its cards by MAC address; others have the kernel's names
    machine_id: str
    host_key: str  # private, as OpenSSH writes it
    host_key_pub: str
    login_user: str
    login_uid: int | None
    login_key_pub: str
    packages: str  # host:port of the lab's package proxy
    by_dhcp: str | None = None  # the MAC address of a card with an address by DHCP


def initrd(identity: Identity) -> bytes:
    """Return the second initrd of a machine, to be appended to the image's. It holds the private host key."""
    return _cpio(
        {
            "lab": None,
            "lab/machine.tar": (0o600, _tar(_files(identity), _links())),
            "scripts": None,
            "scripts/local-bottom": None,
            "scripts/local-bottom/ORDER": (0o644, _ORDER.encode()),
            _SCRIPT: (0o755, _UNPACK.encode()),
        }
    )


def _files(identity: Identity) -> dict[str, tuple[int, str]]:
    uid = "" if identity.login_uid is None else str(identity.login_uid)
    return {
        "etc/hostname": (0o644, f"{identity.name}\n"),
        "etc/hosts": (0o644, f"127.0.0.1 localhost\n127.0.1.1 {identity.name}\n::1 localhost ip6-localhost\n"),
        "etc/machine-id": (0o444, f"{identity.machine_id}\n"),
        "etc/fstab": (0o644, "/dev/vda / ext4 errors=remount-ro,x-systemd.growfs 0 1\n"),
        "etc/ssh/ssh_host_ed25519_key": (0o600, identity.host_key),
        "etc/ssh/ssh_host_ed25519_key.pub": (0o644, identity.host_key_pub),
        f"etc/sudoers.d/{identity.login_user}": (0o440, f"{identity.login_user} ALL=(ALL) NOPASSWD: ALL\n"),
        "etc/systemd/network/10-lab.network": (
            0o644,
            _NETWORK.format(mac=identity.mac, address=identity.address, prefix=identity.prefix),
        ),
        **{
            f"etc/systemd/network/10-lab-{name}.link": (0o644, _LINK.format(mac=mac, name=name))
            for mac, name in identity.names.items()
        },
        **(
            {"etc/systemd/network/20-outside.network": (0o644, _OUTSIDE.format(mac=identity.by_dhcp))}
            if identity.by_dhcp
            else {}
        ),
        "etc/apt/apt.conf.d/90lab-proxy": (0o644, f'Acquire::http::Proxy "http://{identity.packages}";\n'),
        node_system.APT_CONF[0]: (0o644, f"{node_system.APT_CONF[1]}\n"),
        # Emulated, with several machines on few cores, services take minutes to start.
        "etc/systemd/system.conf.d/lab.conf": (0o644, "[Manager]\nDefaultTimeoutStartSec=15min\n"),
        "etc/lab-machine.keys": (0o600, identity.login_key_pub),
        "etc/lab-machine.sh": (0o600, _MAKE.format(uid=uid, user=identity.login_user, name=identity.name, made=_MADE)),
    }


def _links() -> dict[str, str]:
    units = "etc/systemd/system"
    return {
        **{f"{units}/{unit}": "/dev/null" for unit in node_system.MASKED_UNITS},
        f"{units}/multi-user.target.wants/systemd-networkd.service": "/lib/systemd/system/systemd-networkd.service",
    }


def _tar(files: Mapping[str, tuple[int, str]], links: Mapping[str, str]) -> bytes:
    """Return a tar archive of root's files and links, without folders: the image's folders stay unchanged."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, (mode, text) in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, len(content)
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()


def _cpio(entries: Mapping[str, tuple[int, bytes] | None]) -> bytes:
    """Return an archive in the kernel's format ("newc"), owned by root; None is a folder."""
    out = bytearray()
    for number, (name, entry) in enumerate([*entries.items(), ("TRAILER!!!", (0, b""))], start=1):
        mode, content = (0o040755, b"") if entry is None else (0o100000 | entry[0], entry[1])
        words = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + "".join(f"{word:08x}" for word in words).encode()
        out += name.encode() + b"\0"
        out += bytes(-len(out) % 4)
        out += content
        out += bytes(-len(out) % 4)
    return bytes(out)
