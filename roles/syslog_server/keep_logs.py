#!/usr/bin/python3 -IS
"""Rotate the logs of all nodes, and keep their folder within its limit. A timer runs it each minute.

    hpcforge-keep-logs LOGROTATE_CONFIGURATION FOLDER GIB

The limit is GIB, and at most a quarter of the folder's file system. Above it the node that has most loses its oldest
rotated file, until the rest fits: a node that floods displaces no other node's logs. Standard library, Python 3.9.
"""

import os
import re
import stat
import subprocess
import sys
from typing import NamedTuple

ROTATED = re.compile(r"(.+)\.log(?:\.([0-9]{1,4})(?:\.gz)?)?")  # NODE.log, NODE.log.1, NODE.log.2.gz
LIMIT_S = 300.0
GIB = 1 << 30


class Log(NamedTuple):
    """A file of the folder."""

    node: str
    age: int  # 0: the present file
    name: str
    size: int  # bytes on disk


def logs(folder: str) -> "list[Log]":
    """Return the logs in a folder; no link is followed."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            match = ROTATED.fullmatch(entry.name)
            status = entry.stat(follow_symlinks=False)
            if match and stat.S_ISREG(status.st_mode):
                found.append(Log(match[1], int(match[2] or 0), entry.name, status.st_blocks * 512))
    return found


def surplus(there: "list[Log]", limit: int) -> "list[Log]":
    """Return the rotated files to remove, so that the rest is within a limit of bytes or has no more rotated files."""
    used: "dict[str, int]" = {}
    rotated: "dict[str, list[Log]]" = {}
    for log in sorted(there, key=lambda log: log.age):
        used[log.node] = used.get(log.node, 0) + log.size
        if log.age:
            rotated.setdefault(log.node, []).append(log)
    removed, total = [], sum(used.values())
    while total > limit and rotated:
        node = max(rotated, key=lambda node: used[node])
        log = rotated[node].pop()
        removed.append(log)
        total -= log.size
        used[node] -= log.size
        if not rotated[node]:
            del rotated[node]
    return removed


def main(configuration: str, folder: str, gib: str) -> int:
    """Do both. Returns the exit status."""
    try:
        done = subprocess.run(
            ("/usr/sbin/logrotate", configuration), stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False
        )
        status = done.returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"logrotate: {error}", file=sys.stderr)
        status = 1
    disk = os.statvfs(folder)
    removed = surplus(logs(folder), min(int(gib) * GIB, disk.f_blocks * disk.f_frsize // 4))
    for log in removed:
        os.unlink(os.path.join(folder, log.name))
    if removed:
        nodes = ", ".join(sorted({log.node for log in removed}))
        print(f"{folder} was above its limit: removed {len(removed)} rotated files of {nodes}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
