"""What the system of every rehearsal's node has, whatever it is made of, and what machines boot it from."""

from __future__ import annotations

PACKAGES = ("systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "iproute2", "ca-certificates")
MASKED_UNITS = ("apt-daily.timer", "apt-daily-upgrade.timer")  # in the midst of a rehearsal they would hold dpkg's lock
APT_CONF = ("etc/apt/apt.conf.d/50lab", 'Acquire::Languages "none";')  # path and line
DISK, KERNEL, INITRD = "root.ext4", "vmlinuz", "initrd.img"  # the files of an image's disk
