"""How `converge.py` runs each tool on the nodes of a lab, and what that costs the operator host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rounds import Cost, median

from hpcforge.lab import lab as labs

BIN = Path(sys.executable).parent
REPOSITORY = Path(__file__).resolve().parents[1]
_SAMPLE_S = 0.4
_LONGEST_S = 1800


class BenchmarkError(Exception):
    """A tool failed, so there is nothing to measure."""


@dataclass(frozen=True)
class Bench:
    """A folder with the tools' inputs, and the nodes of a lab to run them on."""

    folder: Path
    lab: labs.Lab
    nodes: tuple[str, ...]

    @property
    def blueprint(self) -> Path:
        """hpcforge's blueprint for just these nodes."""
        return self.folder / f"bench-{len(self.nodes)}.yaml"

    def address(self, node: str) -> str:
        """Where a node answers."""
        return self.lab.node(node).address

    def control(self, node: str) -> Path:
        """The socket of the connection that the floor finds open."""
        return self.folder / f"ssh-{node}"


def hpcforge(bench: Bench, checkout: Path = REPOSITORY) -> Cost:
    """The real command line, as its user types it; of this checkout or of another one."""
    [with_roles] = checkout.glob("tests/**/with_roles.py")  # another checkout may have it elsewhere
    roles = str(bench.folder / "roles")
    return run(
        bench,
        [sys.executable, "-P", str(with_roles), roles, "apply", str(bench.blueprint), "--yes"],
        {
            "HPCFORGE_LAB": bench.lab.name,
            "HPCFORGE_IDENTITY": str(bench.folder / "age.key"),
            "XDG_STATE_HOME": str(bench.folder / "state"),
            "PYTHONPATH": str(checkout),
        },
    )


