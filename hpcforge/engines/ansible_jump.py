"""The connection of Ansible's ssh through the jump host: one shared connection for all nodes.

Each Ansible task starts its own ssh. A login for each node at once would exceed sshd's limit (MaxStartups 10:30:100),
so one connection is kept, and each ssh opens a channel in it.
"""

from __future__ import annotations

import contextlib
import queue
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from hpcforge.engines.host_keys import UnreachableError, host_keys, known_hosts, private_folder
from hpcforge.engines.node_output import last_line
from hpcforge.engines.tasks import HANDSHAKE_S, Target


def ssh_options(target: Target, known_hosts_file: Path) -> list[str]:
    """Return OpenSSH options: only host keys of the inventory, no user configuration, no prompts, limited waits."""
    quoted = f'"{known_hosts_file}"'  # ssh splits the value at blanks
    options = ["StrictHostKeyChecking=yes", f"UserKnownHostsFile={quoted}", "GlobalKnownHostsFile=/dev/null"]
    options += ["BatchMode=yes", "ConnectTimeout=5", "ServerAliveInterval=10", "ServerAliveCountMax=2"]
    options += ["UpdateHostKeys=no", *(["IdentitiesOnly=yes"] if target.key else [])]
    return ["-F", "/dev/null", *(part for option in options for part in ("-o", option))]


def ssh_words(target: Target, known_hosts_file: Path) -> list[str]:
    """Return the beginning of an OpenSSH command line with hpcforge's settings for a machine."""
    return ["ssh", *ssh_options(target, known_hosts_file), *(["-i", str(target.key)] if target.key else [])]


def proxy_command(words: Sequence[str], via: Target) -> str:
    """Return the ProxyCommand that reaches a node through a machine, from a command line as in `ssh_words`."""
    return shlex.join(word.replace("%", "%%") for word in words) + f" -W %h:%p {shlex.quote(destination(via))}"


def destination(via: Target) -> str:
    """Return the destination of ssh."""
    return f"{via.user}@{via.address}"


def ends_with_us(command: Sequence[str]) -> list[str]:
    """Return the command in a form that ends with its parent: a waiting thread, or ansible-runner.

    Each command needs it: hpcforge may be killed, and ansible-runner starts ansible-playbook in its own session.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", *command] if setpriv else list(command)


class JumpConnection:
    """The connection to the jump host, made when first needed and again if it has ended. For any thread."""

    def __init__(self, via: Target) -> None:
        self._via = via
        self._lock = threading.Lock()
        self._files = contextlib.ExitStack()
        self._folder: Path | None = None
        self._master: subprocess.Popen[bytes] | None = None

    def proxy_command(self) -> str:
        """Return the ProxyCommand for a node. Raises `UnreachableError` if the jump host cannot be reached."""
        with self._lock:
            if self._master is None or self._master.poll() is not None:
                self._connect()
            return proxy_command([*self._ssh(), "-o", "ControlMaster=no"], self._via)

    def close(self) -> None:
        """End the connection and remove its files."""
        with self._lock:
            if self._master is not None:
                self._master.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._master.wait(1.0)
                self._master.kill()
                self._master.wait()
            self._files.close()
            self._master = self._folder = None

    def _ssh(self) -> list[str]:
        assert self._folder is not None
        return [*ssh_words(self._via, self._folder / "known_hosts"), "-o", f"ControlPath={self._folder / 'jump'}"]

    def _connect(self) -> None:
        host_keys(self._via)  # raises without one
        if self._folder is None:  # control sockets have paths of at most 108 bytes: in a folder with a short one
            self._folder = self._files.enter_context(private_folder())
            (self._folder / "known_hosts").write_text(known_hosts([self._via]))
        log, socket = self._folder / "said", self._folder / "jump"
        socket.unlink(missing_ok=True)
        self._master = self._start(log)
        deadline = time.monotonic() + HANDSHAKE_S
        while not socket.exists():
            if self._master.poll() is not None or time.monotonic() > deadline:
                self._master.kill()
                reason = last_line(log.read_text(errors="replace")) or "it does not answer"
                raise UnreachableError(
                    "via", f"the jump host {self._via.name} (`access.via`) cannot be reached by ssh: {reason}"
                )
            time.sleep(0.02)

    def _start(self, log: Path) -> subprocess.Popen[bytes]:
        """Start the connection from a thread of the same lifetime: the kernel ends a process with its parent thread."""
        command = [*self._ssh(), "-o", "ControlMaster=yes", "-o", "ControlPersist=no", "-N", destination(self._via)]
        started: queue.Queue[subprocess.Popen[bytes] | OSError] = queue.Queue()

        def hold() -> None:
            try:
                with log.open("wb") as stderr:
                    process = subprocess.Popen(
                        ends_with_us(command),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=stderr,
                        start_new_session=True,
                    )
            except OSError as error:
                started.put(error)
                return
            started.put(process)
            process.wait()

        threading.Thread(target=hold, daemon=True, name="ansible-jump").start()
        outcome = started.get()
        if isinstance(outcome, OSError):
            raise outcome
        return outcome
