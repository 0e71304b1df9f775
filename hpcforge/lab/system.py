"""What the system of every rehearsal's node has, whatever it is made of."""

from __future__ import annotations

PACKAGES = ("systemd", "systemd-sysv", "dbus", "openssh-server", "sudo", "iproute2", "ca-certificates")
MASKED_UNITS = ("apt-daily.timer", "apt-daily-upgrade.timer")  # in the midst of a rehearsal they would hold dpkg's lock
APT_CONF = ("etc/apt/apt.conf.d/50lab", 'Acquire::Languages "none";')  # path and line
