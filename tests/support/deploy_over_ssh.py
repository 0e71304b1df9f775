"""A deploy.py on a node that is a thread of this program, over real ssh: `python -m tests.support.deploy_over_ssh`.

Arguments: the deploy.py, and what the node prints to any command: bytes as text of Latin-1, and how often. Prints the
result as JSON, with `grown_mib`: how much more memory this program had meanwhile.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402
import resource  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402
import paramiko  # noqa: E402

from hpcforge.engines import packets  # noqa: E402
from hpcforge.engines.connections import Connection, Route  # noqa: E402
from hpcforge.engines.pyinfra import deploy  # noqa: E402
from hpcforge.engines.ssh import MARK_LINE  # noqa: E402
from hpcforge.engines.tasks import Target  # noqa: E402

_WAIT_S = 60.0


class Node(paramiko.ServerInterface):
    """Answers the command that makes a temporary folder, and prints the same to all others."""

    def __init__(self, block: bytes, count: int) -> None:
        self.block, self.count = block, count

    def check_auth_none(self, username: str) -> int:
        """Let anybody in."""
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Open any channel."""
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Run any command."""
        gevent.spawn(self._answer, channel, command)
        return True

    def _answer(self, channel: paramiko.Channel, command: bytes) -> None:
        try:
            channel.sendall(MARK_LINE)
            if b"mktemp" in command:
                channel.sendall(b"/tmp/hpcforge-x\n")
            else:
                for _ in range(self.count):
                    channel.sendall(self.block)
            channel.send_exit_status(0)
        except (OSError, EOFError):
            return  # nobody listens any more
        channel.close()


def connected(node: Node) -> paramiko.SSHClient:
    """A client of the node, in a program of its own."""
    ours, theirs = socket.socketpair()
    server = paramiko.Transport(theirs)
    server.add_server_key(paramiko.RSAKey.generate(2048))
    server.start_server(event=threading.Event(), server=node)
    transport = packets.transport(ours)
    transport.start_client(timeout=_WAIT_S)
    transport.auth_none("root")
    client = paramiko.SSHClient()
    client._transport = transport
    return client


def main(source: str, block: str, count: str) -> None:
    """Run it."""
    node = Node(block.encode("latin-1"), int(count))
    link = Connection(Route(None), Target("w03", "127.0.0.1", "root", "none", host_keys=("x",)), connected(node))
    task = gevent.spawn(
        deploy, link, Path(source), data={}, known_hosts=Path("x"), timeout_s=_WAIT_S, emit=lambda kind, data: None
    )
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    result = task.get()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10) - before_mib
    sys.stdout.write(json.dumps({**result, "grown_mib": grown}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
