#!/usr/bin/python3 -BIS
"""Print what hpcforge knows of a node as metrics: certificates that end, a restart that is due, age of test results,
limits of power feeds.

Certificates in PEM are read by openssl, those of host keys by ssh-keygen. Standard library, Python 3.9.
"""

import calendar
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Optional

sys.path.insert(0, "/usr/lib/hpcforge")
import metric_sources

COLLECTOR = "facts"
WANTED = "/etc/hpcforge/node_facts.json"
LEASE = "/var/lib/hpcforge/lease.json"  # on the head: while hpcforge works on the cluster it is written again and again
SILENT_S = 120
RESTART = "/run/reboot-required"  # Debian's packages write it
Sample = metric_sources.Sample


def ends_s(path: str) -> Optional[float]:
    """When a certificate ends, seconds since 1970; None if it cannot be read, infinite if never."""
    try:
        with open(path, "rb") as file:
            begin = file.read(64)
    except OSError:
        return None
    with contextlib.suppress(metric_sources.CommandError, ValueError):
        if begin.startswith(b"-----BEGIN"):
            text = (
                metric_sources.output("openssl", "x509", "-noout", "-enddate", "-in", path).strip().rpartition("=")[2]
            )
            return calendar.timegm(time.strptime(text, "%b %d %H:%M:%S %Y GMT"))
        found = re.search(r"Valid: (forever|from \S+ to (\S+))", metric_sources.output("ssh-keygen", "-L", "-f", path))
        if found:
            return calendar.timegm(time.strptime(found[2], "%Y-%m-%dT%H:%M:%S")) if found[2] else float("inf")
    return None


def run_active(path: str = LEASE) -> bool:
    """Whether an apply is at work on the cluster."""
    with contextlib.suppress(OSError):
        return time.time() - os.stat(path).st_mtime < SILENT_S
    return False


def run_nodes(path: str = LEASE) -> list[str]:
    """Return the nodes that the run restarts, installs or removes; none where no run is active."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        names = json.loads(metric_sources.content(path)).get("nodes", []) if run_active(path) else []
        return [name for name in names if re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,63}", name)]
    return []


def certificates(paths: list[str]) -> Iterator[Sample]:
    """Yield of each certificate whether it is one, and when it ends."""
    for path in paths:
        ends = ends_s(path)
        yield "hpcforge_certificate_readable", {"path": path}, ends is not None
        if ends is not None and ends != float("inf"):
            yield "hpcforge_certificate_ends_seconds", {"path": path}, ends


def clock() -> Iterator[Sample]:
    """Yield the clock's offset in seconds, and whether it follows a server (chronyc(1), tracking)."""
    fields = metric_sources.output("chronyc", "-c", "tracking").strip().split(",")
    if len(fields) != 14:
        raise ValueError(f"chronyc printed {len(fields)} fields instead of 14")
    yield "hpcforge_clock_offset_seconds", {}, float(fields[4])
    yield "hpcforge_clock_synchronised", {}, fields[13] != "Not synchronised"


def verdicts(path: str) -> Iterator[Sample]:
    """Yield for each smoke test when it last ended, and whether it passed."""
    kept = json.loads(metric_sources.content(path))["kept"] if os.path.exists(path) else []
    oldest: dict[str, tuple[float, bool]] = {}  # of a test on several node sets the oldest time, and whether all passed
    for record in kept:
        verdict, time_s = record["verdict"], float(record["time_s"])
        if record.get("part"):
            verdict, time_s = record["part"], float(record["part_s"])
        before_s, passed = oldest.get(verdict["test"], (time_s, True))
        oldest[verdict["test"]] = (min(before_s, time_s), passed and verdict["status"] == "passed")
    for test, (time_s, passed) in sorted(oldest.items()):
        if re.fullmatch(r"[a-z0-9_]{1,64}", test):
            yield "hpcforge_verdict_seconds", {"test": test}, time_s
            yield "hpcforge_verdict_passed", {"test": test}, passed


def feeds(limits_w: dict[str, float], shares: dict[str, dict[str, float]]) -> Iterator[Sample]:
    """Yield each power feed's limit, and the part of each rack's load that it carries, both of the design."""
    for feed, limit_w in limits_w.items():
        yield "hpcforge_feed_limit_watts", {"feed": feed}, float(limit_w)
        for rack, share in shares[feed].items():
            yield "hpcforge_feed_share_ratio", {"feed": feed, "rack": rack}, float(share)


def from_config(settings: dict[str, Any]) -> Iterator[Sample]:
    """Yield what the configuration says alone."""
    yield from feeds(settings["feed_limits_w"], settings["feed_shares"])
    if settings["verdicts"]:
        yield "hpcforge_run_active", {}, run_active()
        yield from (("hpcforge_run_node", {"node": node}, True) for node in run_nodes())


def main() -> None:
    """Print all of it."""
    settings, config = metric_sources.config(COLLECTOR, WANTED, from_config)
    sources: dict[str, Any] = {"chrony": clock}
    if settings.get("certificates"):
        sources["certificates"] = partial(certificates, settings["certificates"])
    if settings.get("verdicts"):
        sources["verdicts"] = partial(verdicts, settings["verdicts"])
    answers = {"config": config, **metric_sources.read(COLLECTOR, sources)}
    samples: list[Sample] = [("hpcforge_restart_due", {}, os.path.exists(RESTART))]
    samples += (sample for answer in answers.values() for sample in answer.items)
    samples += metric_sources.up(COLLECTOR, answers)
    print("\n".join(metric_sources.lines(samples)))


if __name__ == "__main__":
    main()
