"""ssh to a lab's nodes."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread

import pytest

from hpcforge.lab.errors import LabError
from hpcforge.lab.ssh import greets, ssh_argv
from tests.unit.lab.test_target_state import lab


def test_ssh_checks_host_keys_and_quotes() -> None:
    argv = ssh_argv(lab(), "w01", ["echo", "a b; $(id)"])
    assert argv[:3] == ["ssh", "-F", "/dev/null"]
    assert "StrictHostKeyChecking=yes" in argv
    assert argv[-2:] == ["ops@10.77.8.11", "echo 'a b; $(id)'"]
    assert ssh_argv(lab(), "head")[-1] == "ops@10.77.8.10"
    with pytest.raises(LabError, match="has no node 'w09'"):
        ssh_argv(lab(), "w09")


@pytest.mark.parametrize(("answer", "greeted"), [(b"SSH-2.0-x\r\n", True), (b"HTTP/1.1\r\n", False), (b"", False)])
def test_a_machine_is_up_when_sshd_speaks(answer: bytes, greeted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on this machine, at another port than 22."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port, connect = server.getsockname()[1], socket.create_connection

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(answer)

        Thread(target=serve, daemon=True).start()
        monkeypatch.setattr(socket, "create_connection", lambda _, timeout: connect(("127.0.0.1", port), timeout))
        assert greets("127.0.0.1") is greeted


def test_a_machine_that_refuses_is_not_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert greets("127.0.0.1") is False


def test_other_host_keys_and_more_patience_may_be_given() -> None:
    argv = ssh_argv(lab(), "w01", known_hosts=Path("/k h"), patience_s=60)
    assert {"UserKnownHostsFile=/k h", "ConnectTimeout=60", "BatchMode=yes"} <= set(argv)
    assert argv[-1] == "ops@10.77.8.11"  # a login shell
