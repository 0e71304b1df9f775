"""Which port ranks can meet at on a node, and who holds one that cannot be had. Its text is run there, as a program.

    python3 -I -c TEXT           a free port
    python3 -I -c TEXT PORT      who holds this one, if it cannot be listened on

Standard output has one event, `{"event": "port", "port": 20417}` or `{"event": "held", "host": "w1", "text": ...}`, or
nothing. Owners are those that the kernel tells everybody (/proc/net/tcp); a process by its number only where it is the
account's own. Standard library alone, Python 3.9.
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

RANGE = range(20000, 30000)  # below the ports that Linux hands out by itself (32768 and up)


def can_listen(port: int) -> bool:
    """Whether a store of torch could listen on a port, on all addresses; 0 is one that the kernel chooses."""
    return bound(port) is not None


def bound(port: int) -> int | None:
    """The port that a socket has been given, None if it was refused; with the option that torch's store sets."""
    for family in (socket.AF_INET6, socket.AF_INET):
        with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            probe.listen(1)
            return int(probe.getsockname()[1])
    return None


def free() -> int | None:
    """A port that nothing listens on: one of ours in any order, or else one that the kernel has."""
    ours = list(RANGE)
    random.shuffle(ours)
    return next((port for port in ours if can_listen(port)), None) or bound(0)


def rows(tables: Iterable[str] = ("/proc/net/tcp", "/proc/net/tcp6")) -> Iterator[tuple[int, int, str]]:
    """Port, owner's number and inode of each TCP socket of this node that listens or is connected."""
    for table in tables:
        with suppress(OSError), open(table, encoding="ascii") as file:  # noqa: PTH123
            for words in map(str.split, list(file)[1:]):
                yield int(words[1].rpartition(":")[2], 16), int(words[7]), words[9]


def user(uid: int) -> str:
    """An owner by name, or else by number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def process(inode: str) -> str:
    """The process that has a socket, where this account may see it: ", process 812, python3"."""
    for number in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with suppress(OSError):
            for name in os.listdir(f"/proc/{number}/fd"):  # noqa: PTH208
                if os.readlink(f"/proc/{number}/fd/{name}") == f"socket:[{inode}]":  # noqa: PTH115
                    with open(f"/proc/{number}/comm", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                        return f", process {number}, {file.read().strip()}"
    return ""


def held(port: int) -> str:
    """Who holds a port, in words."""
    for number, uid, inode in rows():
        if number == port:
            return f"port {port} is held by {user(uid)}{process(inode)}"
    return f"port {port} is held by a socket that does not listen, and the kernel does not say whose"


def exhausted() -> str:
    """That no port is free, and whose sockets one sees."""
    owners = Counter(uid for _, uid, _ in rows()).most_common(3)
    counts = ", ".join(f"{user(uid)} {count}" for uid, count in owners)
    return f"no port is free; sockets by user: {counts or 'none that listens or is connected'}"


def say(event: dict[str, object]) -> None:
    """One event, a line."""
    sys.stdout.write(json.dumps(event) + "\n")


def main(arguments: list[str]) -> int:
    """A free port, or who holds the one that is named; 1 if there is none free."""
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
