#!/usr/bin/python3 -BIS
"""Print what slurmctld counts of its schedulers, in Prometheus' text format.

slurmctld answers over HTTP on its own port, and only requests that are signed with its key (metrics.html of Slurm
26.05). Jobs by user are not asked for: everybody in the cluster can read what is printed here. Standard library.
"""

import base64
import hashlib
import hmac
import http.client
import json
import sys
import time
from collections.abc import Iterator

sys.path.insert(0, "/usr/lib/hpcforge")
import metric_sources

COLLECTOR = "slurmctld"
KEY = "/etc/slurm/metrics.key"
HOST, PORT, PATH = "127.0.0.1", 6817, "/metrics/scheduler"  # loopback: a signed request could be reused by its reader
LIMIT_S = 10
GOOD_FOR_S = 60
MOST_BYTES = 1 << 20


def token(key: bytes, now_s: int) -> str:
    """A JSON web token (RFC 7519, HS256) of root; `sun` is the user for Slurm."""
    said = {"iat": now_s, "exp": now_s + GOOD_FOR_S, "sun": "root"}
    body = b".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, said))
    return (body + b"." + encoded(hmac.new(key, body, hashlib.sha256).digest())).decode()


def encoded(raw: bytes) -> bytes:
    """In base64 as tokens have it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def answer(bearer: str) -> tuple[int, str]:
    """The status and the text of slurmctld's answer. Raises OSError where there is none."""
    connection = http.client.HTTPConnection(HOST, PORT, timeout=LIMIT_S)
    try:
        connection.request("GET", PATH, headers={"Authorization": f"Bearer {bearer}"})
        got = connection.getresponse()
        return got.status, got.read(MOST_BYTES).decode(errors="replace")
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP: {error!r}") from error
    finally:
        connection.close()


def metrics() -> Iterator[str]:
    """Yield samples and their types: what else is there (`# EOF`) is for the end of a file. Raises OSError."""
    with open(KEY, "rb") as file:
        bearer = token(file.read(), int(time.time()))
    status, text = answer(bearer)
    if status != http.client.OK:
        raise OSError(f"slurmctld answers {PATH} with status {status}")
    for line in text.splitlines():
        if line.startswith(("slurm_", "# TYPE slurm_")):
            yield line


def main() -> None:
    """Print all of it."""
    answers = metric_sources.read(COLLECTOR, {"slurmctld": metrics})
    for line in (*answers["slurmctld"].items, *metric_sources.lines(metric_sources.up(COLLECTOR, answers))):
        print(line)


if __name__ == "__main__":
    main()
