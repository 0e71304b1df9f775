"""ssh to a lab's nodes: whether sshd answers, and the command line."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Sequence
from pathlib import Path

from hpcforge.lab.state import Lab


def greets(address: str, patience_s: float = 5) -> bool:
    """Return whether sshd sends its banner, within `patience_s` after the connection."""
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            connection.settimeout(patience_s)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def ssh_argv(
    lab: Lab, node: str, command: Sequence[str] = (), *, known_hosts: Path | None = None, patience_s: int = 15
) -> list[str]:
    """Return the ssh command line into a node: a login shell, or a command with its words passed unchanged.

    `known_hosts`: the file with its host key, else the lab's own. `patience_s`: for a connection.
    """
    options = {
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(known_hosts or lab.known_hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "IdentitiesOnly": "yes",
        "BatchMode": "yes",
        "ConnectTimeout": str(patience_s),
        "LogLevel": "ERROR",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    destination = f"{lab.login_user}@{lab.node(node).address}"
    return [
        "ssh",
        "-F",
        "/dev/null",
        "-i",
        str(lab.key),
        *words,
        destination,
        *([shlex.join(command)] if command else []),
    ]
