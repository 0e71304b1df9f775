"""Machines that nobody has recorded a host key of: refused, then accepted once by --trust-new, then held to.

And what those keys are good for: users' ssh from node to node asks nobody whether the other is who it says. Two nodes,
no Slurm.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hpcforge.lab import lab as labs
from tests.support.site import BECOMES_S
from tests.support.ssh_agent import ssh_agent

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).parents[3]
WITH_ROLES = str(REPOSITORY / "tests" / "support" / "with_roles.py")
BLUEPRINT = """\
schema: 1
name: trust   # a comment that stays
domain: trust.example.org
access: {{user: ops, via: n1}}
nodes:
  n1: {{functions: [head], hardware: rehearsal-node, addresses: {n1}}}
  n2: {{functions: [worker], hardware: rehearsal-node, addresses: {n2}}}
networks: {{cluster: {{cidr: {cidr}}}}}
services: {{dns: {{on: n1}}, time: {{on: n1}}}}
software: {{os: {{name: debian, release: "12"}}}}
slurm: {{controller: n1, reserve: {{cores: 1, memory_gib: 1}}, partitions: {{main: {{nodes: all, default: true}}}}}}
users:
  ada: {{uid: 2001}}
"""
# The role as it was until hpcforge managed keys in /etc/ssh.
KEYS_IN_HOMES = """\
description: Keys in homes.
on: "true"
needs: [base]
accounts:
  - {for_each: cluster.users, name: "{{ item.name }}", uid: "{{ item.uid }}", home: "{{ item.home }}"}
directories:
  - for_each: cluster.users
    when: item.keys
    path: "{{ item.home }}/.ssh"
    mode: "0700"
    owner: "{{ item.name }}"
    group: "{{ item.name }}"
files:
  - for_each: cluster.users
    when: item.keys
    path: "{{ item.home }}/.ssh/authorized_keys"
    source: files/etc/ssh/authorized_keys.d/name.j2
    mode: "0600"
    owner: "{{ item.name }}"
    group: "{{ item.name }}"
