"""The recipe of a root file system from a lock: packages of every image, and the scripts that mmdebstrap runs.

Its digest is part of a lock (`recipe`): an image of another recipe is another image.
"""

from __future__ import annotations

import hashlib

from hpcforge.image import node_system

# As in a base system of labs, and Python 3, which hpcforge's node program needs.
BASE = (*node_system.PACKAGES, "python3")
KERNEL = "linux-image-cloud-amd64"  # images that virtual machines boot have it; it depends on initramfs-tools and udev
MIRRORS = "mdadm"  # a system on more than one disk needs it
METAL_KERNEL = "linux-image-amd64"  # with drivers of real machines, which the other lacks
ALWAYS = ("?essential", "?priority(required)", "apt")  # the packages of mmdebstrap's variant minbase

# All are called with the tree and the folder of build.py's files.
SETUP = r"""
set -e
mkdir -p "$1/var/cache/apt/archives" "$1/etc/apt/preferences.d"
cp "$2/preferences" "$1/etc/apt/preferences.d/hpcforge-image"
cp -l "$3"/*.deb "$1/var/cache/apt/archives/"
"""

# Units of roles must not start everywhere: head and workers share one image. A unit that no role names (for example a
# package's timer) stays as its package enables it.
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

# Identities of machines, secrets, and differences between two installations of the same packages.
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

# Only times of packages or of the lock, no names of users, entries in order of names.
TAR = (
    "tar", "--create", "--sort=name", "--numeric-owner", "--clamp-mtime", "--xattrs",
    "--xattrs-include=security.capability", "--format=posix",
    "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime",
)  # fmt: skip
ENVIRONMENT = {"PYTHONHASHSEED": "0"}  # else sets in Python's compiled modules have a random order


def digest(apt_options: tuple[str, ...]) -> str:
    """Return the SHA-256 of the recipe; `apt_options` are the host's, which a tree keeps."""
    parts = [*BASE, *ALWAYS, SETUP, PACKAGES, FINISH, *TAR, *apt_options, *map(str, ENVIRONMENT.items())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
