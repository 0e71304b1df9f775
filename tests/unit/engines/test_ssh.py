"""What a command printed is read to its end, however late we are."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import paramiko
import pytest

from hpcforge.engines.host_keys import UnreachableError
from hpcforge.engines.ssh import _received, host_key
from hpcforge.engines.tasks import Target

ANSWER = b"all that it said"


class LateWait:
    """The condition that a channel's reader waits on, woken by what comes when its time has just passed."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self.channel, self.waits = channel, 0

    def wait(self, timeout: float) -> None:
        """Output and exit status come together, a moment after the time."""
        self.waits += 1
        time.sleep(timeout)
        if self.waits == 1:
            self.channel.in_buffer._buffer_frombytes(ANSWER)  # type: ignore[attr-defined]
            self.channel.status_event.set()


def test_an_answer_that_comes_with_the_end_when_the_wait_is_over_is_read() -> None:
    channel = paramiko.Channel(1)
    channel.settimeout(0.01)
    late = LateWait(channel)
    channel.in_buffer._cv = late  # type: ignore[attr-defined]
    assert b"".join(_received(channel, channel.recv)) == ANSWER
    assert late.waits == 2  # nobody closed the output: once more, and nothing more came


def test_a_packet_without_end_is_not_kept() -> None:
    ours, theirs = socket.socketpair()
    sent = 0

    def serve() -> None:
        nonlocal sent
        with suppress(OSError), theirs:
            theirs.sendall(b"SSH-2.0-odd\r\n" + (0x7FFFFFFC).to_bytes(4, "big"))
            while sent < 64 * 2**20:
                theirs.sendall(bytes(65536))
                sent += 65536

    serving = threading.Thread(target=serve)
    serving.start()
    with pytest.raises(UnreachableError):
        host_key(Target("w1", "192.0.2.1", "ops", "sudo"), lambda _: ours)
    ours.close()
    serving.join()
    assert sent < 2 * 2**20


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_node_that_sends_without_end_is_no_longer_listened_to(stream: str) -> None:
    command = [sys.executable, "-m", "tests.support.node_without_window", stream]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=90)
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["flooded"], told["late"]) == (True, False)
    assert told["grown_mib"] < 150  # 300 MiB were to come
