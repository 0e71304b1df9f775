"""The code of role pytorch, run by pyinfra on this machine with an /opt and a /tmp of its own.

The wheel is a small one that has torch's names; the nodes of tests/stories build the real one.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge import bundled
from tests.support.own_tmp import own_tmp

PIP = list(Path("/usr/share/python-wheels").glob("pip-*.whl"))
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for mounts of its own"),
    pytest.mark.skipif(not PIP, reason="Debian's python3-pip-whl is not installed here"),
]
DEPLOY = bundled.root() / "roles" / "pytorch" / "deploy.py"
DEPLOYS = (sys.executable, "-m", "pyinfra", "@local", str(DEPLOY), "-y", "--data", "build=wheel")
VENV = Path("/opt/hpcforge/pytorch")
WHEELS = "/opt/wheels"
# What torch does as it is used: it makes its cache in TMPDIR, by the user's name.
TORCH = """
import getpass, os, tempfile
VERSION = {version!r}
zeros = range
class optim:
    def SGD(parameters, lr):
        cache = f"{{tempfile.gettempdir()}}/torchinductor_{{getpass.getuser()}}"
        os.makedirs(os.environ.get("TORCHINDUCTOR_CACHE_DIR", cache), exist_ok=True)
{more}
"""


def wheel(folder: Path, version: str, more: str = "") -> Path:
    """A wheel of a torch that says its version."""
    path = folder / f"torch-{version}-py3-none-any.whl"
    files = {
        "torch/__init__.py": TORCH.format(version=version, more=more),
        "torch/distributed/__init__.py": "",
        "torch/distributed/run.py": "",
        "torch/nn/__init__.py": "",
        "torch/nn/parallel.py": "",
        f"torch-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
        f"torch-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"torch-{version}.dist-info/RECORD"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(record, "".join(f"{name},,\n" for name in (*files, record)))
    return path


@dataclass(frozen=True)
class Machine:
    """A mount namespace with an /opt and a /tmp of its own, kept by a process."""

    pid: int
    wheels: Path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        words = ["nsenter", f"--target={self.pid}", "--mount", "--wd=/", *command]
        where = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **environment}
        return subprocess.run(words, env=where, capture_output=True, text=True, check=False, timeout=120)

    def wants(self, version: str, more: str = "") -> None:
        """Write the requirements, as the role's file has them."""
        file = wheel(self.wheels, version, more)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        text = f"file://{WHEELS}/{file.name} --hash=sha256:{digest}\n"
        self.run(
            "sh", "-c", 'mkdir -p /opt/hpcforge && printf %s "$1" > /opt/hpcforge/pytorch.requirements', "sh", text
        )

    def deploy(self) -> subprocess.CompletedProcess[str]:
        return self.run(*DEPLOYS)

    def version(self) -> str:
        """What a job imports."""
        return self.run(f"{VENV}/bin/python", "-c", "import torch; print(torch.VERSION)").stdout.strip()

    def builds(self) -> list[str]:
        return self.run("ls", "-A", f"{VENV}-builds").stdout.split()

    def linked(self) -> str:
        return self.run("readlink", str(VENV)).stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    mounts = f"mount -t tmpfs none /opt && mkdir {WHEELS} && mount --bind {tmp_path} {WHEELS} && {own_tmp()}"
    command = ["unshare", "--mount", "sh", "-c", f"{mounts} && echo up && exec sleep 600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        yield Machine(process.pid, tmp_path)
        process.kill()


def test_a_build_takes_the_place_of_the_one_before(machine: Machine) -> None:
    for version in ("1.0", "2.0"):
        machine.wants(version)
        done = machine.deploy()
        assert done.returncode == 0, done.stderr
        assert machine.version() == version
        assert machine.builds() == [machine.linked().rpartition("/")[2]]
    before = machine.linked()
    assert machine.deploy().returncode == 0
    assert machine.linked() == before  # nothing to do
    where = "import sys, sysconfig; print(sys.prefix, sysconfig.get_path('purelib').startswith(sys.prefix))"
    assert machine.run(f"{VENV}/bin/python", "-c", where).stdout == f"{VENV} True\n"


BREAKS = {
    "no wheel": "",
    "import fails": "raise ImportError('broken')",
}


@pytest.mark.parametrize("how", BREAKS)
def test_what_works_stays_where_a_build_fails(how: str, machine: Machine) -> None:
    machine.wants("1.0")
    assert machine.deploy().returncode == 0
    before, builds = machine.linked(), machine.builds()
    machine.wants("2.0", more=BREAKS[how])
    if how == "no wheel":
        (machine.wheels / "torch-2.0-py3-none-any.whl").unlink()
    assert machine.deploy().returncode != 0
    assert (machine.version(), machine.linked(), machine.builds()) == ("1.0", before, builds)
    machine.wants("2.0")
    assert machine.deploy().returncode == 0
    assert machine.version() == "2.0"


def test_what_works_stays_where_a_build_is_killed(machine: Machine) -> None:
    machine.wants("1.0")
    assert machine.deploy().returncode == 0
    before = machine.linked()
    machine.wants("2.0", more="import time; time.sleep(600)")
    command = ["nsenter", f"--target={machine.pid}", "--mount", "--wd=/", *DEPLOYS]
    imports = f"ls {VENV}-builds/*/private && pgrep --full '[p]ytorch-builds/.*/bin/python -W'"  # not sh itself
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0) as process:
        try:
            deadline = time.monotonic() + 60
            while machine.run("sh", "-c", imports).returncode:
                assert time.monotonic() < deadline, "it never came to import torch"
                time.sleep(0.1)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert (machine.version(), machine.linked()) == ("1.0", before)
    machine.wants("2.0")
    assert machine.deploy().returncode == 0
    assert (machine.version(), len(machine.builds())) == ("2.0", 1)


def test_the_folder_of_an_earlier_hpcforge_is_replaced(machine: Machine) -> None:
    machine.run("sh", "-c", f"mkdir -p /opt/hpcforge && /usr/bin/python3 -m venv --without-pip {VENV}")
    machine.wants("1.0")
    assert machine.deploy().returncode == 0
    assert (machine.version(), len(machine.builds())) == ("1.0", 1)


def test_names_that_users_took_in_tmp_stop_no_build(machine: Machine) -> None:
    machine.run("touch", "/tmp/torchinductor_root")
    there = machine.run("ls", "-A", "/tmp").stdout
    assert "torchinductor_root" in there
    machine.wants("1.0")
    done = machine.deploy()
    assert done.returncode == 0, done.stderr
    assert (machine.version(), machine.builds()) == ("1.0", [machine.linked().rpartition("/")[2]])
    before = machine.linked()
    assert machine.deploy().returncode == 0
    assert machine.linked() == before
    assert machine.run("ls", "-A", "/tmp").stdout == there
