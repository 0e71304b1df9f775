"""A machine that sends without end at a login, before its key was compared, holds up no connection to another."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("packet", "the ssh handshake fails: a packet of 2147483640 bytes, of which 262144 may be the most"),
        ("banner", "the ssh handshake fails: Error reading SSH protocol banner: more than 262144 bytes"),
        (
            "ignored",
            "within 2 s: it is overloaded or hangs, or large packets are lost (MTU: `ping -M do -s 1472 127.0.0.1`)",
        ),
    ],
)
def test_a_flood_at_a_login_ends_and_holds_nobody_up(what: str, why: str) -> None:
    command = [sys.executable, "-m", "tests.support.login_to_a_flood", what]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=30)
    told = json.loads(done.stdout.splitlines()[-1])
    assert why in told["why"]
    assert told["worst_s"] < 2.0
    assert told["grown_mib"] < 50
