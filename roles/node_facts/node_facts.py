#!/usr/bin/python3 -IS
"""Print what hpcforge knows of a node as metrics: certificates that end, a restart that is due, age of test results,
limits of power feeds.

Certificates in PEM are read by openssl, those of host keys by ssh-keygen. Standard library, Python 3.9.
"""

import calendar
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Optional

WANTED = "/etc/hpcforge/node_facts.json"
LEASE = "/var/lib/hpcforge/lease.json"  # on the head: while hpcforge works on the cluster it is written again and again
SILENT_S = 120
LIMIT_S = 5.0
RESTART = "/run/reboot-required"  # Debian's packages write it
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def said(*command: str) -> str:
    """What a command prints; nothing where it fails or does not end, with the latter in the log."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False, env=ENVIRONMENT
        )
    except subprocess.TimeoutExpired:
        print(f"{command[0]}: no end within {LIMIT_S:.0f} s", file=sys.stderr)
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def ends_s(path: str) -> Optional[float]:
    """When a certificate ends, seconds since 1970; None if it cannot be read, infinite if never."""
    with contextlib.suppress(OSError, ValueError):
        with open(path, "rb") as file:
            begin = file.read(64)
        if begin.startswith(b"-----BEGIN"):
            text = said("openssl", "x509", "-noout", "-enddate", "-in", path).strip().rpartition("=")[2]
            return calendar.timegm(time.strptime(text, "%b %d %H:%M:%S %Y GMT"))
        found = re.search(r"Valid: (forever|from \S+ to (\S+))", said("ssh-keygen", "-L", "-f", path))
        if found:
            return calendar.timegm(time.strptime(found[2], "%Y-%m-%dT%H:%M:%S")) if found[2] else float("inf")
    return None


def run_active(path: str = LEASE) -> bool:
    """Whether an apply is at work on the cluster."""
    with contextlib.suppress(OSError):
        return time.time() - os.stat(path).st_mtime < SILENT_S
    return False


def clock() -> Iterator[str]:
    """Yield the clock's offset in seconds, and whether it follows a server (chronyc(1), tracking)."""
    with contextlib.suppress(OSError):
        fields = said("chronyc", "-c", "tracking").strip().split(",")
        if len(fields) == 14:
            with contextlib.suppress(ValueError):
                yield f"hpcforge_clock_offset_seconds {float(fields[4])!r}"
                yield f"hpcforge_clock_synchronised {int(fields[13] != 'Not synchronised')}"


def verdicts(path: str) -> Iterator[str]:
    """Yield for each smoke test when it last ended, and whether it passed."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)["kept"]
        oldest: dict[
            str, tuple[float, bool]
        ] = {}  # of a test on several node sets the oldest time, and whether all passed
        for record in kept:
            verdict, time_s = record["verdict"], float(record["time_s"])
            if record.get("part"):
                verdict, time_s = record["part"], float(record["part_s"])
            before_s, passed = oldest.get(verdict["test"], (time_s, True))
            oldest[verdict["test"]] = (min(before_s, time_s), passed and verdict["status"] == "passed")
        for test, (time_s, passed) in sorted(oldest.items()):
            if re.fullmatch(r"[a-z0-9_]{1,64}", test):
                yield f'hpcforge_verdict_seconds{{test="{test}"}} {time_s!r}'
                yield f'hpcforge_verdict_passed{{test="{test}"}} {int(passed)}'


def feeds(limits_w: dict[str, float], shares: dict[str, dict[str, float]]) -> Iterator[str]:
    """Yield each power feed's limit, and the part of each rack's load that it carries, both of the design."""
    for feed, limit_w in limits_w.items():
        yield f'hpcforge_feed_limit_watts{{feed="{feed}"}} {limit_w!r}'
        for rack, share in shares[feed].items():
            yield f'hpcforge_feed_share_ratio{{feed="{feed}",rack="{rack}"}} {share!r}'


def main() -> None:
    """Print all of it."""
    with open(WANTED, encoding="utf-8") as file:
        wanted = json.load(file)
    for path in wanted["certificates"]:
        ends = ends_s(path)
        print(f'hpcforge_certificate_readable{{path="{path}"}} {int(ends is not None)}')
        if ends is not None and ends != float("inf"):
            print(f'hpcforge_certificate_ends_seconds{{path="{path}"}} {ends!r}')
    for line in clock():
        print(line)
    print(f"hpcforge_restart_due {int(os.path.exists(RESTART))}")
    for line in feeds(wanted["feed_limits_w"], wanted["feed_shares"]):
        print(line)
    if wanted["verdicts"]:
        print(f"hpcforge_run_active {int(run_active())}")
        print("\n".join(verdicts(wanted["verdicts"])))


if __name__ == "__main__":
    main()