def ansible(bench: Bench) -> Cost:
    """ansible-playbook with what makes it quick: pipelining, a fork a node, kept connections, no facts."""
    hosts = {
        node: {
            "ansible_host": bench.address(node),
            "ansible_user": bench.lab.login_user,
            "ansible_ssh_private_key_file": str(bench.lab.key),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        for node in bench.nodes
    }
    inventory = bench.folder / "ansible.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
    words = [str(BIN / "ansible-playbook"), "-i", str(inventory), str(bench.folder / "playbook.yaml")]
    settings = {
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_FORKS": str(len(bench.nodes)),
        "ANSIBLE_SSH_ARGS": "-F /dev/null -o ControlMaster=auto -o ControlPersist=60s "
        f"-o UserKnownHostsFile={bench.lab.known_hosts} -o StrictHostKeyChecking=yes",
        "ANSIBLE_HOME": str(bench.folder / "ansible"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(bench.folder / "cp"),
    }
    return run(bench, words, settings)


def pyinfra(bench: Bench) -> Cost:
    """The pyinfra CLI, all nodes at once."""
    hosts = [
        (
            bench.address(node),
            {
                "node": node,
                "ssh_user": bench.lab.login_user,
                "ssh_key": str(bench.lab.key),
                "ssh_known_hosts_file": str(bench.lab.known_hosts),
                "ssh_strict_host_key_checking": "yes",
                "ssh_config_file": "/dev/null",
                "_sudo": True,
            },
        )
        for node in bench.nodes
    ]
    inventory = bench.folder / "inventory.py"
    inventory.write_text(f"nodes = {hosts!r}\n")
    return run(bench, [str(BIN / "pyinfra"), "-y", str(inventory), str(bench.folder / "deploy.py")], {})


def floor(bench: Bench, runs: int = 1) -> Cost:
    """One shell script a node, all nodes at once, over open OpenSSH connections; the median of some runs over them."""
    with _connections(bench):
        words = [f"{_ssh(bench, node)} 'sudo sh -s' < {bench.folder}/floor.sh" for node in bench.nodes]
        waits = "\n".join(f'{word} &\npids="$pids $!"' for word in words)
        script = f'pids=\n{waits}\nfor pid in $pids; do wait "$pid" || exit 1; done'
        return median([run(bench, ["sh", "-c", script], {}) for _ in range(runs)])


def _ssh(bench: Bench, node: str) -> str:
    known = f"-o UserKnownHostsFile={bench.lab.known_hosts} -o GlobalKnownHostsFile=/dev/null"
    path = f"-o ControlPath={bench.control(node)}"
    return f"ssh -F /dev/null -i {bench.lab.key} {path} {known} {bench.lab.login_user}@{bench.address(node)}"


@contextmanager
def _connections(bench: Bench) -> Iterator[None]:
    opened = []
    try:
        for node in bench.nodes:
            words = _ssh(bench, node).split()
            subprocess.run(
                [*words, "-M", "-N", "-f", "-o", "ControlPersist=yes"], check=True, stderr=subprocess.DEVNULL
            )
            opened.append(words)
        yield
    finally:
        for words in opened:
            subprocess.run([*words, "-O", "exit"], check=False, capture_output=True)


def ready(bench: Bench, debs: Path) -> None:
    """Give every node the packages, so that no tool waits for a network; wait until it has finished booting."""
    for node in bench.nodes:
        archives = bench.lab.node_directory(node) / "root/var/cache/apt/archives"
        subprocess.run(["cp", "-a", *map(str, sorted(debs.glob("*.deb"))), str(archives)], check=True)
    _everywhere(bench, "systemctl is-system-running --wait >/dev/null || true")


def check(bench: Bench) -> None:
    """Every node has every resource. Raises BenchmarkError that says what is missing where."""
    said = _everywhere(bench, (bench.folder / "check.sh").read_text())
    if said:
        raise BenchmarkError(said)


def _everywhere(bench: Bench, script: str) -> str:
    """Run a script on all nodes; what those said on which it failed."""
    started = [
        subprocess.Popen(
            labs.ssh_argv(bench.lab, node, ["sudo", "sh", "-c", script]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in bench.nodes
    ]
    ends = [(process.communicate()[0], process.returncode) for process in started]
    return "".join(said for said, code in ends if code != 0)


def run(bench: Bench, words: Sequence[str], settings: Mapping[str, str], ends: Collection[int] = (0,)) -> Cost:
    """Run a program to its end, with one of these exit statuses. CPU is of all processes that it waited for."""
    environment = {**os.environ, **settings}
    with (bench.folder / "output.log").open("w+") as log:
        before_s = _nodes_cpu_s(bench)
        start = time.perf_counter()
        process = subprocess.Popen(
            words, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        memory = _Memory(process.pid)
        try:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            wall_s = time.perf_counter() - start
        finally:
            highest_mib, processes = memory.stop()
            if process.returncode is None:  # we are interrupted: the tool, too
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
        if process.returncode not in ends:
            log.seek(0)
            raise BenchmarkError(f"{' '.join(words[:4])}: exit status {process.returncode}\n{log.read()[-3000:]}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, highest_mib, _nodes_cpu_s(bench) - before_s, processes)


def _nodes_cpu_s(bench: Bench) -> float:
    """CPU seconds of all processes of these nodes since they were started, by their control groups."""
    groups = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")]
    root = next(group for group in groups if (group / "cgroup.controllers").exists())
    mine = tuple(f"hpcforge-{bench.lab.machine(node)}" for node in bench.nodes)
    found = 0.0
    for folder, inside, _ in os.walk(root):  # which minds no group that goes meanwhile
        if Path(folder).name.startswith(mine):
            found += int((Path(folder) / "cpu.stat").read_text().split()[1]) / 1e6
            inside.clear()  # it is counted
    return found


class _Memory:
    """Looks at the memory of a process and its descendants again and again: proportional set size, summed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._highest_kib = self._most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def stop(self) -> tuple[float, int]:
        """Stop looking; the highest sum, MiB, and the most processes."""
        self._ended.set()
        self._thread.join()
        return self._highest_kib / 1024, self._most

    def _look(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            family = _family(self._pid)
            self._most = max(self._most, len(family))
            self._highest_kib = max(self._highest_kib, sum(map(_pss_kib, family)))


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        children.setdefault(int(words[1]), []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def _pss_kib(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
