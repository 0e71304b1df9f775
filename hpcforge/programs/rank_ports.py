"""The choice of a port for ranks on a node, and the holder of a port in use. Its text runs there, as a program.

    python3 -I -c TEXT           prints a free port
    python3 -I -c TEXT PORT      prints the holder of this port, if it is in use

Standard output has one event, `{"event": "port", "port": 20417}` or `{"event": "held", "host": "w1", "text": ...}`, or
nothing. The kernel shows the owners of all sockets (/proc/net/tcp), but only the account's own processes.
Standard library only, Python 3.9.
"""

from __future__ import annotations

import json
import os
import pwd
import random
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress

RANGE = range(20000, 30000)  # below Linux's ephemeral ports (32768 and up)


def can_listen(port: int) -> bool:
    """Return whether torch's store could listen on a port, on all addresses; 0: the kernel chooses one."""
    return bound(port) is not None


def bound(port: int) -> int | None:
    """Bind a socket with the options of torch's store; return its port, None if it was refused."""
    for family in (socket.AF_INET6, socket.AF_INET):
        with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            probe.listen(1)
            return int(probe.getsockname()[1])
    return None


def free() -> int | None:
    """Return a free port: a random one of RANGE, or else one that the kernel chooses."""
    ours = list(RANGE)
    random.shuffle(ours)
    return next((port for port in ours if can_listen(port)), None) or bound(0)


def rows(tables: Iterable[str] = ("/proc/net/tcp", "/proc/net/tcp6")) -> Iterator[tuple[int, int, str]]:
    """Yield port, owner's number and inode of each listening or connected TCP socket of this node."""
    for table in tables:
        with suppress(OSError), open(table, encoding="ascii") as file:  # noqa: PTH123
            for words in map(str.split, list(file)[1:]):
                yield int(words[1].rpartition(":")[2], 16), int(words[7]), words[9]


def user(uid: int) -> str:
    """Return an owner's name, or else its number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def process(inode: str) -> str:
    """Return the process of a socket, if this account may see it: ", process 812, python3"."""
    for number in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with suppress(OSError):
            for name in os.listdir(f"/proc/{number}/fd"):  # noqa: PTH208
                if os.readlink(f"/proc/{number}/fd/{name}") == f"socket:[{inode}]":  # noqa: PTH115
                    with open(f"/proc/{number}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                        return f", process {number}, {file.read().strip()}"
    return ""


def held(port: int) -> str:
    """Return the holder of a port, as a sentence."""
    for number, uid, inode in rows():
        if number == port:
            return f"port {port} is held by {user(uid)}{process(inode)}"
    return f"port {port} is held by a socket that does not listen, and the kernel does not say whose"


def exhausted() -> str:
    """Return the message that no port is free, with the owners of sockets."""
    owners = Counter(uid for _, uid, _ in rows()).most_common(3)
    counts = ", ".join(f"{user(uid)} {count}" for uid, count in owners)
    return f"no port is free; sockets by user: {counts or 'none that listens or is connected'}"


def say(event: dict[str, object]) -> None:
    """Print an event as a line."""
    sys.stdout.write(json.dumps(event) + "\n")


def main(arguments: list[str]) -> int:
    """Print a free port, or the holder of the named one; return 1 if no port is free."""
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    if not arguments:
        port = free()
        say({"event": "port", "port": port} if port else {"event": "held", "host": host, "text": exhausted()})
        return 0 if port else 1
    if not can_listen(int(arguments[0])):
        say({"event": "held", "host": host, "text": held(int(arguments[0]))})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
