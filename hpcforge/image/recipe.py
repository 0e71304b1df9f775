"""How a root file system is made of a lock: packages that every image has, and the scripts that mmdebstrap runs.

What these say is part of a lock (`recipe`): an image of another recipe is another image.
"""

from __future__ import annotations

import hashlib

from hpcforge.image import node_system

# As in a base system of labs, and Python 3, without which nothing of hpcforge's runs on a node.
BASE = (*node_system.PACKAGES, "python3")
KERNEL = "linux-image-cloud-amd64"  # of images that virtual machines boot; brings initramfs-tools and udev
MIRRORS = "mdadm"  # where the system lies on more than one disk
METAL_KERNEL = "linux-image-amd64"  # with the drivers of real machines, which the other lacks
ALWAYS = ("?essential", "?priority(required)", "apt")  # what mmdebstrap's variant minbase is made of

# All are called with the tree and the folder of the files that build.py lays beside them.
SETUP = r"""
set -e
mkdir -p "$1/var/cache/apt/archives" "$1/etc/apt/preferences.d"
cp "$2/preferences" "$1/etc/apt/preferences.d/hpcforge-image"
cp -l "$3"/*.deb "$1/var/cache/apt/archives/"
"""

# What roles start where they want it must not start everywhere: one image is for head and workers. A unit that no role
# names (a timer that comes with a package, say) stays as its package has it.
PACKAGES = r"""
set -e
links() { find "$1/etc/systemd/system" -type l | LC_ALL=C sort; }
links "$1" > "$2/links-before"
xargs -r -a "$2/packages" env -u APT_CONFIG chroot "$1" apt-get -oAPT::Install-Recommends=false --yes -q install --
links "$1" > "$2/links-after"
LC_ALL=C comm -13 "$2/links-before" "$2/links-after" | while IFS= read -r link; do
  target=$(readlink "$link")
  if printf '%s\n' "${link##*/}" "${target##*/}" | grep -qxFf "$2/units"; then rm "$link"; fi
done
"""

# What tells machines apart, what is secret, and what two installations of the same packages have differently.
FINISH = r"""
set -e
cd "$1"
rm -f etc/ssh/ssh_host_* etc/hostname etc/munge/munge.key etc/ssl/private/ssl-cert-snakeoil.key \
  var/lib/dbus/machine-id var/lib/systemd/random-seed var/lib/systemd/credential.secret \
  etc/apt/preferences.d/hpcforge-image etc/dpkg/dpkg.cfg.d/99mmdebstrap \
  etc/.pwd.lock etc/passwd- etc/shadow- etc/group- etc/gshadow- etc/subuid- etc/subgid- \
  var/lib/dpkg/*-old var/cache/debconf/*-old var/cache/apt/*.bin var/cache/ldconfig/aux-cache
: > etc/machine-id
: > etc/resolv.conf
find var/backups tmp var/tmp run var/lib/apt/lists var/cache/apt/archives -mindepth 1 ! -type d -delete
find var/log -type f -exec truncate --size=0 -- {} +
"""

# No times but those of packages or the lock's own, no names of users, no order but that of names.
TAR = (
    "tar", "--create", "--sort=name", "--numeric-owner", "--clamp-mtime", "--xattrs",
    "--xattrs-include=security.capability", "--format=posix",
    "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
)  # fmt: skip
ENVIRONMENT = {"PYTHONHASHSEED": "0"}  # else sets in Python's compiled modules have another order each time


def digest(apt_options: tuple[str, ...]) -> str:
    """SHA-256 of all this; `apt_options` are the host's, which a tree keeps."""
    parts = [*BASE, *ALWAYS, SETUP, PACKAGES, FINISH, *TAR, *apt_options, *map(str, ENVIRONMENT.items())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
