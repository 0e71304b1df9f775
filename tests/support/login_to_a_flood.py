"""A login to a machine that sends without end, beside other work: `python -m tests.support.login_to_a_flood WHAT`.

WHAT: `packet`, of 2 GiB; `banner`, without a line's end; `ignored`, small packets that say nothing. Prints as JSON why
there is no connection, how long the other work had to wait at most, and how much more memory was used.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import gevent  # noqa: E402
import paramiko  # noqa: E402

from hpcforge.engines import ssh  # noqa: E402
from hpcforge.engines.host_keys import UnreachableError  # noqa: E402
from hpcforge.engines.tasks import Target  # noqa: E402

_MACHINE = r"""
import socket, struct, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
block = {"ignored": struct.pack(">IBBI6x", 12, 6, 2, 0) * 4096}.get(sys.argv[1], b"x" * 65536)
try:
    connection.sendall({"banner": b"", "ignored": b"SSH-2.0-x\r\n"}.get(
        sys.argv[1], b"SSH-2.0-x\r\n" + struct.pack(">I", 0x7FFFFFFC)))
    while True:
        connection.sendall(block)
except OSError:
    pass
"""
_BEAT_S = 0.02


class Beats:
    """Other work: what it had to wait at most between two of its steps."""

    def __init__(self) -> None:
        self.worst_s, self.last_s = 0.0, time.monotonic()

    def go_on(self) -> None:
        """Step by step, for ever."""
        while True:
            gevent.sleep(_BEAT_S)
            now_s = time.monotonic()
            self.worst_s = max(self.worst_s, now_s - self.last_s - _BEAT_S)
            self.last_s = now_s


def peak_mib() -> int:
    """The most memory that this program has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def why(port: int) -> str:
    """Why there is no connection."""
    key = paramiko.ECDSAKey.generate()
    target = Target("w03", "127.0.0.1", "root", "none", host_keys=(f"{key.get_name()} {key.get_base64()}",))
    try:
        ssh.connect(target, lambda _: socket.create_connection(("127.0.0.1", port)))
    except UnreachableError as error:
        return str(error)
    return ""


def main(kind: str) -> None:
    """Try it."""
    ssh.HANDSHAKE_S = 2.0
    with subprocess.Popen([sys.executable, "-c", _MACHINE, kind], stdout=subprocess.PIPE, text=True) as machine:
        assert machine.stdout is not None
        port, beats, before_mib = int(machine.stdout.readline()), Beats(), peak_mib()
        gevent.spawn(beats.go_on)
        reason = gevent.spawn(why, port).get()
        machine.kill()
    result = {"why": reason, "worst_s": round(beats.worst_s, 2), "grown_mib": peak_mib() - before_mib}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
