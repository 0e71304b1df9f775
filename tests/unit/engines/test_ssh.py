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
from hpcforge.engines.ssh import MARK_LINE, _received, after_mark, host_key, marked
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


@pytest.mark.parametrize("printed", [b"", b"no line end", b"motd\n" * 400_000, b"hpcforge-begins? no\n"])
@pytest.mark.parametrize("size", [1, 7, 65536])
def test_what_a_login_shell_prints_is_no_output_of_the_command(printed: bytes, size: int) -> None:
    output = printed[-500_000:] + MARK_LINE + b"one\ntwo"
    begun, rest = after_mark(iter(output[at : at + size] for at in range(0, len(output), size)))
    assert (begun, b"".join(rest)) == (True, b"one\ntwo")


def test_of_a_command_that_does_not_begin_the_end_of_what_was_printed_is_kept() -> None:
    begun, rest = after_mark(iter([b"x" * 200_000, b"This account is currently not available.\n"]))
    kept = b"".join(rest)
    assert not begun
    assert kept.endswith(b"This account is currently not available.\n")
    assert len(kept) < 100_000


def test_a_marked_command_prints_the_mark_and_ends_as_the_command() -> None:
    done = subprocess.run(["sh", "-c", marked("echo out; exit 7")], stdout=subprocess.PIPE, check=False)
    assert (done.stdout, done.returncode) == (MARK_LINE + b"out\n", 7)


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        ("turned away", "login", "does not run hpcforge's commands (exit status 1): This account is not available."),
        ("waits", "silent", "but the login shell did not begin a command within 1 s"),
        ("no session", "login", "set MaxSessions in its sshd_config to 10"),
        ("late session", None, "begun"),
        ("slow session", "silent", "lets ops in and opens no session for a command within 1 s: a module of PAM waits"),
        ("closed", "link", "closed the connection after the login of ops, before any command began: ChrootDirectory"),
        ("closed channel", "link", "closed the connection after the login of ops, before any command began: "),
        ("cut", "link", "was lost during a step, which may have continued"),
    ],
)
def test_a_login_that_runs_no_command_is_named(kind: str, reason: str | None, words: str) -> None:
    command = [sys.executable, "-m", "tests.support.odd_login", kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["reason"] == reason, told
    assert words in told["text"]
