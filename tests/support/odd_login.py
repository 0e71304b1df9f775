"""A command after a login that is not as others are: `python -m tests.support.odd_login KIND`.

KIND: `turned away`, by a login shell such as nologin; `waits`, a login shell that asks; `no session`, as sshd with
MaxSessions 0; `late session`, which is refused twice, as sshd does until it has counted the one before; `slow session`,
as PAM's modules make it; `closed` at the command, as with a ChrootDirectory that is not there; `closed channel`, the
same with the connection kept; `cut`, closed after the command began. Prints as JSON the reason and the text of the
error, or what the command printed.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import json  # noqa: E402
import sys  # noqa: E402

import gevent  # noqa: E402
import paramiko  # noqa: E402

from hpcforge.engines import ssh  # noqa: E402
from hpcforge.engines.host_keys import UnreachableError  # noqa: E402
from hpcforge.engines.ssh import MARK_LINE  # noqa: E402
from hpcforge.engines.tasks import Target  # noqa: E402
from tests.support.deploy_over_ssh import Node, connected  # noqa: E402


class OddLogin(Node):
    """A node whose logins are of a kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(b"begun\n", 1)
        self.kind, self.refused = kind, {"no session": 1000, "late session": 2}.get(kind, 0)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Open a channel, or refuse it as sshd does: RFC 4254, section 5.1."""
        if self.kind == "slow session":
            gevent.sleep(3.0)
        self.refused -= 1
        return paramiko.common.OPEN_SUCCEEDED if self.refused < 0 else paramiko.common.OPEN_FAILED_CONNECT_FAILED

    def _answer(self, channel: paramiko.Channel, command: bytes) -> None:
        if self.kind == "waits":
            return
        if self.kind == "closed channel":
            channel.close()
            return
        if self.kind in ("closed", "cut"):
            channel.sendall(MARK_LINE if self.kind == "cut" else b"Welcome\n")
            channel.get_transport().close()
            return
        if self.kind != "turned away":
            super()._answer(channel, command)
            return
        channel.sendall(b"Welcome\nThis account is not available.\n")
        channel.send_exit_status(1)
        channel.close()


def main(kind: str) -> None:
    """Run a command."""
    ssh.SHELL_S = ssh.SESSION_S = ssh.HANDSHAKE_S = 1.0
    client, target = connected(OddLogin(kind)), Target("w03", "127.0.0.1", "ops", "sudo")
    printed: list[str] = []
    result: dict[str, str | None]
    try:
        gevent.spawn(ssh.execute, client, target, "x", listen_s=30.0, on_line=printed.append).get()
        result = {"reason": None, "text": " ".join(printed)}
    except UnreachableError as error:
        result = {"reason": error.reason, "text": str(error)}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
