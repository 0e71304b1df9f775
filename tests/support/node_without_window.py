"""A command on a node that sends without heeding ssh's window: `python -m tests.support.node_without_window STREAM`.

STREAM: `stdout` or `stderr`. Prints as JSON how the command ended, and how much more memory was used until the node
has sent 300 MiB or can send no more.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402
import sys  # noqa: E402

import gevent  # noqa: E402
import paramiko  # noqa: E402
from paramiko.common import cMSG_CHANNEL_DATA, cMSG_CHANNEL_EXTENDED_DATA  # noqa: E402

from hpcforge.engines import ssh  # noqa: E402
from hpcforge.engines.tasks import Target  # noqa: E402
from tests.support.deploy_over_ssh import Node, connected  # noqa: E402
from tests.support.login_to_a_flood import peak_mib  # noqa: E402

_BLOCK = b"x" * 31_999 + b"\n"
_COUNT = 300 * 2**20 // len(_BLOCK)


class Flood(Node):
    """Answers every command so."""

    def __init__(self, stream: str) -> None:
        super().__init__(b"", 0)
        self.stream, self.sending = stream, gevent.spawn(lambda: None)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Run any command."""
        self.sending = gevent.spawn(self._send, channel)
        return True

    def _send(self, channel: paramiko.Channel) -> None:
        message = paramiko.Message()
        message.add_byte(cMSG_CHANNEL_DATA if self.stream == "stdout" else cMSG_CHANNEL_EXTENDED_DATA)
        message.add_int(channel.remote_chanid)
        if self.stream == "stderr":
            message.add_int(1)
        message.add_string(_BLOCK)
        try:
            for _ in range(_COUNT):
                channel.transport._send_user_message(message)
        except (OSError, EOFError):
            return


def main(stream: str) -> None:
    """Run the command."""
    node = Flood(stream)
    client, target = connected(node), Target("w03", "127.0.0.1", "root", "none")
    before_mib = peak_mib()
    ended = gevent.spawn(ssh.execute, client, target, "x", listen_s=30.0, on_line=lambda line: None).get()
    node.sending.join()
    result = {"flooded": ended.flooded, "late": ended.late, "grown_mib": peak_mib() - before_mib}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
