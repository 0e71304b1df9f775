"""A site of two nodes and four small roles, the real command line on it, and what happens to both from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge.lab import lab as labs
from hpcforge.lab.kinds import kind_of
from hpcforge.lab.nspawn import machines
from tests.support.said import end_of

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
WITH_ROLES = str(REPOSITORY / "tests" / "support" / "with_roles.py")
NODES = ("n01", "n02")
ROLES = ("ground", "relay", "client", "wall")
# hpcforge with the clock of certificates some steps away, and `tests/support/with_roles.py` run as its file is.
IN_ANOTHER_STEP = f"""
import runpy, sys
from hpcforge.secrets import host_certificates
now = host_certificates.current_step()
host_certificates.current_step = lambda: now + (%d)
sys.argv[0] = {WITH_ROLES!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_BARE = "bare"  # the save of both nodes before the first apply

# What "equal" means: files with rights and content, package versions, units, accounts, and that nothing is under way.
_STATE = r"""
cd /etc/faults 2>/dev/null && stat -c '%n %a %U:%G' * && sha256sum *
stat -c '%n %a %U:%G' /var/lib/faults /etc/nftables.conf /etc/systemd/system/relay.service \
  /etc/systemd/system/client.service 2>/dev/null
sha256sum /etc/nftables.conf /etc/systemd/system/relay.service /etc/systemd/system/client.service 2>/dev/null
dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n'
dpkg --audit
for unit in relay client nftables; do
  echo "$unit $(systemctl is-enabled $unit 2>&1) $(systemctl is-active $unit)"
done
getent passwd fora; getent group fora; stat -c '%n %a %U' /home/fora 2>/dev/null
find /etc /var/lib/hpcforge /opt -newer /etc/hostname \( -name '.*hpcforge*' -o -name '*.tmp' \) 2>/dev/null
ls /etc/systemd/system | grep -i hpcforge || true
nft list ruleset 2>/dev/null
true
"""


@dataclass
class Running:
    """An apply under way, its events read as they come."""

    process: subprocess.Popen[str]
    stderr: Path
    events: list[dict[str, Any]] = field(default_factory=list)

    def next(self) -> dict[str, Any] | None:
        """The next event, None at the end of the output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith("\n"):  # one that was killed may end within a line
            return None
        self.events.append(json.loads(line))
        return self.events[-1]

    def until(self, kind: str, /, **values: str) -> dict[str, Any]:
        """Read on to an event of a kind, with these values."""
        while (event := self.next()) is not None:
            if event["event"] == kind and all(event.get(key) == value for key, value in values.items()):
                return event
        raise AssertionError(f"no {kind} {values} came; it said:\n{self.stderr.read_text()}")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command itself, as `kill` does: its children are not told."""
        self.process.send_signal(number)

    def end(self, timeout_s: float = 120) -> int:
        """Read everything to its end; the exit status."""
        assert self.process.stdout is not None
        while self.next() is not None:
            pass
        self.process.stdout.close()
        return self.process.wait(timeout_s)

    def said(self) -> str:
        """What it said to people, so far."""
        return self.stderr.read_text()


@dataclass
class Site:
    """The blueprint, the roles and the state of an operator host in a folder of their own; the nodes of a lab."""

    folder: Path
    name: str
    lab: labs.Lab
    started: list[Running] = field(default_factory=list)

    @property
    def blueprint(self) -> Path:
        return self.folder / "site.yaml"

    @property
    def roles(self) -> Path:
        return self.folder / "roles"

    def _words(self, arguments: Sequence[str], steps: int = 0) -> list[str]:
        verb, *options = arguments
        program = [WITH_ROLES] if steps == 0 else ["-c", IN_ANOTHER_STEP % steps]
        return [sys.executable, "-P", *program, str(self.roles), verb, str(self.blueprint), *options]

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        own = {
            "HPCFORGE_LAB": self.name,
            "HPCFORGE_IDENTITY": str(self.folder / "age.key"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        return {**os.environ, **own, **more}

    def run(
        self, *arguments: str, within: Sequence[str] = (), env: Mapping[str, str] | None = None, steps: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """hpcforge to its end. `within`: a command that it is run by, such as `ip netns exec NAME`.

        `steps`: as it will be or was so many steps of certificates from now.
        """
        words = [*within, *self._words(arguments, steps)]
        done = subprocess.run(
            words, env=self._environment(env or {}), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=400, check=False,
        )  # fmt: skip
        said = end_of(done.stderr) + end_of(done.stdout)
        print(f"$ hpcforge {' '.join(arguments)}\n{said}exit status {done.returncode}\n")
        return done

    def apply(self, *options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """`hpcforge apply --yes`, which must end with this exit status."""
        done = self.run("apply", "--yes", *options)
        assert done.returncode == code, done.stderr + done.stdout
        return done

    def start(self, *options: str, within: Sequence[str] = (), env: Mapping[str, str] | None = None) -> Running:
        """`hpcforge apply --yes --json` in the background."""
        stderr = self.folder / f"stderr-{time.monotonic_ns()}"
        words = [*within, *self._words(("apply", "--yes", "--json", *options))]
        with stderr.open("w") as log:
            process = subprocess.Popen(
                words, env=self._environment(env or {}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip
        self.started.append(Running(process, stderr))
        return self.started[-1]

    def end_all(self) -> None:
        """End what a test that failed has left running."""
        for run in self.started:
            if run.process.stdout is not None and not run.process.stdout.closed:
                run.process.kill()
                run.process.stdout.close()
            run.process.wait()
        self.started.clear()

    def inside(self, node: str, script: str, timeout_s: float = 60) -> str:
        """A script on a node as root, by OpenSSH; what it printed."""
        argv = labs.ssh_argv(self.lab, node, ["sudo", "-n", "sh", "-c", script])
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout_s)
        assert done.returncode == 0, f"on {node}: {script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def enter(self, node: str, script: str) -> str:
        """A script on a node as root, by way of this host: where no network leads there. What it printed."""
        words = ["nsenter", "--target", str(self.pid(node)), "--all", "sh", "-c", script]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60).stdout

    def state(self) -> dict[str, str]:
        """Everything about the nodes that applies are to make equal, however they went."""
        with ThreadPoolExecutor() as pool:
            return dict(zip(NODES, pool.map(lambda node: self.inside(node, _STATE), NODES), strict=True))

    def hold_dpkg(self, node: str) -> None:
        """Let another program hold dpkg's lock until `release_dpkg`: an apply stays at work on packages."""
        code = (
            "import fcntl, time; f = open('/var/lib/dpkg/lock-frontend', 'w'); "
            "fcntl.lockf(f, fcntl.LOCK_EX); open('/run/held', 'w'); time.sleep(600)"
        )
        self.inside(
            node, f'systemd-run -q --unit=holder python3 -c "{code}"; until [ -e /run/held ]; do sleep 0.1; done'
        )

    def release_dpkg(self, node: str) -> None:
        """Let go of it."""
        self.inside(node, "systemctl stop holder; rm /run/held")

    def pid(self, node: str) -> int:
        """The node's process 1, seen from here."""
        found = machines._init(self.lab.machine(node))
        assert found is not None
        return found

    def power_off(self, node: str) -> None:
        """The plug is pulled: every process of the node ends at once."""
        kind_of(self.lab).stop(self.lab, self.lab.node(node), graceful=False)

    def power_on(self, node: str) -> None:
        """The node boots with the disk it had."""
        kind_of(self.lab).start(self.lab, self.lab.node(node))

    def link(self, node: str, state: str) -> None:
        """Cut ("down") or mend ("up") a node's network cable."""
        subprocess.run(["ip", "link", "set", f"vb-{self.lab.machine(node)}"[:15], state], check=True)

    def restore(self) -> None:
        """The blueprint and the roles as they came."""
        shutil.rmtree(self.roles, ignore_errors=True)
        shutil.copytree(HERE / "roles", self.roles)
        shutil.copy(HERE / "site.yaml", self.blueprint)

    def fresh(self) -> None:
        """Both nodes as they were before the first apply, host keys and all."""
        self.lab = labs.restore(self.name, _BARE, print)
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def template(self, role: str, name: str) -> Path:
        """The template of a role with this name, in whichever folder."""
        (path,) = (self.roles / role / "files").rglob(name)
        return path

    def edit(self, role: str, template: str, old: str, new: str) -> None:
        """Change a role's template."""
        path = self.template(role, template)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def revise(self, role: str, template: str) -> str:
        """Give a template something new to say, as if somebody had worked on it; the new line."""
        line = f"# revision {time.monotonic_ns()}"
        path = self.template(role, template)
        path.write_text(line + "\n" + path.read_text().partition("\n")[2])
        return line


@pytest.fixture(scope="module")
def lab_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("faults")
    name = f"test-faults-{os.getpid()}"
    shutil.copy(HERE / "site.yaml", folder / "site.yaml")
    said: list[str] = []
    try:
        labs.up(
            labs.UpRequest(
                name=name,
                nodes=tuple(labs.LabNode(node, entry["addresses"]) for node, entry in _nodes(folder).items()),
                cidr="10.77.0.0/24",
                login_user="ops",
                release="12",
                blueprint=folder / "site.yaml",
            ),
            said.append,
        )
        yield Site(folder, name, labs.save(name, _BARE, said.append))
    finally:
        labs.down(name, None, said.append)


def _nodes(folder: Path) -> dict[str, Any]:
    nodes: dict[str, Any] = yaml.safe_load((folder / "site.yaml").read_text())["nodes"]
    return nodes


_FAILED: list[str] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed: what it left must not make others fail."""
    report = yield
    if report.failed:
        _FAILED.append(item.nodeid)
    return report


@pytest.fixture
def site(lab_site: Site) -> Iterator[Site]:
    """The site with its own roles again, whatever the test before did to them; nodes as that test left them.

    After a test that failed the nodes are fresh, too.
    """
    lab_site.restore()
    if _FAILED:
        _FAILED.clear()
        lab_site.fresh()
    yield lab_site
    lab_site.end_all()
