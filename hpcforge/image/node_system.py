"""The common system of all rehearsals' nodes, and the files from which machines boot it."""

from __future__ import annotations

PACKAGES = ("systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "iproute2", "ca-certificates")
MASKED_UNITS = ("apt-daily.timer", "apt-daily-upgrade.timer")  # they would hold dpkg's lock during a rehearsal
APT_CONF = ("etc/apt/apt.conf.d/50lab", 'Acquire::Languages "none";')  # path and line
DISK, KERNEL, INITRD = "root.ext4", "vmlinuz", "initrd.img"  # the files of an image's disk
