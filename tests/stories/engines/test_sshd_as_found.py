"""Servers as they were before a cluster came: sshd, PAM, sudo and login shells set in ways that sites set them.

Each row is made on n1; there the node program, a deploy.py and an Ansible role run, and the node program on n2 by way
of n1. Or the row has a sentence: what hpcforge says of n1, and of the way through it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.engines import Engines
from hpcforge.engines.tasks import Ansible, Bootstrap, Command, Deploy, NodeProgram
from hpcforge.lab.nspawn import machines
from tests.stories.engines.conftest import Nodes, finish

pytestmark = pytest.mark.lab

SSHD = "/etc/ssh/sshd_config.d/00-odd.conf"
SUDO = "/etc/sudoers.d/zz-odd"
LOOK = {"verb": "observe", "wanted": [], "reads": ["/etc/hostname"]}
SAVED = "/etc/ssh /etc/sudoers.d /etc/pam.d /etc/passwd /etc/profile /etc/bash.bashrc /etc/motd /home/ops /root"
AWAY = (
    f"rm -rf {SSHD} {SUDO} /etc/profile.d/odd.sh /home/ops/.config /home/ops/.tcshrc /home/ops/.zshenv /root/odd_*; "
    "tar -C / -xpf /var/tmp/before.tar; sshd -t; systemctl reload ssh"
)


def sshd(*lines: str) -> str:
    """A script that puts lines before all others of sshd_config."""
    return f"printf '%s\\n' {' '.join(map(repr, lines))} >{SSHD}; sshd -t; systemctl reload ssh"


def sudo(*lines: str) -> str:
    return f"printf '%s\\n' {' '.join(map(repr, lines))} >{SUDO}"


def shell(path: str, rc: str = "", text: str = "echo printed by the shell") -> str:
    """ops gets a login shell, which prints."""
    prints = (
        f"; mkdir -p $(dirname /home/ops/{rc}); echo {text!r} >/home/ops/{rc}; chown -R ops /home/ops" if rc else ""
    )
    return f"usermod -s {path} ops{prints}"


PRINTS = (
    "sed -i '1i echo begin; printf \"no line end\"; echo complaint >&2' /home/ops/.bashrc /root/.bashrc /etc/profile; "
    "echo 'echo profile; printf end' | tee -a /home/ops/.profile /root/.profile >/etc/profile.d/odd.sh"
)
MUCH = "head -c 2000000 /dev/zero | tr '\\0' m"
# sshd_config(5), sudoers(5), pam_exec(8) and the shells' manuals; what sites do with them: see the comments.
ROWS: dict[str, tuple[str, str]] = {
    "kex standard name": (sshd("KexAlgorithms curve25519-sha256"), ""),
    "kex post-quantum": (
        sshd("KexAlgorithms sntrup761x25519-sha512@openssh.com"),
        "add to /etc/ssh/sshd_config.d/00-hpcforge.conf there: "
        "KexAlgorithms sntrup761x25519-sha512@openssh.com,curve25519-sha256, and reload sshd",
    ),
    "cipher chacha20": (
        sshd("Ciphers chacha20-poly1305@openssh.com"),
        "Ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com, and reload sshd",
    ),
    "macs umac": (sshd("MACs umac-128-etm@openssh.com"), "MACs umac-128-etm@openssh.com,hmac-sha2-256-etm@openssh.com"),
    "host key of another kind": (
        "rm -f /etc/ssh/ssh_host_ecdsa_key*; ssh-keygen -q -N '' -t ecdsa -f /etc/ssh/ssh_host_ecdsa_key; "
        + sshd("HostKey /etc/ssh/ssh_host_ecdsa_key"),
        "nothing was sent; if the node was reinstalled",
    ),
    "signatures": (sshd("PubkeyAcceptedAlgorithms rsa-sha2-512"), "PubkeyAcceptedAlgorithms in sshd_config"),
    "banner of 64 KiB": (f"{MUCH} | fold | head -c 70000 >/etc/ssh/odd; " + sshd("Banner /etc/ssh/odd"), ""),
    "banner of 250 KiB": (f"{MUCH} | head -c 250000 >/etc/ssh/odd; " + sshd("Banner /etc/ssh/odd"), ""),
    "motd of 2 MB and a shell that prints": (f"{MUCH} >/etc/motd; {PRINTS}", ""),
    "shell that clears the screen": ("sed -i '1i tput -T linux reset; stty sane' /home/ops/.bashrc", ""),
    "shell that asks": (
        "sed -i '1i read -p \"Continue? \" answer' /home/ops/.bashrc",
        "but the login shell did not begin a command within",
    ),
    "tcsh": (shell("/usr/bin/tcsh", ".tcshrc"), ""),
    "fish": (shell("/usr/bin/fish", ".config/fish/config.fish"), ""),
    "zsh": (shell("/usr/bin/zsh", ".zshenv"), ""),
    "rbash": (shell("/bin/rbash"), "restricted: cannot specify"),
    "nologin": (shell("/usr/sbin/nologin"), "does not run hpcforge's commands (exit status 1): This account is"),
    "forced command": (
        sshd("ForceCommand echo menu of the site"),
        "(exit status 0): menu of the site; check the login",
    ),
    "allowed users": (sshd("AllowUsers admin"), "AllowUsers, AllowGroups"),
    "requiretty": (sudo("Defaults requiretty"), "in /etc/sudoers.d/ops: Defaults:ops !requiretty"),
    "sudo's lecture": (
        "echo Be careful >/etc/odd-lecture; "
        + sudo("Defaults lecture=always", "Defaults lecture_file=/etc/odd-lecture"),
        "",
    ),
    "sudo with a terminal and its log": (sudo("Defaults use_pty", "Defaults log_output"), ""),
    "sudo with a log server": (
        sudo("Defaults log_servers=127.0.0.1:30343", "Defaults log_output"),
        "unable to connect to log server",
    ),
    "sudo's path": (sudo("Defaults secure_path=/opt/bin"), ""),
    "sudo that waits": (
        "sed -i '1i session required pam_exec.so /bin/sleep 40' /etc/pam.d/sudo",
        "or its sudo waits for PAM or a log server",
    ),
    "pam takes 10 s": ("sed -i '1i account required pam_exec.so /bin/sleep 10' /etc/pam.d/sshd", ""),
    "session takes 10 s": ("sed -i '1i session required pam_exec.so /bin/sleep 10' /etc/pam.d/sshd", ""),
    "one session": (sshd("MaxSessions 1"), ""),
    "no session": (sshd("MaxSessions 0"), "set MaxSessions in its sshd_config to 10"),
    "three logins at once": (sshd("MaxStartups 3", "LoginGraceTime 5"), ""),
    "a client that must answer": (sshd("ClientAliveInterval 5", "ClientAliveCountMax 1"), ""),
    "no terminal, no sftp, no environment": (
        "sed -i '/^Subsystem/d' /etc/ssh/sshd_config; " + sshd("PermitTTY no", "AcceptEnv none"),
        "",
    ),
}


@dataclass(frozen=True)
class Found:
    """n1, and the roles that are tried on it."""

    nodes: Nodes
    deploy: Path
    ansible: Path

    def enter(self, script: str) -> None:
        """Run a script on n1 as root, by way of this host: whatever its sshd is like."""
        pid = machines._init(self.nodes.lab.machine("n1"))
        words = ["nsenter", "--target", str(pid), "--all", "sh", "-ec", script]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def roles(folder: Path) -> tuple[Path, Path]:
    """A deploy.py that writes, reads and fetches, and a role of Ansible that copies."""
    source = folder / "put" / "deploy.py"
    source.parent.mkdir()
    source.write_text(
        "from io import StringIO\nfrom pyinfra import host\nfrom pyinfra.facts.server import Hostname\n"
        "from pyinfra.operations import files, server\n"
        "files.put(name='Put', src=StringIO(host.data.text), dest='/root/odd_put')\n"
        "files.line(name='Line', path='/root/odd_put', line=host.get_fact(Hostname))\n"
        "server.shell(name='Run', commands=['cp /root/odd_put /root/odd_run'])\n"
        "files.get(name='Get', src='/root/odd_run', dest=host.data.here)\n"
    )
    role = folder / "copy"
    (role / "tasks").mkdir(parents=True)
    (role / "tasks" / "main.yml").write_text("- copy: {content: '{{ text }}', dest: /root/odd_copy}\n")
    return source, role


@pytest.fixture(scope="module")
def found(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("roles")
    with Engines(nodes.targets.values(), folder / "work", folder / "artifacts") as engines:
        ended = finish(engines, *(Bootstrap(f"python:{node}", node, 300.0) for node in nodes.targets))
        assert all(events[-1].data["ok"] for events in ended.values())
        shells = "apt-get -qq update && apt-get -qq -y install --no-install-recommends fish tcsh zsh"
        installed = engines.run(Command("shells", "n1", ("sh", "-c", shells), user="root", timeout_s=300.0)).data
        assert installed["ok"], installed["error"]
    made = Found(nodes, *roles(folder))
    made.enter(f"tar -C / -cf /var/tmp/before.tar {SAVED} 2>/dev/null")
    return made


@pytest.fixture
def planted(found: Found, request: pytest.FixtureRequest) -> Iterator[str]:
    plant, sentence = ROWS[request.param]
    try:
        found.enter(plant)
        yield sentence
    finally:
        found.enter(AWAY)


@pytest.mark.parametrize("planted", list(ROWS), indirect=True)
def test_a_server_as_found_works_or_is_named(found: Found, planted: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    with Engines(found.nodes.targets.values(), tmp_path / "work", tmp_path / "artifacts") as engines:
        answer = engines.run(NodeProgram("look", "n1", LOOK, 60.0, begins_s=30.0)).data
        if planted:
            assert planted in str(answer["error"]), answer
            assert "n1" in str(answer["error"]) or "cannot become root" in str(answer["error"])
        else:
            assert answer["ok"], answer
            works(found, engines, tmp_path)
    print(f"{time.monotonic() - begin:.1f} s: {answer['error'] or 'works'}")
    through = Engines([found.nodes.targets["n2"]], tmp_path / "via", tmp_path / "artifacts", found.nodes.targets["n1"])
    with through as engines:
        answer = engines.run(NodeProgram("look", "n2", LOOK, 60.0)).data
        assert answer["ok"] or (planted in str(answer["error"]) and answer["reason"] == "via"), answer


def works(found: Found, engines: Engines, tmp_path: Path) -> None:
    """Both other engines do their smallest work."""
    inputs = {"text": "some text\n", "here": str(tmp_path / "got")}
    tasks = Deploy("deploy", "n1", found.deploy, inputs, 120.0), Ansible("role", "n1", found.ansible, inputs, 120.0)
    for events in finish(engines, *tasks).values():
        assert events[-1].data["ok"], events[-1].data
    assert (tmp_path / "got").read_text() == "some text\nn1\n"
    command = Command("read", "n1", ("cat", "/root/odd_copy"), user="root")
    assert engines.run(command).data["stdout"] == "some text\n"