"""


@dataclass(frozen=True)
class Here:
    """Two nodes, a blueprint that knows their addresses and no inventory, and the real command line."""

    lab: labs.Lab
    blueprint: Path

    @property
    def inventory(self) -> Path:
        return self.blueprint.with_name("trust.inventory.yaml")

    def cli(self, verb: str, *more: str, start: Sequence[str] = (WITH_ROLES,)) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HPCFORGE_IDENTITY": str(self.blueprint.with_name("age.key"))}
        environment |= {"SSH_AUTH_SOCK": str(self.blueprint.with_name("agent"))}
        environment |= {"XDG_STATE_HOME": str(self.blueprint.with_name("state"))}
        roles = str(self.blueprint.with_name("roles"))
        words = [sys.executable, "-P", *start, roles, verb, str(self.blueprint), *more]
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800, check=False
        )
        print(f"$ {' '.join(words)}\n{done.stderr}{done.stdout}exit status {done.returncode}\n")
        return done

    def inside(self, node: str, script: str, *, check: bool = True) -> str:
        argv = labs.ssh_argv(self.lab, node, ["sudo", "-n", "sh", "-c", script])
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    @property
    def users_role(self) -> Path:
        return self.blueprint.with_name("roles") / "users/role.yaml"

    def with_users(self, *users: str) -> None:
        """The blueprint with these users in place of those that it has."""
        text = self.blueprint.read_text()
        head, _, rest = text.partition("users:\n")
        kept = [line for line in rest.splitlines(keepends=True) if not line.startswith("  ")]
        self.blueprint.write_text(head + "users:\n" + "".join(f"  {user}\n" for user in users) + "".join(kept))

    def key_of(self, name: str) -> str:
        """The public key of a key pair of a user's own, on this host."""
        path = self.blueprint.with_name(f"key_{name}")
        if not path.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path], check=True)
        return path.with_name(f"{path.name}.pub").read_text().strip()

    def logs_in(self, name: str, node: str) -> bool:
        """Whether a user gets into a node from here with that key."""
        options = ["BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none", "StrictHostKeyChecking=no"]
        options += ["UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        ssh = ["ssh", *(word for option in options for word in ("-o", option))]
        key, address = self.blueprint.with_name(f"key_{name}"), self.lab.node(node).address
        ended = subprocess.run([*ssh, "-i", key, f"{name}@{address}", "id", "-un"], capture_output=True, check=False)
        return ended.stdout.strip() == name.encode()

    def ask_forwarding(self, name: str, node: str) -> str:
        """What she gets who logs in to n1 with her agent forwarded and runs `hostname` on another node from there."""
        key, first = self.blueprint.with_name(f"key_{name}"), self.lab.node("n1").address
        there = f"ssh -o BatchMode=yes -o StrictHostKeyChecking=yes {node} hostname"
        options = "-A -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        script = f"ssh-add -q {key} && ssh {options} {name}@{first} '{there}'"
        return subprocess.run(["ssh-agent", "sh", "-c", script], capture_output=True, text=True, check=False).stdout

    def ask(self, name: str) -> str:
        """What a user of n1 gets who runs `hostname` on another node, with nobody to answer a question."""
        ssh = f"ssh -o BatchMode=yes -o StrictHostKeyChecking=yes {name} hostname"
        return self.inside("n1", f"su ada -c '{ssh}' 2>&1", check=False)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    name, folder = f"test-trust-{os.getpid()}", tmp_path_factory.mktemp("trust")
    try:
        lab = labs.up(
            labs.UpRequest(
                name=name,
                nodes=(labs.LabNode("n1"), labs.LabNode("n2")),
                cidr="10.77.0.0/24",
                login_user="ops",
                release="12",
                blueprint=folder / "trust.yaml",
            ),
            print,
        )
        addresses = {node: lab.node(node).address for node in ("n1", "n2")}
        for role in ("base", "users", "ssh_trust"):
            shutil.copytree(REPOSITORY / "roles" / role, folder / "roles" / role)
        accepts = yaml.safe_load((REPOSITORY / "roles/node_facts/role.yaml").read_text())["accepts"]
        told = {"description": "Accepts what ssh_trust contributes.", "on": "'no' == 'yes'", "accepts": accepts}
        (folder / "roles/accepting").mkdir()
        (folder / "roles/accepting/role.yaml").write_text(yaml.safe_dump(told))
        (folder / "trust.yaml").write_text(BLUEPRINT.format(cidr=lab.cidr, **addresses))
        with ssh_agent(folder / "agent", lab.key):
            yield Here(lab, folder / "trust.yaml")
    finally:
        labs.down(name, None, print)


def test_without_a_recorded_key_nobody_is_connected_to(here: Here) -> None:
    done = here.cli("plan")
    assert done.returncode == 4
    assert "--trust-new" in done.stdout + done.stderr
    assert not here.inventory.exists()


def test_trust_new_shows_records_and_uses_the_keys(here: Here) -> None:
    done = here.cli("plan", "--trust-new")
    assert done.returncode == 2
    known = yaml.safe_load(here.lab.inventory.read_text())["nodes"]
    recorded = yaml.safe_load(here.inventory.read_text())["nodes"]
    assert {name: node["host_keys"] for name, node in recorded.items()} == {
        name: [" ".join(node["host_keys"][0].split()[:2])] for name, node in known.items()
    }
    for node in ("n1", "n2"):
        seen = here.inside(node, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
        assert f"{seen}" in done.stderr
    text = here.blueprint.read_text()
    assert "name: trust   # a comment that stays\n" in text
    assert text.endswith("inventory: trust.inventory.yaml\n")
    before = here.inventory.read_bytes()
    again = here.cli("plan", "--trust-new")
    assert (again.returncode, here.inventory.read_bytes()) == (2, before)
    assert "fingerprint" not in again.stderr


def test_a_users_ssh_knows_the_nodes_and_her_own_key_lets_her_in(here: Here) -> None:
    """Of hpcforge's making is only that nobody is asked about hosts; without a key of hers she stays outside."""
    here.with_users(f'ada: {{uid: 2001, keys: ["{here.key_of("ada")}"]}}')
    done = here.cli("apply", "--yes")
    assert done.returncode == 0, done.stderr
    address = here.lab.node("n2").address
    assert "Permission denied (publickey" in here.ask(address)
    assert here.ask_forwarding("ada", address) == "n2\n"  # and no job of hers is there
    here.inside("n1", "su ada -c 'mkdir -m 0700 ~/.ssh; ssh-keygen -q -t ed25519 -N \"\" -f ~/.ssh/id_ed25519'")
    public = here.inside("n1", "cat /home/ada/.ssh/id_ed25519.pub").strip()
    here.inside(
        "n2", f"su ada -c 'mkdir -p -m 0700 ~/.ssh; echo {public} >~/.ssh/authorized_keys'; chmod 600 ~ada/.ssh/*"
    )
    here.inside("n1", f"echo '{address} n2.trust.example.org n2' >>/etc/hosts")
    for name in ("n2", "n2.trust.example.org", address):
        assert here.ask(name) == "n2\n"
    assert here.inside("n1", "test -e /home/ada/.ssh/known_hosts", check=False) == ""


def test_a_new_authority_is_brought_to_all(here: Here) -> None:
    before = here.inside("n1", "cat /etc/ssh/ssh_known_hosts2")
    environment = {**os.environ, "HPCFORGE_IDENTITY": str(here.blueprint.with_name("age.key"))}
    rotate = [sys.executable, "-m", "hpcforge", "secrets", "rotate", str(here.blueprint), "ssh_host_ca"]
    subprocess.run(rotate, env=environment, check=True, capture_output=True)
    done = here.cli("apply", "--yes")
    assert done.returncode == 0, done.stderr
    assert here.inside("n1", "cat /etc/ssh/ssh_known_hosts2") not in ("", before)
    assert here.ask(here.lab.node("n2").address) == "n2\n"
    assert here.cli("plan").returncode == 0


# hpcforge as it will be or was some steps of host certificates from now.
IN_ANOTHER_STEP = f"""
import runpy, sys
from hpcforge.secrets import host_certificates
now = host_certificates.current_step()
host_certificates.current_step = lambda: now + {{steps}}
sys.argv[0] = {WITH_ROLES!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("steps", "why", "status"), [(-2, "expired", "expired "), (2, "not yet valid", "is not valid for another ")]
)
def test_certificates_end_and_an_apply_renews_them(here: Here, steps: int, why: str, status: str) -> None:
    n2 = here.lab.node("n2").address
    assert here.cli("apply", "--yes", start=("-c", IN_ANOTHER_STEP.format(steps=steps))).returncode == 0
    said = here.ask(n2)
    assert why in said
    assert "Host key verification failed." in said
    shown = here.cli("status").stdout
    assert f"the certificate of ssh.service (/etc/ssh/hpcforge_host_certificate.pub) {status}" in shown
    assert "certificates on n[1-2] are renewed by: " in shown
    assert here.cli("plan").returncode == 2
    assert here.cli("apply", "--yes").returncode == 0
    assert here.ask(n2) == "n2\n"
    assert here.cli("plan").returncode == 0
    assert here.cli("plan", start=("-c", IN_ANOTHER_STEP.format(steps=1))).returncode == 2  # 90 days later: new ones


def test_a_node_with_another_name_is_refused_and_nothing_done_to_it(here: Here) -> None:
    before = here.inside("n2", "cat /var/lib/hpcforge/receipt.json")
    blueprint, inventory = here.blueprint.read_text(), here.inventory.read_text()
    here.blueprint.write_text(blueprint.replace("  n2:", "  n9:"))
    here.inventory.write_text(inventory.replace("n2:", "n9:"))
    try:
        for verb in (["plan"], ["apply", "--yes"], ["apply", "--yes", "--limit", "n9"]):
            done = here.cli(*verb)
            assert done.returncode == 3
            assert "n2 leaves, and n9 has the same address or host key" in done.stderr
            assert "nodes remove" in done.stderr
        assert here.inside("n2", "cat /var/lib/hpcforge/receipt.json") == before
    finally:
        here.blueprint.write_text(blueprint)
        here.inventory.write_text(inventory)
    assert "leaving" not in here.cli("plan").stdout


HERS = "sh -c 'ls -A /home/ada/.ssh; stat -c %U:%a /home/ada/.ssh; readlink /home/ada/.ssh/authorized_keys'"


def test_keys_of_an_earlier_hpcforge_move_out_of_homes(here: Here) -> None:
    """What was there before is hers again, the new place is read before the old one is given up."""
    new = here.users_role.read_text()
    for node in ("n1", "n2"):
        here.inside(
            node, "su ada -c 'mkdir -p -m 0700 ~/.ssh; rm -f ~/.ssh/*; ln -s ../elsewhere ~/.ssh/authorized_keys'"
        )
    before = [here.inside(node, HERS) for node in ("n1", "n2")]
    here.with_users(f'ada: {{uid: 2001, keys: ["{here.key_of("ada")}"]}}')
    here.users_role.write_text(KEYS_IN_HOMES)
    assert here.cli("apply", "--yes").returncode == 0
    assert here.inside("n2", "test -f /home/ada/.ssh/authorized_keys && echo file") == "file\n"
    assert here.logs_in("ada", "n2")
    here.users_role.write_text(new)
    done = here.cli("apply", "--yes")
    assert done.returncode == 0, done.stderr
    assert [here.inside(node, HERS) for node in ("n1", "n2")] == before
    assert here.inside("n2", "stat -c %U /home/ada/.ssh/authorized_keys") == "ada\n"
    assert all(here.logs_in("ada", node) for node in ("n1", "n2"))
    assert here.inside("n2", "stat -c %U:%a /etc/ssh/authorized_keys.d/ada") == "root:644\n"
    assert here.cli("plan").returncode == 0


def test_keys_that_leave_let_nobody_in(here: Here) -> None:
    here.with_users("ada: {uid: 2001}")
    done = here.cli("apply", "--yes")
    assert done.returncode == 0, done.stderr
    assert not here.logs_in("ada", "n2")
    assert (
        here.inside("n2", "ls /etc/ssh/authorized_keys.d /etc/ssh/sshd_config.d/hpcforge_authorized*", check=False)
        == ""
    )
    assert here.cli("plan").returncode == 0


def test_users_that_would_lock_hpcforge_out_are_taken_back(here: Here) -> None:
    """Keys are read from /etc/ssh alone, and the login user has none there."""
    new = here.users_role.read_text()
    here.with_users(f'ada: {{uid: 2001, keys: ["{here.key_of("ada")}"]}}')
    here.users_role.write_text(new.replace(".ssh/authorized_keys .ssh/authorized_keys2 ", ""))
    done = here.cli("apply", "--yes")
    assert done.returncode != 0
    assert "no new connection after the change" in done.stdout + done.stderr
    for node in ("n1", "n2"):
        _until(lambda node=node: here.inside(node, "test ! -e /etc/ssh/authorized_keys.d/ada && echo gone") == "gone\n")
    here.users_role.write_text(new)
    assert "reverted" in here.cli("plan").stdout
    assert here.cli("apply", "--yes").returncode == 0
    assert here.logs_in("ada", "n2")


def test_the_login_users_only_key_is_not_taken_away(here: Here) -> None:
    """Keys that leave are guarded as keys that come."""
    public = here.lab.key.with_name("key.pub").read_text().strip()
    uid = here.inside("n1", "id -u ops").strip()
    here.with_users("ada: {uid: 2001}", f'ops: {{uid: {uid}, keys: ["{public}"]}}')
    assert here.cli("apply", "--yes").returncode == 0
    own = "/home/ops/.ssh/authorized_keys"
    for node in ("n1", "n2"):
        here.inside(node, f"mv {own} {own}.away")
    try:
        here.with_users("ada: {uid: 2001}", f"ops: {{uid: {uid}}}")
        done = here.cli("apply", "--yes")
        assert done.returncode != 0
        for node in ("n1", "n2"):
            _until(lambda node=node: "ssh-" in here.inside(node, "cat /etc/ssh/authorized_keys.d/ops", check=False))
        plan = here.cli("plan")
        assert plan.returncode == 2
        assert "users: file /etc/ssh/authorized_keys.d/ops" in plan.stdout
    finally:
        for node in ("n1", "n2"):
            here.inside(node, f"mv {own}.away {own}")
    assert here.cli("apply", "--yes").returncode == 0
    assert here.inside("n1", "ls /etc/ssh/authorized_keys.d", check=False) == ""


def _until(holds: Callable[[], bool], timeout_s: float = BECOMES_S) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(AssertionError):  # nobody is let in meanwhile
            if holds():
                return
        assert time.monotonic() < deadline
        time.sleep(2)


def test_a_jump_host_that_is_no_node_is_recorded_with_its_user(here: Here) -> None:
    """n1 as a machine of the site's: another blueprint, which has only n2."""
    n1 = here.lab.node("n1").address
    text = here.blueprint.read_text().replace("via: n1", f"via: {{host: {n1}, user: ops}}")
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(("  n1:", "inventory:"))]
    text = "".join(lines).replace("functions: [worker]", "functions: [head, worker]").replace("on: n1", "on: n2")
    behind = Here(here.lab, here.blueprint.with_name("behind.yaml"))
    behind.blueprint.write_text(text.replace("controller: n1", "controller: n2"))
    done = behind.cli("plan", "--trust-new")
    assert done.returncode == 2
    recorded = yaml.safe_load(here.blueprint.with_name("behind.inventory.yaml").read_text())
    known = yaml.safe_load(here.lab.inventory.read_text())["nodes"]
    assert recorded["access"]["via"]["host"] == n1
    assert recorded["access"]["via"]["host_keys"][0].split()[1] == known["n1"]["host_keys"][0].split()[1]
    assert list(recorded["nodes"]) == ["n2"]
    assert behind.cli("plan").returncode == 2


def test_another_machine_under_the_name_is_refused(here: Here) -> None:
    """The authority vouches for recorded keys only."""
    key = "/etc/ssh/ssh_host_ed25519_key"
    certificate = "/etc/ssh/hpcforge_host_certificate.pub"
    old = "/root/old_key"  # whoever had root there has it, and its certificate: on another port, the old machine
    sshd = f"/usr/sbin/sshd -D -p 2222 -o UsePAM=yes -o HostKey={old} -o HostCertificate={old}-cert.pub -f /dev/null"
    keep = f"cp {key} {old}; cp {certificate} {old}-cert.pub; systemd-run --quiet --unit old {sshd}"
    here.inside("n2", f"{keep}; rm {key}*; ssh-keygen -q -t ed25519 -N '' -f {key}; systemctl restart ssh")
    assert here.ask(here.lab.node("n2").address).strip().endswith("Host key verification failed.")
    done = here.cli("apply", "--yes", "--trust-new")
    assert done.returncode == 4
    assert "the host key of n2" in done.stdout + done.stderr
    assert "nodes replace" in done.stdout + done.stderr


def test_the_key_of_a_machine_that_was_replaced_is_revoked(here: Here) -> None:
    """Whoever has the old machine's key and its certificate, which is still valid, passes for it no more."""
    address = here.lab.node("n2").address
    ask = f"ssh -p 2222 -o HostKeyAlias=n2 -o BatchMode=yes -o StrictHostKeyChecking=yes {address} hostname"

    def passes() -> str | None:
        """None, or why the host on that port does not pass for n2; whether ada may log in there is another matter."""
        said = here.inside("n1", f"su ada -c '{ask}' 2>&1", check=False)
        return None if said == "n2\n" or "Permission denied" in said else said

    assert passes() is None
    environment = {**os.environ, "HPCFORGE_IDENTITY": str(here.blueprint.with_name("age.key"))}
    replace = [sys.executable, "-m", "hpcforge", "nodes", "replace", str(here.blueprint), "n2", "--yes"]
    subprocess.run(replace, env=environment, check=True, capture_output=True)
    plan = str(here.blueprint.with_name("replaced.plan"))  # made before, it revokes no less
    assert here.cli("plan", "--trust-new", "-o", plan).returncode == 2
    done = here.cli("apply", "--yes", "--plan", plan)
    assert done.returncode == 0, done.stderr
    assert "Host key verification failed." not in here.ask(address)
    said = passes() or ""
    assert "REVOKED" in said
    assert "Host key verification failed." in said
    assert here.cli("plan").returncode == 0  # revoked it stays, though no roster knows the old key any more
    assert here.inside("n1", "grep -c ^@revoked /etc/ssh/ssh_known_hosts2") == "3\n"
